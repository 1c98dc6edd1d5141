"""Plans for graphs as they are compiled, by a backend that generates no code; and what entries say of their plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from aot_cache.errors import BudgetTooSmall, IllegalSchedule, MustNotMove, OffloadError
from aot_cache.offloading import far, operators, session
from aot_cache.offloading.options import Options
from aot_cache.offloading.schedule import Link, render
from aot_cache.offloading.session import Planned, Session, stored
from aot_cache.offloading.wishes import mark
from aot_cache.torch_compat import partition

LINK = (1e9, 1e9)


@pytest.fixture(autouse=True)
def _as_before():  # type: ignore[no-untyped-def]
    before = operators.use("cpu", None)
    yield
    operators.use("cpu", before)
    far._used.clear()


def train(function: Callable[[Tensor], Tensor], **how: Any) -> tuple[Session, Tensor]:
    """What was planned, and the gradient, which is checked to be that without a plan."""
    opened = Session(Options.of(**{"budget": "100MB", "far": None, "link": LINK, **how}))
    torch._dynamo.reset()
    with partition.cutting(opened.cut, cached=False):
        found = gradient(function)
    torch._dynamo.reset()
    assert torch.equal(found, gradient(function))
    return opened, found


def gradient(function: Callable[[Tensor], Tensor]) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(256, 256, requires_grad=True)
    torch.compile(function, backend="aot_eager_decomp_partition")(x).sum().backward()
    assert x.grad is not None
    return x.grad


def model(x: Tensor) -> Tensor:
    return ((x @ x).sin() @ x).exp() @ x


def rows(opened: Session) -> list[str]:
    return [row.storage for plan in opened.plans for row in plan.schedule.rows]


def marked(wish: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: (mark(x @ x, wish).sin() @ x).exp() @ x


def test_a_graph_that_fits_moves_nothing() -> None:
    opened, _ = train(model)
    assert (len(opened.plans), rows(opened)) == (1, [])


def test_a_smaller_budget_moves_something_and_the_plan_keeps_to_it() -> None:
    peak = max(train(model)[0].plans[0].schedule.predict.peak_backward, 1)
    opened, _ = train(model, budget=peak - 1)
    predict = opened.plans[0].schedule.predict
    assert rows(opened)
    assert max(predict.peak_forward, predict.peak_backward) < peak


@pytest.mark.parametrize("inflight", ["1MB", None], ids=str)
def test_a_budget_that_cannot_be_met_reaches_the_caller_with_the_smallest_that_can(inflight: str | None) -> None:
    with pytest.raises(BudgetTooSmall) as caught:
        train(model, budget=1000, inflight=inflight)
    opened, _ = train(model, budget=caught.value.smallest, inflight=inflight)
    assert opened.plans
    with pytest.raises(BudgetTooSmall):
        train(model, budget=caught.value.smallest * 99 // 100, inflight=inflight)


def test_what_failed_is_kept_for_the_report() -> None:
    opened = Session(Options.of(1000, None, link=LINK))
    torch._dynamo.reset()
    with partition.cutting(opened.cut, cached=False), pytest.raises(BudgetTooSmall):
        gradient(model)
    assert [type(failure) for failure in opened.failures] == [BudgetTooSmall]


def test_what_is_marked_as_must_moves() -> None:
    assert rows(train(marked("must"))[0]) == ["mm"]


def test_what_is_marked_as_preferred_moves() -> None:
    assert rows(train(marked("prefer"))[0]) == ["mm"]


def test_what_is_preferred_and_cannot_move_stays_and_the_plan_says_why() -> None:
    opened, _ = train(marked("prefer"), inflight="1KB")
    assert rows(opened) == []
    assert any("mm is preferred, and stays near" in note for note in opened.plans[0].notes)


def test_what_is_marked_as_never_is_refused_by_that_reason() -> None:
    assert train(marked("never"))[0].plans[0].refused_bytes["it is marked so"] == 256 * 256 * 4


def test_a_mark_on_a_view_is_one_on_the_memory() -> None:
    opened, _ = train(lambda x: (mark((x @ x).t(), "must").sin() @ x).exp() @ x)
    assert rows(opened) == ["mm"]


def test_a_must_that_cannot_move_is_an_error() -> None:
    with pytest.raises(MustNotMove, match="alias of an input"):
        train(lambda x: mark(x, "must").sin() @ x)
    with pytest.raises(MustNotMove, match="larger than"):
        train(marked("must"), inflight="1KB")


def test_a_mark_does_nothing_outside_of_a_compile() -> None:
    x = torch.ones(3)
    assert mark(x, "must") is x


def only_products(_: Any, op: Any, *__: Any, **___: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_CPU_OFFLOAD if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def contexts() -> Any:
    return create_selective_checkpoint_contexts(only_products)


def test_a_checkpoint_policy_that_says_must_is_honoured() -> None:
    opened, _ = train(lambda x: checkpoint(model, x, use_reentrant=False, context_fn=contexts))
    assert rows(opened) == ["mm", "mm_1"]


def test_a_policy_is_asked_for_what_is_saved() -> None:
    asked = []

    def policy(storage: Any) -> str | None:
        asked.append(storage.name)
        return "must" if storage.name == "mm" else None

    opened, _ = train(model, policy=policy)
    assert rows(opened) == ["mm"]
    assert set(asked) == {s.name for s in opened.plans[0].problem.storages if s.saved and s.produced >= 0}


@pytest.mark.parametrize("answer", [3, "maybe"])
def test_a_policy_that_answers_something_else_is_an_error(answer: Any) -> None:
    with pytest.raises(OffloadError, match="the policy answered"):
        train(model, policy=lambda storage: answer)


def test_a_policy_that_fails_is_an_error_that_says_for_what() -> None:
    with pytest.raises(OffloadError, match="the policy failed for mm.*ZeroDivisionError"):
        train(model, policy=lambda storage: 1 // 0)


def test_a_host_tier_is_refused_for_tensors_on_the_cpu() -> None:
    with pytest.raises(OffloadError, match="use disk"):
        train(marked("must"), far="host")


def test_a_plan_from_a_file_is_carried_out_and_is_not_another(tmp_path: Path) -> None:
    text = train(marked("must"))[0].plans[0].text
    (tmp_path / "plan").write_text(text)
    opened, _ = train(marked("must"), budget=None, link=None, plan=tmp_path / "plan")
    assert (opened.plans[0].text, opened.plans[0].source) == (text, "file")


def test_a_plan_for_other_graphs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text(train(marked("must"))[0].plans[0].text)
    with pytest.raises(IllegalSchedule, match="made for other graphs"):
        train(lambda x: (x @ x).cos() @ x, budget=None, link=None, plan=tmp_path / "plan")


def test_a_dry_run_plans_and_changes_nothing() -> None:
    opened, _ = train(marked("must"), dry_run=True)
    assert rows(opened) == ["mm"]
    assert far.used("cpu") is None


def test_recomputation_is_used_where_the_budget_needs_it() -> None:
    def deep(x: Tensor) -> Tensor:
        for _ in range(6):
            x = (x @ x).sin()
        return x

    with pytest.raises(BudgetTooSmall) as caught:
        train(deep, budget=1, inflight=1)
    opened, _ = train(deep, budget=caught.value.smallest, inflight=1)
    assert rows(opened) == []
    assert opened.plans[0].schedule.recompute < 1


def test_sizes_that_are_not_known_are_said_not_to_keep_to_the_budget(caplog: pytest.LogCaptureFixture) -> None:
    opened = Session(Options.of(1, None, link=LINK))
    torch._dynamo.reset()
    x = torch.randn(64, 64, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    with partition.cutting(opened.cut, cached=False):
        torch.compile(lambda x: (x.sin() @ x.t()).exp(), backend="aot_eager_decomp_partition")(x).sum().backward()
    assert any("the budget is not kept for them" in note for note in opened.plans[0].notes)
    assert "the budget is not kept for them" in caplog.text


# -- what entries say ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned() -> Planned:
    return train(marked("must"))[0].plans[0]


def check(planned: Planned, kind: str = "training", how: Any = None, **changes: Any) -> Planned | None:
    opened = Session(Options.of(**{"budget": "100MB", "far": None, "link": LINK, **(how or {})}))
    return opened.check(kind, {**stored(planned), **changes})


def test_what_was_stored_is_found_to_do(planned: Planned) -> None:
    found = check(planned)
    assert found is not None
    assert found == replace(planned, source="cache")


def test_a_graph_without_a_backward_has_no_plan(planned: Planned) -> None:
    assert Session(Options.of("1GB", None)).check("inference", {}) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"operators": ["somebody.elses"]},
        {"problem": {}},
        {"schedule": "offload-plan 1\n"},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_a_damaged_record_is_refused(planned: Planned, damage: dict[str, Any]) -> None:
    with pytest.raises(OffloadError):
        check(planned, **damage)


def test_a_training_graph_without_a_plan_is_refused() -> None:
    with pytest.raises(IllegalSchedule, match="has none"):
        Session(Options.of("1GB", None)).check("training", {})


def test_a_row_that_would_lose_data_is_refused(planned: Planned) -> None:
    (row,) = planned.schedule.rows
    late = replace(planned.schedule, rows=(replace(row, need_at=planned.problem.backward[-1].name),))
    with pytest.raises(IllegalSchedule, match="reads it before that"):
        check(planned, schedule=render(late))


def test_a_budget_that_is_not_the_one_of_the_block_is_refused(planned: Planned) -> None:
    with pytest.raises(IllegalSchedule, match="made for a budget of"):
        check(planned, how={"budget": "99MB"})


def test_a_much_slower_link_than_the_plans_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, _ = train(marked("must"), link=None)
    probed = opened.plans[0]
    assert probed.schedule.link.source == "probe"
    assert opened.check("training", stored(probed)) is not None
    monkeypatch.setattr(far, "_links", {place: Link(1e5, 1e5, source="probe") for place in far._links})
    with pytest.raises(IllegalSchedule, match="times slower here"):
        opened.check("training", stored(probed))


def test_what_an_entry_says_goes_to_the_graph_that_was_asked_for_last() -> None:
    opened = Session(Options.of("100MB", None, link=LINK))
    torch._dynamo.reset()
    first, second = opened.slot(), opened.slot()
    with partition.cutting(opened.cut, cached=False):
        gradient(model)
        gradient(lambda x: model(x).cos())
    assert (first, second["schedule"]) == ({}, opened.plans[0].text)


def test_facts_name_all_versions() -> None:
    facts = Session(Options.of("100MB", None)).facts()
    assert facts["solver"] == session.SOLVER
    assert facts["eligibility"] == str(session.ELIGIBILITY_VERSION)
    assert facts["rewrite"] == str(session.REWRITE_VERSION)
