"""Which shares of the activations are tried for one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from aot_cache.offloading import operators, session
from aot_cache.offloading.cut import candidate
from aot_cache.offloading.options import KNOBS, Options, finer
from aot_cache.offloading.session import Session
from aot_cache.torch_compat import partition


def tried(monkeypatch: pytest.MonkeyPatch, budget: str) -> tuple[list[float], float]:
    """The knobs that a graph was cut with for a slow link, and that of the plan."""
    found: list[float] = []

    def noting(joint: Any, knob: float, *rest: Any) -> Any:
        found.append(knob)
        return candidate(joint, knob, *rest)

    def model(x: Tensor) -> Tensor:
        for _ in range(4):
            x = (x @ x).sin().exp()
        return x

    monkeypatch.setattr(session, "candidate", noting)
    opened, before = Session(Options.of(budget, None, link=(1e6, 1e6), dry_run=True)), operators.use("cpu", None)
    torch._dynamo.reset()
    with partition.cutting(opened.cut, cached=False):
        torch.compile(model, backend="aot_eager_decomp_partition")(torch.randn(256, 256, requires_grad=True))
    operators.use("cpu", before)
    return found, opened.plans[0].schedule.recompute


def test_where_nothing_waits_the_graph_is_cut_as_configured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, "1GB") == ([1.0], 1.0)


def test_where_the_lane_waits_all_are_tried_and_then_those_next_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs, best = tried(monkeypatch, "2MB")
    assert best < 1
    assert knobs[: 1 + len(KNOBS)] == [1.0, *KNOBS]
    assert knobs[1 + len(KNOBS) :]
    assert any(knobs[1 + len(KNOBS) :] == finer(knob) for knob in KNOBS)
