"""A problem as plain values comes back the same, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from aot_cache.errors import IllegalSchedule
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.record import plain, problem

from .problems import chain, problems


@given(problems(must=True))
def test_a_problem_comes_back_the_same_through_json(one: Problem) -> None:
    assert problem(json.loads(json.dumps(plain(one)))) == one


@pytest.mark.parametrize(
    "damage",
    [
        {"forward": None},
        {"storages": [[1, 2]]},
        {"storages": [["s", 1, "act", 99, 0, 0, 0, True, "", False, False, []]]},
        {"digests": ["one"]},
        {"backward": [["b", "x"]]},
    ],
    ids=lambda damage: str(damage),
)
def test_damage_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(IllegalSchedule, match="cannot be read"):
        problem({**plain(chain([1, 2])), **damage})


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(IllegalSchedule):
        problem({})
