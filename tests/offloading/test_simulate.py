from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.offloading.problem import BACKWARD, START, Problem, Step, Storage
from aot_cache.offloading.schedule import Link, Prediction, Row
from aot_cache.offloading.simulate import simulate

from .problems import chain, links, problems

FOUR = chain([100, 100, 100, 100])
FAST, SLOW = Link(100.0, 100.0), Link(50.0, 25.0)


def row(index: int, out_after: str, free_at: str, in_before: str, need_at: str) -> Row:
    return Row(f"act_{index}", 100, "act", out_after, free_at, in_before, need_at)


ROWS = (row(0, "f1", "f3", "b2", "b3"), row(1, "f2", "output", "b1", "b2"))


def test_without_rows_steps_follow_each_other_and_saved_bytes_add_up() -> None:
    done = simulate(FOUR, (), FAST)
    assert done.forward.starts == (0.0, 1.0, 2.0, 3.0, 4.0)
    assert done.forward.near == (110, 210, 310, 410, 410)
    assert done.backward.near == (410, 310, 210, 110, 10)
    assert done.prediction == Prediction(410, 410, 8.0, 0.0, 0)


def test_a_moved_storage_is_near_until_free_at_and_from_in_before() -> None:
    done = simulate(FOUR, ROWS, FAST)
    assert done.forward.near == (110, 210, 310, 310, 210)
    assert done.backward.near == (210, 210, 210, 110, 10)
    assert done.prediction == Prediction(310, 210, 8.0, 0.0, 400)


def test_the_lane_waits_for_a_slow_link() -> None:
    done = simulate(FOUR, ROWS, SLOW)
    # act_0 takes 2 to 4, act_1 4 to 6: f3 waits one second for the first, the output one for the second.
    assert done.forward.waits == (0.0, 0.0, 0.0, 1.0, 1.0)
    assert [(t.storage, t.issued, t.begin, t.end) for t in done.forward.transfers] == [
        ("act_0", 2.0, 2.0, 4.0),
        ("act_1", 3.0, 4.0, 6.0),
    ]
    # In: act_1 is issued at 1, is there at 5; act_0 is issued when b2 comes up at 2, and is there at 9.
    assert done.backward.waits == (0.0, 0.0, 3.0, 3.0, 0.0)
    assert done.prediction == Prediction(310, 210, 16.0, 8.0, 400)


def test_what_is_issued_in_one_gap_goes_by_the_earlier_wait_then_by_name() -> None:
    rows = (row(1, "f2", "f3", "b1", "b2"), row(0, "f2", "f3", "b1", "b3"), row(2, "f3", "output", "b0", "b1"))
    done = simulate(FOUR, rows, FAST)
    assert [transfer.storage for transfer in done.forward.transfers] == ["act_0", "act_1", "act_2"]
    assert [transfer.storage for transfer in done.backward.transfers] == ["act_2", "act_1", "act_0"]


def test_bytes_on_their_way_count_from_the_gap_of_issue_to_the_gap_of_the_wait() -> None:
    done = simulate(FOUR, ROWS, FAST)
    assert done.forward.inflight == (0, 0, 100, 200, 100)
    assert done.backward.inflight == (0, 100, 200, 100, 0)


def test_latency_comes_on_top_of_the_bytes() -> None:
    done = simulate(FOUR, ROWS[:1], Link(100.0, 100.0, latency=0.5))
    assert [(t.begin, t.end) for t in done.forward.transfers] == [(2.0, 3.5)]
    assert done.prediction.stall == 0.5 + 0.5


def test_lanes_share_the_rate_and_run_at_once() -> None:
    rows = (row(0, "f2", "output", "b1", "b3"), row(1, "f2", "output", "b1", "b2"))
    one, two = (simulate(FOUR, rows, Link(100.0, 100.0, lanes)) for lanes in (1, 2))
    assert [(t.begin, t.end) for t in one.forward.transfers] == [(3.0, 4.0), (4.0, 5.0)]
    assert [(t.begin, t.end) for t in two.forward.transfers] == [(3.0, 5.0), (3.0, 5.0)]


def test_a_temporary_counts_from_its_making_to_its_last_use_and_what_nothing_uses_not_at_all() -> None:
    steps = tuple(Step(name, 1.0) for name in ("a", "b", "c"))
    storages = (
        Storage("input", 1, "other", START, 1, -1, -1),
        Storage("unused", 2, "other", START, -1, -1, -1),
        Storage("temporary", 4, "other", 1, 2, -1, -1),
        Storage("never_read", 8, "other", 1, -1, -1, -1),
        Storage("gradient", 16, "other", BACKWARD, -1, 1, 2),
        Storage("held", 32, "other", START, -1, -1, 1, refused="an input"),
    )
    done = simulate(Problem(steps, steps, storages, "fw", "bw"), (), FAST)
    assert done.forward.near == (33, 45, 36)
    assert done.backward.near == (32, 48, 16)


@given(problems(), links)
def test_without_rows_the_peak_is_that_of_a_plain_count(problem: Problem, link: Link) -> None:
    done = simulate(problem, (), link)
    for index in range(len(problem.forward)):
        alive = [s for s in problem.storages if s.produced != BACKWARD and s.produced <= index]
        assert done.forward.near[index] == sum(s.bytes for s in alive if s.saved or index <= s.free_from)
    for index in range(len(problem.backward)):
        alive = [s for s in problem.storages if index <= s.last_backward]
        assert done.backward.near[index] == sum(s.bytes for s in alive if s.saved or s.first_backward <= index)
    assert done.prediction.step == pytest.approx(sum(s.seconds for s in problem.forward + problem.backward))


@given(st.floats(1.0, 1e6), st.floats(1.0, 1e6))
def test_a_faster_link_is_never_slower(slow: float, fast: float) -> None:
    slow, fast = sorted((slow, fast))
    steps = [simulate(FOUR, ROWS, Link(rate, rate)).prediction.step for rate in (slow, fast)]
    assert steps[1] <= steps[0]
