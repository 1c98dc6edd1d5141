"""Small problems for the planner: a chain of layers, and hypothesis strategies for any."""

from __future__ import annotations

from hypothesis import strategies as st

from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import BACKWARD, START, Problem, Step, Storage
from aot_cache.offloading.schedule import Budget, Link, Schedule

from .brute import smallest

KIB = 1024


def chain(sizes: list[int], seconds: float = 1.0, **marks: str) -> Problem:
    """Layer i makes act_i of `sizes[i]`, which layer i + 1 reads; the backward reads them from the last to the first.

    marks: a field of a storage to set, by the name of the storage: must, prefer, or refused=reason.
    """
    count = len(sizes)
    forward = (*(Step(f"f{i}", seconds) for i in range(count)), Step("output", 0.0))
    backward = (*(Step(f"b{i}", seconds) for i in range(count)), Step("output", 0.0))
    storages = [Storage("weight", 10, "weight", START, count, 0, count, refused="it is an input")]
    for i, size in enumerate(sizes):
        mark = marks.get(f"act_{i}", "")
        storages.append(
            Storage(
                f"act_{i}", size, "act", i, min(i + 1, count - 1), count - 1 - i, count - 1 - i,
                eligible=mark in ("", "must", "prefer"),
                refused="" if mark in ("", "must", "prefer") else mark,
                must=mark == "must",
                prefer=mark == "prefer",
            )
        )  # fmt: skip
    return Problem(forward, backward, tuple(storages), "fw1", "bw1")


SIZES = st.integers(0, 40).map(lambda n: n * KIB)
SECONDS = st.integers(0, 50).map(lambda n: n / 1000)
RATES = st.sampled_from([1e5, 1e6, 3e6, 1e7])
links = st.builds(
    Link, RATES, RATES, st.integers(1, 3), st.sampled_from([0.0, 1e-5, 1e-3]), st.sampled_from(["given", "probe"])
)


@st.composite
def problems(draw: st.DrawFn, most: int = 9, must: bool = False) -> Problem:
    """Any two graphs with up to `most` storages that the forward saves, and some that it or the backward does not.

    must: the first storage is one that must be offloaded.
    """
    forward, backward = draw(st.integers(2, 12)), draw(st.integers(2, 12))
    storages = []
    for index in range(draw(st.integers(int(must), most))):
        asked = must and index == 0
        produced = draw(st.integers(0 if asked else START, forward - 2))
        first = draw(st.integers(0, backward - 2))
        eligible = produced >= 0 and (asked or draw(st.integers(0, 4)) > 0)
        storages.append(
            Storage(
                f"s{index}", draw(SIZES), "act" if produced >= 0 else "other", produced,
                draw(st.integers(max(produced, 0), forward - 2)), first, draw(st.integers(first, backward - 1)),
                eligible, "" if eligible else draw(st.sampled_from(["an alias of an input", "mutated"])),
                must=asked, replay=draw(st.sampled_from([(), ("t",), ("t", "view_1")])),
            )
        )  # fmt: skip
    for index in range(draw(st.integers(0, 4))):
        produced = draw(st.integers(BACKWARD, forward - 1))
        if produced == BACKWARD:
            begin = draw(st.integers(0, backward - 1))
            uses = (-1, begin, draw(st.integers(begin, backward - 1)))
        else:
            uses = (draw(st.integers(max(produced, 0), forward - 1)), -1, -1)
        storages.append(Storage(f"t{index}", draw(SIZES), "other", produced, *uses))
    ends = (Step("output", 0.0),)
    first = tuple(Step(f"f{i}", draw(SECONDS)) for i in range(forward - 1))
    second = tuple(Step(f"b{i}", draw(SECONDS)) for i in range(backward - 1))
    return Problem(first + ends, second + ends, tuple(storages), "fw", "bw")


def total(problem: Problem) -> int:
    return sum(storage.bytes for storage in problem.storages)


@st.composite
def budgets(draw: st.DrawFn, problem: Problem) -> Budget:
    """Any budget; near memory may be too small."""
    near = draw(st.integers(0, 10)) * total(problem) // 10
    far = draw(st.sampled_from([total(problem), total(problem) // 2]))
    return Budget(near, far, draw(st.sampled_from([40, 80, 400])) * KIB)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Problem, Schedule]:
    """A problem and a plan for it that has rows, with a budget from the smallest that can be met to all there is."""
    problem, link = draw(problems(must=True)), draw(links)
    far, inflight = total(problem), draw(st.sampled_from([40, 80])) * KIB
    low = smallest(problem, link, far, inflight)
    near = draw(st.integers(low, max(low, far)))
    return problem, plan([(1.0, problem)], link, Budget(near, far, inflight), "unit").schedule
