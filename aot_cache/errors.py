"""The exception tree. The hook turns every one into an outcome, but for the last two, which a user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class AotCacheError(Exception):
    """Base of everything this package raises."""


class SettingError(AotCacheError, ValueError):
    """A setting has a value that is not allowed; says which, what was given and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name}={value!r} is not valid: it must be {allowed}")
        self.name, self.value, self.allowed = name, value, allowed


class StoreError(AotCacheError):
    """The store cannot do what was asked (permissions, space, a damaged index)."""


class UnsafeDirectory(StoreError):
    """Somebody else could write the cache directory, and so run code in this process."""


class EntryTooLarge(StoreError):
    """One entry is larger than the whole cache may be."""


class EnvelopeError(AotCacheError):
    """Bytes that are not a complete, undamaged entry."""


class ForeignEntry(EnvelopeError):
    """A complete entry that another format, torch or machine wrote."""


class NotSerializable(AotCacheError):
    """A compiled graph holds something that cannot be stored."""


class TransferError(AotCacheError):
    """A tensor could not be moved to the far tier, or could not be brought back."""


class FarTierFull(TransferError):
    """The far tier has no room for one more tensor. needed, held: bytes."""

    def __init__(self, where: object, needed: int, held: int, why: str) -> None:
        super().__init__(
            f"the far tier in {where} holds {held} bytes and has no room for {needed} more ({why}): "
            "give it more, or keep more near"
        )
        self.needed, self.held = needed, held


class HookMismatch(AotCacheError):
    """This torch does not have the seams the hook joins at."""


class MissAsserted(AotCacheError):
    """AOT_CACHE_ASSERT_HIT is set and a graph was compiled after all."""


class VerificationFailed(AotCacheError):
    """AOT_CACHE_VERIFY is set and a cached graph gives other numbers than a fresh compile of it.

    key: the entry's name in the store. name: what was compiled. differences: one text a value that differs.
    report: the file that tells all of it; None if the cache is open for reading only.
    """

    def __init__(self, key: str, name: str, differences: Sequence[str], done: str, report: Path | None) -> None:
        shown = "; ".join([*differences[:3], *([f"and {len(differences) - 3} more"] if len(differences) > 3 else [])])
        where = f"; report: {report}" if report else ""
        super().__init__(f"entry {key} of {name} gives other numbers than a fresh compile: {shown}. {done}{where}")
        self.key, self.name, self.differences, self.report = key, name, tuple(differences), report
