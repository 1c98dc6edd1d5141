from __future__ import annotations

from dataclasses import replace

import pytest

from aot_cache.offloading.problem import BACKWARD, START, Problem, Step, Storage

from .problems import chain

GOOD = chain([100, 200])
ACT = GOOD.by_name["act_0"]


def with_act(**changes: object) -> Problem:
    return replace(GOOD, storages=(replace(ACT, **changes),))  # type: ignore[arg-type]


def test_steps_and_storages_are_found_by_name() -> None:
    assert GOOD.forward_index == {"f0": 0, "f1": 1, "output": 2}
    assert GOOD.backward_index["b1"] == 1
    assert GOOD.by_name["act_1"].bytes == 200


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": "gradient"}, "storage act_0 is of kind 'gradient'"),
        ({"bytes": -1}, "storage act_0 has -1 bytes"),
        ({"produced": 3}, "storage act_0 is produced at 3 and last used at 1 of 3 forward steps"),
        ({"produced": -3}, "is produced at -3"),
        ({"last_forward": 3}, "last used at 3 of 3 forward steps"),
        ({"last_backward": 3}, "is used from 1 to 3 of 3 backward steps"),
        ({"first_backward": -2}, "is used from -2"),
        ({"first_backward": 1, "last_backward": 0}, "is first used at 1 and last at 0 of the backward"),
        ({"produced": BACKWARD, "last_forward": 1}, "is made by the backward, and has a use in the forward"),
        ({"produced": BACKWARD, "last_forward": -1, "first_backward": -1}, "or no first step"),
        ({"refused": "mutated"}, "is eligible, and refused: mutated"),
        ({"eligible": False}, "is not eligible, without a reason"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "-".join(value),
)
def test_an_impossible_storage_is_refused_with_its_name(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.split(":")[0]) as caught:
        with_act(**changes)
    assert complaint in str(caught.value)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two storages have the name 'act_0'"):
        replace(GOOD, storages=(ACT, ACT))
    with pytest.raises(ValueError, match="two backward steps have the name 'b0'"):
        replace(GOOD, backward=(Step("b0", 1.0), Step("b0", 1.0)))


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_step_takes_a_finite_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="step f0 takes"):
        replace(GOOD, forward=(Step("f0", seconds),))


def test_what_the_backward_holds_is_saved_and_what_it_makes_is_not() -> None:
    assert ACT.saved
    assert Storage("held", 1, "other", START, 0, -1, 1, refused="an input").saved
    assert not Storage("made", 1, "other", BACKWARD, -1, 0, 1).saved
    assert not Storage("temporary", 1, "other", 0, 1, -1, -1).saved


def test_refused_bytes_are_told_by_reason_most_first() -> None:
    problem = chain([100, 200, 300, 50], act_0="mutated", act_1="mutated", act_2="too small")
    weight = {"it is an input": 10}
    assert list(problem.refused_bytes.items()) == [("mutated", 300), ("too small", 300), *weight.items()]
