"""The exception tree. The hook turns every one into an outcome, but for the last two, which a user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .units import exact_size, size


class AotCacheError(Exception):
    """Base of everything this package raises."""


def told(error: BaseException) -> str:
    """The error as a sentence tells it: our own errors say in full what is wrong, others need their type."""
    said = str(error)
    if isinstance(error, AotCacheError):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class SettingError(AotCacheError, ValueError):
    """A setting has a value that is not allowed; says which, what was given and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name}={value!r} is not valid: it must be {allowed}")
        self.name, self.value, self.allowed = name, value, allowed


class StoreError(AotCacheError):
    """The store cannot do what was asked (permissions, space, a damaged index)."""


class UnsafeDirectory(StoreError):
    """Somebody else could write the cache directory, and so run code in this process."""


class DamagedValue(StoreError):
    """One stored value is not what the index says of it; the others are not concerned."""


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
            f"the far tier in {where} holds {size(held)} and has no room for {size(needed)} more ({why}): "
            "give it more, or keep more near"
        )
        self.needed, self.held = needed, held


class HookMismatch(AotCacheError):
    """This torch does not have the seams the hook joins at."""


class MissAsserted(AotCacheError):
    """AOT_CACHE_ASSERT_HIT is set and a graph was compiled after all."""


class VerificationFailed(AotCacheError):
    """AOT_CACHE_VERIFY is set, and a graph gives other numbers than a fresh compile, or a frame was traced otherwise.

    key: the entry's name in the store. name: what was compiled. differences: one text a value that differs.
    report: the file that tells all of it; None if the cache is open for reading only.
    """

    def __init__(self, key: str, name: str, differences: Sequence[str], done: str, report: Path | None) -> None:
        shown = "; ".join([*differences[:3], *([f"and {len(differences) - 3} more"] if len(differences) > 3 else [])])
        where = f"; report: {report}" if report else ""
        super().__init__(f"entry {key} of {name} is not what a fresh compile gives: {shown}. {done}{where}")
        self.key, self.name, self.differences, self.report = key, name, tuple(differences), report


class OffloadError(AotCacheError, ValueError):
    """An offload schedule that cannot be read, must not be used, or cannot be made."""


class ScheduleSyntax(OffloadError):
    """The text of a schedule has a value that is not allowed; says the line, the field and what is allowed."""

    def __init__(self, line: int, field: str, value: object, allowed: str) -> None:
        super().__init__(f"line {line}: {field}={value!r} is not valid: it must be {allowed}")
        self.line, self.field, self.value, self.allowed = line, field, value, allowed


class IllegalSchedule(OffloadError):
    """A schedule does not belong to these graphs, or would lose data or pass its bounds. faults: one text each."""

    def __init__(self, faults: Sequence[str]) -> None:
        shown = "; ".join([*faults[:3], *([f"and {len(faults) - 3} more"] if len(faults) > 3 else [])])
        super().__init__(f"the offload schedule cannot be used: {shown}")
        self.faults = tuple(faults)


class BudgetTooSmall(OffloadError):
    """No plan meets the budget. smallest: bytes that, asked for in its place, can be met; a thousandth less cannot."""

    def __init__(self, near: int, smallest: int, needed: str) -> None:
        asked, able = exact_size(near), exact_size(smallest)
        super().__init__(f"a budget of {asked} cannot be met: the smallest that can is {able}; {needed}")
        self.near, self.smallest, self.needed = near, smallest, needed


class MustNotMove(OffloadError):
    """A storage that the user says must be offloaded cannot be; says which and why."""

    def __init__(self, storage: str, reason: str) -> None:
        super().__init__(f"{storage} must be offloaded, and cannot be: {reason}")
        self.storage, self.reason = storage, reason
