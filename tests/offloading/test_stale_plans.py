"""The matrix of stale plans: after each change the plan is refused, or belongs to another entry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule

from aot_cache.errors import IllegalSchedule, OffloadError, ScheduleSyntax
from aot_cache.key.build import identify
from aot_cache.key.graph import graph_part
from aot_cache.key.offload import offload_part
from aot_cache.offloading import active, costs, options, session, storages
from aot_cache.offloading.legality import verify
from aot_cache.offloading.options import Options
from aot_cache.offloading.place import unmoved
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem, Storage
from aot_cache.offloading.schedule import Budget, Link, Schedule, parse, render
from aot_cache.offloading.session import Planned, Session, stored
from aot_cache.torch_compat.tensors import Symbols

from . import edits, stack
from .plan_edits import other_plans, wrong_rows
from .problems import chain
from .test_storages import cut

LINK = Link(2e10, 2e10)
# Of a kind of changes at more nodes than that, every third one is tried.
MANY = 60


@cache
def graphs() -> storages.Pair:
    return cut(stack.stack(1, 64), torch.randn(2, 64, 64))


def problem(pair: storages.Pair) -> Problem:
    return storages.analyse(pair, smallest=1).problem


@cache
def planned() -> tuple[Problem, Schedule]:
    found = problem(graphs())
    near = int(0.8 * max(map(max, unmoved(found))))
    schedule = plan([(1.0, found)], LINK, Budget(near, 1 << 40, 1 << 18), "roofline-cpu-1").schedule
    assert len(schedule.rows) >= 4
    return found, schedule


def refused(schedule: Schedule | str, found: Problem | storages.Pair) -> bool:
    try:
        read = parse(schedule) if isinstance(schedule, str) else schedule
        verify(read, found if isinstance(found, Problem) else problem(found))
    except OffloadError:
        return True
    return False


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_a_plan_of_changed_graphs_is_refused() -> None:
    tried, stale = 0, []
    for kind, changed in edits.edits(graphs()):
        found = list(changed)
        for name, pair in islice(found, 0, None, 3 if len(found) > MANY else 1):
            tried += 1
            if not refused(planned()[1], pair):
                stale.append(f"{kind}: {name}")
    assert not stale, stale
    assert tried >= 300


def test_a_plan_of_the_same_graphs_is_not_refused_whatever_their_nodes_are_called() -> None:
    for same in (graphs(), edits.copied(graphs()), edits.renamed(graphs())):
        assert not refused(planned()[1], same)


MARKS = {"must": "has no row", "never": "may not be moved"}


@pytest.mark.parametrize("wish", MARKS)
def test_a_plan_is_refused_after_a_mark_that_it_does_not_keep(wish: str) -> None:
    """must on what stays, never on what moves."""
    moved = {row.storage for row in planned()[1].rows}
    found = [s for s in planned()[0].storages if s.eligible and (s.name in moved) == (wish == "never")]
    assert len(found) >= 4
    for storage in found:
        marked = edits.copied(graphs())
        base = storages.analyse(marked, smallest=1).group(storage.name).base
        base.meta["custom"] = {"aot_cache.offload": wish}
        with pytest.raises(IllegalSchedule, match=MARKS[wish]):
            verify(planned()[1], problem(marked))


def test_every_mark_on_a_graph_of_dynamos_makes_another_key() -> None:
    digests = {}
    for at in range(4):
        for wish in (None, "must", "prefer", "never", "must if saved"):
            graph = Graph()
            node = graph.placeholder("x")
            for number in range(4):
                node = graph.call_function(torch.sin, (node,))
                node.meta["custom"] = {"aot_cache.offload": wish} if wish and number == at else {}
            graph.output((node,))
            digests[at, wish] = graph_part(GraphModule({}, graph), Symbols(()), identify).digest
    unmarked = {digests.pop((at, None)) for at in range(4)}
    assert len(unmarked) == 1
    assert len(unmarked | set(digests.values())) == 17


# -- the plan's text ---------------------------------------------------------------------------------------------------


def test_a_plan_with_a_row_that_does_not_fit_its_graphs_is_refused() -> None:
    found = list(wrong_rows(*planned()))
    stale = [name for name, changed in found if not refused(changed, planned()[0])]
    assert not stale, stale
    assert len(found) >= 200


WORDS = {"fw": "0" * 32, "bw": "0" * 32, "tensors": "20", "near": "1KiB", "far": "1KiB", "inflight": "1KiB"}
WORDS |= {"peak_fw": "1KiB", "peak_bw": "1KiB", "moved": "1KiB"}


@pytest.mark.parametrize("name", WORDS)
def test_a_plan_with_a_header_that_does_not_fit_its_graphs_is_refused(name: str) -> None:
    text = render(planned()[1])
    words = [f"{name}={WORDS[name]}" if word.startswith(f"{name}=") else word for word in text.split(" ")]
    assert (changed := " ".join(words)) != text
    assert refused(changed, planned()[0])


def test_a_plan_without_one_of_its_lines_or_with_one_twice_is_refused() -> None:
    lines = render(planned()[1]).splitlines()
    kept = [line for line in lines if not line.startswith("#")]
    for number in range(len(kept)):
        assert refused("\n".join(kept[:number] + kept[number + 1 :]), planned()[0])
        assert refused("\n".join([*kept[: number + 1], *kept[number:]]), planned()[0])


# -- what decides a plan -----------------------------------------------------------------------------------------------


def digest(made: Options) -> str:
    with active.entered(Session(made)):
        (part,) = offload_part(identify)
    return part.digest


def _policies() -> Iterator[Callable[[Storage], Any]]:
    def of(size: int, wish: str) -> Callable[[Storage], Any]:
        return lambda storage: wish if storage.bytes > size else None

    for wish in ("must", "prefer", "never"):
        for size in (0, 1 << 10, 1 << 16, 1 << 20):
            yield of(size, wish)
    yield lambda storage: "must" if storage.bytes >= 1 else None
    yield lambda storage: "must" if storage.name == "gelu" else None
    yield lambda storage: None


def _options(directory: Path) -> Iterator[Options]:
    for budget in ("1MB", "2MB", "3MB", "1GB", 1, 2, 1 << 40):
        yield Options.of(budget, None, "1MB")
    for inflight in (1, 2, "64KiB", "2MB", "3MB", None):
        yield Options.of("1MB", None, inflight)
    for limit in (1, 2, "1MB", "1GB", "2GB"):
        yield Options.of("1MB", None, "1MB", limit)
    for link in ((1e9, 1e9), (2e9, 1e9), (1e9, 2e9), (2e9, 2e9), (1e9, 1e9, 1e-6), (1e9, 1e9, 2e-6)):
        yield Options.of("1MB", None, "1MB", link=link)
    yield Options.of("1MB", None, "1MB", link=Link(1e9, 1e9, 2))
    for policy in _policies():
        yield Options.of("1MB", None, "1MB", policy=policy)
    for number, (_, changed) in enumerate(other_plans(*planned())):
        path = directory / f"plan{number}"
        path.write_text(render(changed))
        yield Options.of(None, None, plan=str(path))


def test_all_that_decides_a_plan_makes_another_key(tmp_path: Path) -> None:
    digests = [digest(made) for made in _options(tmp_path)]
    assert len(digests) >= 100
    assert len(set(digests)) == len(digests)


def test_a_tier_a_directory_and_a_path_do_not_make_another_key(tmp_path: Path) -> None:
    """Which tier it is follows from the graph's device; one that is not for that device raises."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    places = {digest(Options.of("1MB", f"disk:{tmp_path / name}")) for name in ("one", "two")}
    assert places == {digest(Options.of("1MB", far)) for far in (None, "disk", "host")}
    for name in ("one", "two"):
        (tmp_path / name / "plan").write_text(render(planned()[1]))
    plans = [Options.of(None, None, plan=str(tmp_path / name / "plan")) for name in ("one", "two")]
    assert len(set(map(digest, plans))) == 1


CODE = [
    (session, "SOLVER", "slack-greedy-0"),
    (session, "ELIGIBILITY_VERSION", -1),
    (session, "REWRITE_VERSION", -1),
    (session, "WORK_VERSION", -1),
    (session, "KNOBS", (0.75, 0.5)),
    (session, "KNOBS", ()),
    (options, "VERSION", -1),
    (costs, "TABLES", {"roofline-cpu-1": None}),
    (costs, "TABLES", {"roofline-cpu-2": None, "roofline-gpu-1": None}),
]


def test_another_version_of_what_plans_makes_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [digest(Options.of("1MB", None))]
    for module, name, value in CODE:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            found.append(digest(Options.of("1MB", None)))
    assert len(set(found)) == len(found)


def test_the_names_of_solver_and_cost_tables_stand_for_what_they_did() -> None:
    """If this fails, give the solver or the table another name first, and then write the new digest here."""
    texts = [repr(costs.TABLES)]
    for sizes, near in (((64, 32, 64, 16, 64, 8), 150), ((8,) * 12, 60), ((16, 48) * 4, 180)):
        budget = Budget(near << 10, 1 << 30, 96 << 10)
        made = plan([(1.0, chain([n << 10 for n in sizes]))], Link(1e5, 1e5, 1, 1e-3), budget, "unit").schedule
        assert made.rows
        texts.append(render(made))
    assert hashlib.blake2b("".join(texts).encode(), digest_size=8).hexdigest() == "af7a5c6eb235636e"


# -- what an entry says ------------------------------------------------------------------------------------------------


def _entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the manifest of an entry says, each with one thing that is wrong."""
    found, schedule = planned()
    good = stored(Planned(schedule, found, (), "planned", "cpu"))
    for name in ("schedule", "problem", "operators"):
        yield f"no {name}", {key: value for key, value in good.items() if key != name}
    yield "other operators", {**good, "operators": ["elsewhere"]}
    for key in good["problem"]:
        yield f"no {key}", {**good, "problem": {k: v for k, v in good["problem"].items() if k != key}}
        yield f"other {key}", {**good, "problem": {**good["problem"], key: good["problem"][key][1:]}}
    for number, row in enumerate(good["problem"]["storages"]):
        if row[0] in {moved.storage for moved in schedule.rows}:
            for at, value in ((0, "x"), (1, row[1] + 1), (2, "weight"), (3, len(found.forward) - 1), (7, False)):
                rows = list(good["problem"]["storages"])
                rows[number] = [*row[:at], value, *row[at + 1 :]]
                yield f"{row[0]} field {at}", {**good, "problem": {**good["problem"], "storages": rows}}
    for field in fields(Budget):
        budget = replace(schedule.budget, **{field.name: 2 * getattr(schedule.budget, field.name)})
        yield f"budget {field.name}", {**good, "schedule": render(replace(schedule, budget=budget))}
    for name, changed in islice(wrong_rows(found, schedule), 0, None, 4):
        yield name, {**good, "schedule": render(changed)}


def test_an_entry_whose_plan_is_not_that_of_its_graphs_is_refused() -> None:
    found, schedule = planned()
    made = Session(Options(schedule.budget, "disk", Path("/"), LINK, None, None, False))
    assert made.check("training", stored(Planned(schedule, found, (), "planned", "cpu"))).schedule == schedule
    tried = list(_entries())
    for name, extra in tried:
        with pytest.raises((IllegalSchedule, ScheduleSyntax)):
            made.check("training", extra)
            pytest.fail(name)
    assert len(tried) >= 80
