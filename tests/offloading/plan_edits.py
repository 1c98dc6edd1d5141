"""Changes of a plan, one at a time, for the matrix of stale plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, fields, replace
from typing import Any

from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Row, Schedule


def wrong_rows(found: Problem, schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """`schedule` with one row that loses data, is not of its storage, or makes the record's sums wrong."""
    names = {"fw": [step.name for step in found.forward], "bw": [step.name for step in found.backward]}
    used = {row.storage for row in schedule.rows}
    others = [s.name for s in found.storages if s.name not in used]
    for row in schedule.rows:
        storage = found.by_name[row.storage]
        changes: dict[str, list[Mapping[str, Any]]] = {
            "storage": [{"storage": name} for name in (*others, "no_such")],
            "bytes": [{"bytes": n} for n in (0, row.bytes - 1, row.bytes + 1, 2 * row.bytes)],
            "kind": [{"kind": "weight"}],
            "out-after": [{"out_after": name} for name in (*names["fw"][: storage.free_from], None, "no_such")],
            "free-at": [
                {"free_at": name} for name in (*names["fw"][: names["fw"].index(row.out_after or "") + 1], None)
            ],
            "in-before": [{"in_before": name} for name in names["bw"][names["bw"].index(row.need_at) + 1 :]],
            "need-at": [{"need_at": name} for name in names["bw"][storage.first_backward + 1 :]],
            "replay": [{"replay": other} for other in (row.replay[1:], (*row.replay, "t"), row.replay * 2)],
        }
        for column, cells in changes.items():
            for number, cell in enumerate(cells):
                if astuple(changed := replace(row, **cell)) != astuple(row):
                    yield f"{row.storage} {column} {number}", _with(schedule, row, changed)
        yield f"{row.storage} gone", _with(schedule, row)
        yield f"{row.storage} twice", _with(schedule, row, row, row)


def _with(schedule: Schedule, row: Row, *instead: Row) -> Schedule:
    return replace(schedule, rows=(*(other for other in schedule.rows if other is not row), *instead))


def other_plans(found: Problem, schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Plans like `schedule`: each with a transfer that begins at another step, or with another value in its header."""
    yield "itself", schedule
    for field, value in (("cost", "other"), ("solver", "other"), ("recompute", 0.5)):
        yield field, replace(schedule, **{field: value})
    yield "link", replace(schedule, link=replace(schedule.link, d2h=1.0))
    for field in fields(Budget):
        budget = replace(schedule.budget, **{field.name: 2 * getattr(schedule.budget, field.name)})
        yield field.name, replace(schedule, budget=budget)
    for row in schedule.rows:
        for step in found.backward[: found.backward_index[row.in_before]]:
            yield row.storage, _with(schedule, row, replace(row, in_before=step.name))
