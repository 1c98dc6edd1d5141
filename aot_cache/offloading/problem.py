"""What a planner knows of a forward and a backward graph: steps with seconds, storages with lifetimes. Pure: no torch.

Indices count steps of one half. The last step of each half should be its output node (of 0 seconds): what must have
left near memory when the forward returns is freed before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["act", "weight", "other"]
KINDS: tuple[Kind, ...] = ("act", "weight", "other")

# `Storage.produced` of what is there before the forward begins, and of what a step of the backward makes.
START, BACKWARD = -1, -2


@dataclass(frozen=True)
class Step:
    """One node of a graph: its canonical name, and the seconds it takes by the cost table."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Storage:
    """One storage with all its aliases, saved or not: the peaks count every one.

    name: the canonical name of the node that makes it.
    produced: the forward step that makes it, or START, or BACKWARD (then the backward step `first_backward` makes it).
    last_forward: the last forward step that uses any alias; being saved is no use, being an output of the user's is
        one of the last step; -1 if none does.
    first_backward, last_backward: the same in the backward; -1 if none does. A storage with a `last_backward` is
        near from its making to that step; any other is freed after `last_forward`.
    eligible, refused: whether it may be moved, and if not why ("" if it may).
    must, prefer: the user asks for it.
    replay: the views of it that the backward must make anew.
    """

    name: str
    bytes: int
    kind: Kind
    produced: int
    last_forward: int
    first_backward: int
    last_backward: int
    eligible: bool = False
    refused: str = ""
    must: bool = False
    prefer: bool = False
    replay: tuple[str, ...] = ()

    @property
    def saved(self) -> bool:
        """Whether it lives from the forward into the backward."""
        return self.produced != BACKWARD and self.last_backward >= 0

    @property
    def free_from(self) -> int:
        """The forward step after which nothing in the forward reads it."""
        return max(self.last_forward, self.produced)


@dataclass(frozen=True)
class Problem:
    """A forward and a backward graph as a planner sees them.

    Raises:
        ValueError: two steps of one half or two storages have one name, or an index, a size or a cost is impossible.
    """

    forward: tuple[Step, ...]
    backward: tuple[Step, ...]
    storages: tuple[Storage, ...]
    forward_digest: str
    backward_digest: str

    def __post_init__(self) -> None:
        for what, names in (
            ("forward step", [step.name for step in self.forward]),
            ("backward step", [step.name for step in self.backward]),
            ("storage", [storage.name for storage in self.storages]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"two {what}s have the name {_twice(names)!r}")
        for step in (*self.forward, *self.backward):
            if not 0 <= step.seconds < float("inf"):
                raise ValueError(f"step {step.name} takes {step.seconds} seconds")
        for storage in self.storages:
            _check(storage, len(self.forward), len(self.backward))

    @cached_property
    def forward_index(self) -> dict[str, int]:
        return {step.name: index for index, step in enumerate(self.forward)}

    @cached_property
    def backward_index(self) -> dict[str, int]:
        return {step.name: index for index, step in enumerate(self.backward)}

    @cached_property
    def by_name(self) -> dict[str, Storage]:
        return {storage.name: storage for storage in self.storages}

    @property
    def refused_bytes(self) -> dict[str, int]:
        """Bytes of saved storages that may not be moved, by reason, most bytes first."""
        found: dict[str, int] = {}
        for storage in self.storages:
            if storage.saved and not storage.eligible:
                found[storage.refused] = found.get(storage.refused, 0) + storage.bytes
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _check(storage: Storage, forward: int, backward: int) -> None:
    wrong = None
    if storage.kind not in KINDS:
        wrong = f"is of kind {storage.kind!r}"
    elif storage.bytes < 0:
        wrong = f"has {storage.bytes} bytes"
    elif not (BACKWARD <= storage.produced < forward and -1 <= storage.last_forward < forward):
        wrong = f"is produced at {storage.produced} and last used at {storage.last_forward} of {forward} forward steps"
    elif not (-1 <= storage.first_backward < backward and -1 <= storage.last_backward < backward):
        wrong = f"is used from {storage.first_backward} to {storage.last_backward} of {backward} backward steps"
    elif storage.first_backward > storage.last_backward:
        wrong = f"is first used at {storage.first_backward} and last at {storage.last_backward} of the backward"
    elif storage.produced == BACKWARD and (storage.last_forward >= 0 or storage.first_backward < 0):
        wrong = "is made by the backward, and has a use in the forward or no first step"
    elif storage.eligible and storage.refused:
        wrong = f"is eligible, and refused: {storage.refused}"
    elif not storage.eligible and not storage.refused and storage.saved:
        wrong = "is not eligible, without a reason"
    if wrong:
        raise ValueError(f"storage {storage.name} {wrong}")
