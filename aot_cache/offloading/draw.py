"""A plan as a picture: near memory over the steps with and without it, transfers, waiting; text or SVG. Pure: no torch.

Both run over the steps of the forward and then of the backward, not over seconds: a picture is read against the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ..units import seconds, size
from .place import unmoved
from .problem import Problem
from .schedule import Link, Schedule
from .simulate import Move, Simulation, moves, simulate

WIDTH, HEIGHT = 84, 12
COLUMNS = 410
X, Y, SPAN, RISE = 60, 250, 820, 220


@dataclass(frozen=True)
class _Picture:
    """One value a step, of the forward and then of the backward; `border` is the first step of the backward."""

    near: list[int]
    without: list[int]
    waits: list[float]
    outs: list[Move]
    ins: list[Move]
    border: int
    top: int
    done: Simulation

    def flying(self, column: Sequence[Move], first: int) -> list[bool]:
        """Whether a transfer of `column`, whose half begins at `first`, is under way in the gap before each step."""
        found = [False] * len(self.near)
        for move in column:
            found[first + move.issue : first + move.wait + 1] = [True] * (move.wait + 1 - move.issue)
        return found


def _picture(schedule: Schedule, problem: Problem, link: Link | None) -> _Picture:
    done = simulate(problem, schedule.rows, link or schedule.link)
    forward, backward = unmoved(problem)
    near = [*done.forward.near, *done.backward.near]
    top = max([*near, *forward, *backward, schedule.budget.near, 1])
    waits = [*done.forward.waits, *done.backward.waits]
    columns = moves(problem, schedule.rows)
    return _Picture(near, forward + backward, waits, *columns, len(problem.forward), top, done)


def text(schedule: Schedule, problem: Problem, link: Link | None = None) -> str:
    """The picture in lines of at most 100 columns; `schedule` must be legal. link: another than that of the plan.

    # is near memory with the plan, : what there would be without; - is the budget.
    """
    picture = _picture(schedule, problem, link)
    spans = _spans(len(picture.near), WIDTH)
    rows = _bars(picture, schedule.budget.near, spans)
    split = sum(begin < picture.border for begin, _ in spans)
    rows.append(("", "-" * split + "|" + "-" * (len(spans) - split)))
    for name, mark, column in (
        ("out", ">", picture.flying(picture.outs, 0)),
        ("in", "<", picture.flying(picture.ins, picture.border)),
        ("waits", "!", picture.waits),
    ):
        rows.append((name, _marks(mark, column, spans, split)))
    rows.append(("", f"{'forward'[:split]:{split}} {'backward'[: len(spans) - split]}"))
    lines = [f"{label:>11} {row}".rstrip() for label, row in rows]
    return "\n".join([*lines, "", *_summary(schedule, picture)]) + "\n"


def svg(schedule: Schedule, problem: Problem, link: Link | None = None) -> str:
    """The picture as an SVG document of 900 by 430 pixels; `schedule` must be legal."""
    picture = _picture(schedule, problem, link)
    budget, count = schedule.budget.near, max(1, len(picture.near))
    scale = SPAN / count
    head = f"near memory up to {size(picture.top)}; grey: without offload; dashed: the budget of {size(budget)}"
    level, middle = f"{Y - RISE * budget / picture.top:.1f}", f"{X + picture.border * scale:.1f}"
    parts = [
        _area(picture.without, picture.top, scale, "#ddd"),
        _area(picture.near, picture.top, scale, "#48a"),
        f'<line x1="{X}" y1="{level}" x2="{X + SPAN}" y2="{level}" stroke="#c22" stroke-dasharray="4"/>',
        f'<line x1="{middle}" y1="20" x2="{middle}" y2="380" stroke="#888"/>',
        _words(X, 16, head),
        _words(20, 284, "out"),
        *_boxes(picture.outs, 0, scale, 270),
        _words(20, 324, "in"),
        *_boxes(picture.ins, picture.border, scale, 310),
        _words(20, 376, "waits"),
        *_ticks(picture.waits, scale),
        *(_words(X, 398 + 14 * index, line) for index, line in enumerate(_summary(schedule, picture))),
    ]
    frame = 'width="900" height="430" font-family="sans-serif" font-size="11"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>', *parts, "</svg>"]) + "\n"


def _summary(schedule: Schedule, picture: _Picture) -> list[str]:
    told, base = picture.done.prediction, [max(half, default=0) for half in _halves(picture)]
    share = f"{told.stall / told.step:.1%}" if told.step else "0.0%"
    return [
        f"peak {size(told.peak_forward)} forward, {size(told.peak_backward)} backward; "
        f"without offload {size(base[0])}, {size(base[1])}",
        f"{len(schedule.rows)} storages move {size(told.moved)}; step {seconds(told.step)}, waits {share}",
    ]


def _halves(picture: _Picture) -> tuple[list[int], list[int]]:
    return picture.without[: picture.border], picture.without[picture.border :]


def _spans(count: int, most: int) -> list[tuple[int, int]]:
    """The steps, from and up to but without, of each column, of which there are at most `most`."""
    width = min(most, count)
    return [(count * i // width, count * (i + 1) // width) for i in range(width)]


def _bars(picture: _Picture, budget: int, spans: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    near, without = ([max(column[a:b]) for a, b in spans] for column in (picture.near, picture.without))
    split = sum(begin < picture.border for begin, _ in spans)
    rows = []
    for level in range(HEIGHT, 0, -1):
        floor, ceiling = picture.top * (level - 1) / HEIGHT, picture.top * level / HEIGHT
        inside = floor < budget <= ceiling
        empty = "-" if inside else " "
        cells = ["#" if n > floor else ":" if w > floor else empty for n, w in zip(near, without, strict=True)]
        label = f"{size(budget)} -" if inside else size(picture.top) if level == HEIGHT else ""
        rows.append((label, "".join(cells[:split]) + "|" + "".join(cells[split:])))
    return rows


def _marks(mark: str, column: Sequence[float], spans: Sequence[tuple[int, int]], split: int) -> str:
    cells = [mark if any(column[begin:end]) else " " for begin, end in spans]
    return "".join(cells[:split]) + "|" + "".join(cells[split:])


def _area(values: Sequence[int], top: int, scale: float, colour: str) -> str:
    points = []
    for begin, end in _spans(len(values), COLUMNS):
        y = f"{Y - RISE * max(values[begin:end]) / top:.1f}"
        points += [f"{X + begin * scale:.1f},{y}", f"{X + end * scale:.1f},{y}"]
    return f'<polygon points="{X},{Y} {" ".join(points)} {X + len(values) * scale:.1f},{Y}" fill="{colour}"/>'


def _boxes(column: Sequence[Move], first: int, scale: float, top: int) -> Iterator[str]:
    for index, move in enumerate(column):
        # A transfer that is waited for in the gap of its issue is as wide as a fifth of a step.
        place = f'x="{X + (first + move.issue) * scale:.1f}" y="{top + 6 * (index % 5)}"'
        extent = f'width="{(move.wait - move.issue + 0.2) * scale:.1f}" height="5"'
        title = escape(f"{move.storage}: {size(move.bytes)}")
        yield f'<rect {place} {extent} fill="#e90"><title>{title}</title></rect>'


def _ticks(waits: Sequence[float], scale: float) -> Iterator[str]:
    longest = max(waits, default=0.0)
    for index, wait in enumerate(waits):
        if wait:
            high = 24 * wait / longest
            place = f'x="{X + index * scale:.1f}" y="{378 - high:.1f}"'
            yield f'<rect {place} width="2" height="{high:.1f}" fill="#c22"><title>{seconds(wait)}</title></rect>'


def _words(x: int, y: int, words: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(words)}</text>'
