"""The record of a plan: a small text table, sorted and without a clock, that is the same for the same plan. Pure.

Between two steps is a gap. An activation's copy out is issued in the gap after `out_after`; in the gap before `free_at`
the compute lane waits for it and drops the near copy. Its copy in is issued, into a new near buffer, in the gap before
the backward step `in_before`, and waited for in the gap before `need_at`; the buffer is freed after the last use.
What is issued in one gap goes by the later name, then by storage: (out_after, free_at, storage) out and (in_before,
need_at, storage) in, in the order of the graph. A transfer counts as on its way in every gap from its issue to its
wait, both included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..errors import ScheduleSyntax
from ..units import rounded
from . import fields
from .fields import Form
from .problem import Kind

TITLE, VERSION = "offload-plan", 1
HEADER: dict[str, dict[str, Form]] = {
    "graph": {"fw": fields.WORD, "bw": fields.WORD, "tensors": fields.COUNT},
    "link": {
        "d2h": fields.RATE,
        "h2d": fields.RATE,
        "lanes": fields.LANES,
        "latency": fields.SECONDS,
        "source": fields.WORD,
    },
    "budget": {"near": fields.BYTES, "far": fields.BOUND, "inflight": fields.BYTES},
    "cost": {"table": fields.WORD, "solver": fields.WORD, "recompute": fields.NUMBER},
    "predict": {
        "peak_fw": fields.BYTES,
        "peak_bw": fields.BYTES,
        "step": fields.SECONDS,
        "stall": fields.SECONDS,
        "moved": fields.BYTES,
    },
}
COLUMNS: dict[str, Form] = {
    "storage": fields.STEP,
    "bytes": fields.BYTES,
    "kind": fields.KIND,
    "out-after": fields.MAYBE_STEP,
    "free-at": fields.MAYBE_STEP,
    "in-before": fields.STEP,
    "need-at": fields.STEP,
    "replay": fields.NAMES,
}


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

    @property
    def told(self) -> Prediction:
        """As a record tells it: with seconds to six digits."""
        return replace(self, step=rounded(self.step), stall=rounded(self.stall))


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


def render(schedule: Schedule) -> str:
    """The one text of `schedule`: `parse` gives exactly the schedule back.

    Raises:
        ValueError: a name, a number or a size that no text can stand for.
    """
    link, budget, predict = schedule.link, schedule.budget, schedule.predict
    values: dict[str, tuple[Any, ...]] = {
        "graph": (schedule.forward, schedule.backward, schedule.tensors),
        "link": (link.d2h, link.h2d, link.lanes, link.latency, link.source),
        "budget": (budget.near, budget.far, budget.inflight),
        "cost": (schedule.cost, schedule.solver, schedule.recompute),
        "predict": (predict.peak_forward, predict.peak_backward, predict.step, predict.stall, predict.moved),
    }
    lines = [f"{TITLE} {VERSION}"]
    for name, forms in HEADER.items():
        pairs = zip(forms.items(), values[name], strict=True)
        lines.append(f"{name:7} " + " ".join(f"{key}={form.write(key, value)}" for (key, form), value in pairs))
    table = [[("# " if index == 0 else "") + name for index, name in enumerate(COLUMNS)], *map(_cells, schedule.rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
    return "\n".join(lines) + "\n"


def parse(text: str) -> Schedule:
    """The schedule of `text`. What follows a # and blank lines count for nothing.

    Raises:
        ScheduleSyntax: names the first line and field that is wrong, and what is allowed there.
    """
    lines = [(number, line.partition("#")[0].split()) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, words) for number, words in lines if words]
    number, words = lines[0] if lines else (1, [])
    if words != [TITLE, str(VERSION)]:
        raise ScheduleSyntax(number, "title", " ".join(words), f"{TITLE} {VERSION}")
    found = {}
    for index, name in enumerate(HEADER, 1):
        number, words = lines[index] if index < len(lines) else (number + 1, [])
        found[name] = _header(number, words, name)
    rows: dict[str, Row] = {}
    for number, words in lines[1 + len(HEADER) :]:
        row = _row(number, words)
        if row.storage in rows:
            raise ScheduleSyntax(number, "storage", row.storage, "in one row only")
        rows[row.storage] = row
    link, budget, predict = Link(*found["link"]), Budget(*found["budget"]), Prediction(*found["predict"])
    return Schedule(*found["graph"], link, budget, *found["cost"], predict, tuple(rows.values()))


def _header(number: int, words: list[str], name: str) -> list[Any]:
    """The values of the header line `name`, each field once and in its order."""
    forms = HEADER[name]
    pairs = [word.partition("=") for word in words[1:]]
    if words[:1] != [name] or [key for key, _, _ in pairs] != list(forms):
        wanted = " ".join([name, *(f"{key}=" for key in forms)])
        raise ScheduleSyntax(number, "line", " ".join(words), f"the line {wanted}")
    return [forms[key].read(number, key, text) for key, _, text in pairs]


def _row(number: int, words: list[str]) -> Row:
    if len(words) != len(COLUMNS):
        raise ScheduleSyntax(number, "row", " ".join(words), f"{len(COLUMNS)} columns: {', '.join(COLUMNS)}")
    cells = zip(COLUMNS.items(), words, strict=True)
    storage, size, kind, out, free, *rest = [form.read(number, name, word) for (name, form), word in cells]
    return Row(storage, size, kind, out or None, free or None, *rest)


def _cells(row: Row) -> list[str]:
    values = (row.storage, row.bytes, row.kind, row.out_after, row.free_at, row.in_before, row.need_at, row.replay)
    return [form.write(name, value) for (name, form), value in zip(COLUMNS.items(), values, strict=True)]
