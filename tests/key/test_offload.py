"""The key part of a plan: there only inside of a block, and another for all that decides the plan."""

from __future__ import annotations

from typing import Any

import pytest

from aot_cache.key.build import identify
from aot_cache.key.encode import CannotKey
from aot_cache.key.offload import base, frame_part, offload_part
from aot_cache.key.parts import CacheKey, KeyPart
from aot_cache.offloading import active, planner, session, storages
from aot_cache.offloading.options import Options
from aot_cache.offloading.session import Session


def part(**how: Any) -> Any:
    with active.entered(Session(Options.of(**{"budget": "4GB", "far": None, **how}))):
        (found,) = offload_part(identify)
    return found


def one(storage: Any) -> str:
    return "must"


def other(storage: Any) -> str:
    return "never"


def test_outside_of_a_block_there_is_no_part() -> None:
    assert offload_part(identify) == frame_part(identify) == ()


def test_frames_have_the_part_of_their_graphs_but_for_a_dry_run() -> None:
    with active.entered(Session(Options.of("4GB", None))):
        assert frame_part(identify) == offload_part(identify) != ()
    with active.entered(Session(Options.of("4GB", None, dry_run=True))), pytest.raises(CannotKey) as caught:
        frame_part(identify)
    assert caught.value.detail == "a dry run of aot_cache.offload"


def test_the_base_of_a_key_is_the_key_without_the_part() -> None:
    graph = KeyPart.of("graph", b"nodes", {})
    assert base(CacheKey((graph, part()))) == base(CacheKey((graph, part(budget="3GB")))) == CacheKey((graph,))
    assert base(CacheKey((KeyPart.of("graph", b"others", {}), part()))) != CacheKey((graph,))


def test_equal_plans_have_equal_parts() -> None:
    assert part(policy=one).digest == part(policy=one).digest
    assert part().digest == part().digest == part(far="disk").digest


@pytest.mark.parametrize(
    "how",
    [{"budget": "3GB"}, {"inflight": "1GB"}, {"far_limit": "9GB"}, {"link": (1, 1)}, {"policy": one}],
    ids=lambda how: next(iter(how)),
)
def test_what_decides_a_plan_decides_the_part_and_its_summary(how: dict[str, Any]) -> None:
    assert part(**how).digest != part().digest
    assert part(**how).summary != part().summary


def test_policies_with_other_code_are_other_parts() -> None:
    assert part(policy=one).digest != part(policy=other).digest


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (session, "SOLVER"),
        (session, "ELIGIBILITY_VERSION"),
        (session, "REWRITE_VERSION"),
        (session, "WORK_VERSION"),
        (session, "KNOBS"),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_versions_of_what_plans_are_part_of_it(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    before = part()
    monkeypatch.setattr(module, name, "another")
    assert part().digest != before.digest
    assert (planner.SOLVER, storages.ELIGIBILITY_VERSION) != ("another", "another")


def test_a_policy_that_cannot_be_identified_is_a_bypass_that_names_it() -> None:
    class Opaque:
        def __init__(self) -> None:
            self.handle = open(__file__)  # noqa: SIM115

        def __call__(self, storage: Any) -> None:
            self.handle.read()

    policy = Opaque()
    try:
        with pytest.raises(CannotKey, match="the offload policy"):
            part(policy=policy)
    finally:
        policy.handle.close()
