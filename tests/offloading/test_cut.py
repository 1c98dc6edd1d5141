"""One way to cut a joint graph, as the planner's problem."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from aot_cache.offloading import costs
from aot_cache.offloading.cut import candidate
from aot_cache.offloading.options import Options
from aot_cache.torch_compat import partition


def model(x: Tensor) -> Tensor:
    return (x @ x).detach().sin().cos() @ x


def test_seconds_are_those_of_fused_loops_where_loops_are_fused() -> None:
    found: list[float] = []

    def cutter(joint: partition.Joint) -> partition.Halves:
        for fuses in (False, True):
            made = candidate(replace(joint, fuses=fuses), joint.knob, Options.of("1MB", None), [])
            found.append(next(step.seconds for step in made.problem.forward if step.name == "sin"))
        return joint.cut(None)

    torch._dynamo.reset()
    with partition.cutting(cutter, cached=False):
        x = torch.ones(256, 256, requires_grad=True)
        torch.compile(model, backend="aot_eager_decomp_partition")(x)
    table = costs.table("roofline-cpu-1")
    size = 256 * 256 * 4
    assert found == [table.seconds(0.0, 2.0 * size), table.seconds(0.0, 1.0 * size) - table.overhead]
