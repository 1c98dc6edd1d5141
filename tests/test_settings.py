"""Settings: arguments over environment over defaults, and every bad value named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.errors import SettingError
from aot_cache.settings import _SOURCES, Settings, parse_size, unknown

VARIABLES = {
    "enabled": "AOT_CACHE",
    "directory": "AOT_CACHE_DIR",
    "size_limit": "AOT_CACHE_SIZE_LIMIT",
    "mode": "AOT_CACHE_MODE",
    "assert_hit": "AOT_CACHE_ASSERT_HIT",
    "wait": "AOT_CACHE_WAIT",
    "verify": "AOT_CACHE_VERIFY",
    "frames": "AOT_CACHE_FRAMES",
    "cpu": "AOT_CACHE_CPU",
}
# By field: text, the value it stands for, and another text with another value.
GOOD: dict[str, tuple[str, Any, str]] = {
    "enabled": ("0", False, "1"),
    "directory": ("/x/y", Path("/x/y"), "/z"),
    "size_limit": ("5MB", 5_000_000, "6MB"),
    "mode": ("readonly", "readonly", "refresh"),
    "assert_hit": ("1", True, "0"),
    "wait": ("2.5", 2.5, "3"),
    "verify": ("0.25", 0.25, "1"),
    "frames": ("0", False, "1"),
    "cpu": ("x86-64-v3", "x86-64-v3", "x86-64-v4"),
}
BAD: dict[str, list[Any]] = {
    "enabled": ["2", "maybe", "-1", "0.0"],
    "directory": ["a\0b", "~no-such-user-at-all/x"],
    "size_limit": ["lots", "0", "-1", "10 apples", "10GBB", "GB", "1e9", "0.4B", "nan", "0x10", "1,5GB", "9" * 400],
    "mode": ["READONLY", "read-only", "w", " readwrite"],
    "assert_hit": ["2", "yes please"],
    "wait": ["-1", "nan", "inf", "soon", "1s"],
    "verify": ["-0.1", "1.01", "nan", "inf", "always", "50%"],
    "frames": ["2", "maybe", "01"],
    "cpu": ["X86-64-V3", "x86-64", "x86-64-v5", "avx2", "armv8-a", "-march=native"],
}
ALLOWED = {
    "enabled": "0 or 1", "directory": "the path of a directory", "size_limit": "10GB, 500MB",
    "mode": "readwrite, readonly, refresh", "assert_hit": "0 or 1", "wait": "at least 0",
    "verify": "from 0 (no hit) to 1 (every hit)", "frames": "0 or 1",
    "cpu": "native, x86-64-v2, x86-64-v3, x86-64-v4",
}  # fmt: skip
FIELDS = list(VARIABLES)


def resolve(environ: dict[str, str] | None = None, **arguments: Any) -> Settings:
    return Settings.resolve(arguments, environ or {})


def test_this_test_knows_every_setting() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == FIELDS
    assert GOOD.keys() == BAD.keys() == ALLOWED.keys() == VARIABLES.keys()


def test_the_defaults() -> None:
    found = resolve()
    assert (found.enabled, found.size_limit, found.mode, found.assert_hit) == (True, 10 * 10**9, "readwrite", False)
    assert found.directory == Path(platformdirs.user_cache_dir("aot_cache", appauthor=False))
    assert found.wait > 0


@pytest.mark.parametrize("field", FIELDS)
def test_the_environment_goes_over_the_default(field: str) -> None:
    text, value, _ = GOOD[field]
    assert getattr(resolve({VARIABLES[field]: text}), field) == value != getattr(resolve(), field)


@pytest.mark.parametrize("field", FIELDS)
def test_an_argument_goes_over_the_environment(field: str) -> None:
    text, value, other = GOOD[field]
    assert getattr(resolve({VARIABLES[field]: other}, **{field: text}), field) == value
    assert getattr(resolve({VARIABLES[field]: "\0"}, **{field: text}), field) == value


@pytest.mark.parametrize("field", FIELDS)
def test_an_argument_may_be_the_value_itself(field: str) -> None:
    value = GOOD[field][1]
    assert getattr(resolve(**{field: value}), field) == value


@pytest.mark.parametrize("field", FIELDS)
def test_none_and_an_empty_variable_are_as_if_not_given(field: str) -> None:
    assert resolve({VARIABLES[field]: ""}, **{field: None}) == resolve()


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in FIELDS for value in BAD[field]])
def test_a_bad_variable_is_named_with_its_value_and_what_is_allowed(field: str, value: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({VARIABLES[field]: value})
    assert str(caught.value).startswith(f"{VARIABLES[field]}={value!r} is not valid") and ALLOWED[field] in str(caught.value)
    assert (caught.value.name, caught.value.value) == (VARIABLES[field], value)


MORE_BAD = [("enabled", 2), ("directory", 7), ("size_limit", True), ("size_limit", 0), ("mode", None.__class__)]
MORE_BAD += [("mode", ["readonly"]), ("wait", {"seconds": 1}), ("wait", [1]), ("assert_hit", "")]


@pytest.mark.parametrize(("field", "value"), [(f, v) for f in FIELDS for v in BAD[f]] + MORE_BAD, ids=repr)
def test_a_bad_argument_is_named_as_the_argument(field: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(**{field: value})
    assert str(caught.value).startswith(f"{field}={value!r} is not valid") and ALLOWED[field] in str(caught.value)


def test_an_unknown_argument_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError) as caught:
        resolve(directroy="/x")
    assert "directroy='/x'" in str(caught.value) and all(field in str(caught.value) for field in FIELDS)


@pytest.mark.parametrize(("variable", "value"), [("AOT_CACHE_REMOTE", "http://x")])
def test_a_variable_without_effect_is_refused_and_not_ignored(variable: str, value: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({variable: value})
    assert f"{variable}={value!r}" in str(caught.value) and "unset" in str(caught.value)
    resolve({variable: ""})


def test_verify_may_say_that_it_is_off() -> None:
    assert resolve({"AOT_CACHE_VERIFY": "0"}) == resolve()


def test_without_an_environment_the_process_s_own_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_WAIT", "7")
    assert Settings.resolve().wait == 7.0
    assert Settings.resolve({"wait": 8}).wait == 8.0


@pytest.mark.parametrize("text", ["1", "true", "YES", " On "])
def test_a_switch_is_on(text: str) -> None:
    assert resolve({"AOT_CACHE_ASSERT_HIT": text}).assert_hit is True


@pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
def test_a_switch_is_off(text: str) -> None:
    assert resolve({"AOT_CACHE": text}).enabled is False


def test_a_directory_is_absolute_and_its_home_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert resolve(directory="~/a").directory == tmp_path / "a"
    assert resolve(directory="a").directory == tmp_path / "a"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SettingError, match="the path of a directory"):
        resolve(directory=file)


SIZES = [("1", 1), ("10GB", 10**10), ("500 MB", 5 * 10**8), (" 1.5GiB ", 3 * 2**29), ("2kb", 2000), ("1TB", 10**12)]
SIZES += [("3KiB", 3072), ("0.5kB", 500), ("7b", 7), ("1mib", 2**20), ("2TiB", 2**41)]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_size_has_a_unit_or_is_bytes(text: str, size: int) -> None:
    assert parse_size("x", text) == size


@given(st.integers(1, 10**15))
def test_a_plain_number_is_that_many_bytes(size: int) -> None:
    assert parse_size("x", size) == size == parse_size("x", str(size))


@given(st.text(max_size=12))
def test_any_text_is_a_size_of_at_least_one_byte_or_refused_by_name(text: str) -> None:
    try:
        assert parse_size("--size", text) >= 1
    except SettingError as error:
        assert error.name == "--size" and error.value == text


def test_settings_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve().wait = 1.0  # type: ignore[misc]


def test_a_variable_that_is_not_read_is_told_with_the_one_it_resembles() -> None:
    environ = {"AOT_CACHE_DIRR": "/x", "AOT_CACHE_BUCKET": "b", "AOT_CACHE_DIR": "/x", "AOT_CACHE_REPORT": "1", "PATH": ""}
    assert unknown(environ) == {"AOT_CACHE_BUCKET": "", "AOT_CACHE_DIRR": "AOT_CACHE_DIR"}
    assert unknown({variable: "" for variable, _, _ in _SOURCES.values()}) == {}
