"""A small stack of transformer blocks, and schedules made by hand, for the tests of moving activations."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aot_cache.offloading import passes, storages
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Link, Prediction, Row, Schedule
from aot_cache.torch_compat import partition

HEAD = 16


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).split(width, 2)
        q, k, v = (part.view(batch, length, width // HEAD, HEAD).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))


def stack(blocks: int, width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(blocks)))


def everything(problem: Problem, ahead: int = 2) -> Schedule:
    """All that may move, moves: out after its last use, in `ahead` steps before it is needed."""
    rows = []
    forward, backward = problem.forward, problem.backward
    for storage in problem.storages:
        if storage.eligible:
            out, need = storage.free_from, storage.first_backward
            rows.append(
                Row(
                    storage.name, storage.bytes, "act", forward[out].name, forward[out + 1].name,
                    backward[max(need - ahead, 0)].name, backward[need].name, storage.replay,
                )
            )  # fmt: skip
    return scheduled(problem, tuple(rows))


def scheduled(problem: Problem, rows: tuple[Row, ...]) -> Schedule:
    """A schedule of these rows that has no bounds."""
    tensors = sum(storage.saved for storage in problem.storages)
    digests = problem.forward_digest, problem.backward_digest
    nothing, none = Prediction(0, 0, 0.0, 0.0, 0), Budget(1 << 50, 1 << 50, 1 << 50)
    return Schedule(*digests, tensors, Link(1e9, 1e9), none, "none", "hand", 1.0, nothing, rows)


class Scheduler:
    """Puts a schedule into every pair of graphs that is compiled inside `on()`, and keeps what it saw."""

    def __init__(self, choose: Callable[[Problem], Schedule] = everything, smallest: int = 1) -> None:
        self.choose, self.smallest = choose, smallest
        self.problems: list[Problem] = []
        self.pairs: list[tuple[storages.Pair, storages.Pair]] = []

    @property
    def planned(self) -> int:
        """Bytes that one step moves each way."""
        return sum(row.bytes for problem in self.problems for row in self.choose(problem).rows)

    def on(self):  # type: ignore[no-untyped-def]
        return partition.wrapped(self._rewrite)

    def _rewrite(self, forward, backward, outputs):  # type: ignore[no-untyped-def]
        pair = storages.Pair(forward, backward, outputs)
        problem = storages.analyse(pair, smallest=self.smallest).problem
        applied = passes.apply(pair, self.choose(problem))
        self.problems.append(problem)
        self.pairs.append((pair, applied))
        return applied.forward, applied.backward


def step(compiled: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of the input and of all parameters."""
    for tensor in (x, *model.parameters()):
        tensor.grad = None
    output = compiled(x)
    output.sum().backward()
    return [output.detach(), *(tensor.grad for tensor in (x, *model.parameters()))]  # type: ignore[misc]
