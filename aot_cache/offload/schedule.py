"""The record of a plan: a small text table, sorted and without a clock, that is the same for the same plan. Pure.

Between two steps is a gap. An activation's copy out is issued in the gap after `out_after`; in the gap before `free_at`
the compute lane waits for it and drops the near copy. Its copy in is issued, into a new near buffer, in the gap before
the backward step `in_before`, and waited for in the gap before `need_at`; the buffer is freed after the last use.
"""

from __future__ import annotations

from dataclasses import dataclass

from .problem import Kind

VERSION = 1


@dataclass(frozen=True)
class Row:
    """One storage that moves. Steps by name; None where the kind has none (a weight has no way out)."""

    storage: str
    bytes: int
    kind: Kind
    out_after: str | None
    free_at: str | None
    in_before: str
    need_at: str
    replay: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """The way to the far tier: bytes per second out (d2h) and in (h2d), shared by `lanes` transfers that run at once.

    latency: seconds that each transfer takes on top of its bytes. source: where the numbers come from.
    """

    d2h: float
    h2d: float
    lanes: int = 1
    latency: float = 0.0
    source: str = "given"


@dataclass(frozen=True)
class Budget:
    """Bytes: near memory at any step, the far tier, and what may be on its way at any time, in either half."""

    near: int
    far: int
    inflight: int


@dataclass(frozen=True)
class Prediction:
    """Bytes at the peak of each half, seconds of a step and how many of them the compute lane waits, bytes moved."""

    peak_forward: int
    peak_backward: int
    step: float
    stall: float
    moved: int


@dataclass(frozen=True)
class Schedule:
    """A plan for one pair of graphs. Rows are kept sorted by the name of the storage.

    tensors: the number of saved storages. cost, solver: names, with versions, of what made the plan. recompute: the
    knob of the recomputation that the graphs were partitioned with (torch's activation_memory_budget).
    """

    forward: str
    backward: str
    tensors: int
    link: Link
    budget: Budget
    cost: str
    solver: str
    recompute: float
    predict: Prediction
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(sorted(self.rows, key=lambda row: row.storage)))
