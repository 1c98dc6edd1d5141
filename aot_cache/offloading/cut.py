"""One way to cut a joint graph, as the planner's problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from ..torch_compat import aliases
from ..torch_compat.partition import Halves, Joint
from . import costs, work
from .options import Options
from .problem import Problem, Storage
from .storages import Analysis, Pair, analyse
from .wishes import granted, require_there


@dataclass(frozen=True)
class Candidate:
    """A cut with one share of activations kept, the problem that it poses, and the kind of device that it is about."""

    knob: float
    halves: Halves
    problem: Problem
    device: str
    pair: Pair
    notes: tuple[str, ...]

    @property
    def cost(self) -> str:
        """The name of the cost table."""
        return cost_table(self.device)


def cost_table(device: str) -> str:
    return "roofline-cpu-1" if device == "cpu" else "roofline-gpu-1"


def candidate(joint: Joint, knob: float, options: Options, musts: list[str]) -> Candidate:
    """Cut `joint` with `knob`. musts: names of nodes that the user marked.

    Raises:
        OffloadError: a node that must move is not there any more, or the policy fails.
    """
    halves = joint.cut(None if knob == joint.knob else knob)
    require_there(musts, halves[0].graph)
    pair = Pair(*halves, joint.fuses)
    device = _device(pair)
    table = costs.table(cost_table(device))
    analysis = analyse(pair, lambda node, fused: work.seconds(node, table, fused))
    problem = granted(_on(analysis, device), options.policy)
    return Candidate(knob, halves, problem, device, pair, tuple(_unknown(pair)))


def _unknown(pair: Pair) -> Iterator[str]:
    """Why the budget may not be kept, if that is so."""
    values = [node.meta.get("val") for half in (pair.forward, pair.backward) for node in half.graph.nodes]
    count = sum(isinstance(value, Tensor) and aliases.hint(value.numel()) is None for value in values)
    if count:
        said = "have sizes that are not known when planned: they stay near, and the budget is not kept for them"
        yield f"{count} values {said} (torch.compile(dynamic=False) makes sizes known)"


def _device(pair: Pair) -> str:
    """The kind of device that most of the forward's values are on."""
    values = (node.meta.get("val") for node in pair.forward.graph.nodes)
    found = Counter(value.device.type for value in values if hasattr(value, "device"))
    return found.most_common(1)[0][0] if found else "cpu"


def _on(analysis: Analysis, device: str) -> Problem:
    """The problem, in which what is on another kind of device stays there."""

    def kept(storage: Storage) -> Storage:
        if not storage.eligible or analysis.group(storage.name).base.meta["val"].device.type == device:
            return storage
        return replace(storage, eligible=False, refused=f"not on {device}")

    return replace(analysis.problem, storages=tuple(map(kept, analysis.problem.storages)))
