"""The exception tree: one base, and a setting's error that says all."""

from __future__ import annotations

import inspect

import pytest

from aot_cache import errors
from aot_cache.errors import AotCacheError, EnvelopeError, ForeignEntry, SettingError, StoreError

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, BaseException)]


def test_everything_derives_from_one_base_so_that_one_except_clause_is_enough() -> None:
    assert len(ALL) > 5
    assert all(issubclass(cls, AotCacheError) for cls in ALL)
    assert issubclass(AotCacheError, Exception)


@pytest.mark.parametrize("cls", ALL)
def test_every_error_says_when_it_is_raised(cls: type[BaseException]) -> None:
    assert cls.__doc__ and cls.__doc__.strip().endswith(".")


def test_what_callers_tell_apart() -> None:
    assert issubclass(errors.UnsafeDirectory, StoreError) and issubclass(errors.EntryTooLarge, StoreError)
    assert issubclass(ForeignEntry, EnvelopeError)
    assert not issubclass(EnvelopeError, StoreError) and not issubclass(StoreError, EnvelopeError)
    assert issubclass(SettingError, ValueError)


def test_a_setting_error_holds_name_value_and_what_is_allowed() -> None:
    error = SettingError("AOT_CACHE_MODE", "w\n", "one of a, b")
    assert str(error) == "AOT_CACHE_MODE='w\\n' is not valid: it must be one of a, b"
    assert (error.name, error.value, error.allowed) == ("AOT_CACHE_MODE", "w\n", "one of a, b")
