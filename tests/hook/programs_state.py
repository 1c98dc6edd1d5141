"""Programs about values: parameters, mutation, aliases, random numbers, precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from programs import Mlp, grads, program
from torch import Tensor, nn


@program
def training() -> Iterator[Any]:
    model = Mlp()
    out = torch.compile(model)(torch.randn(8, 16))
    out.square().mean().backward()
    yield out
    yield grads(*model.parameters())


@program
def inference() -> Iterator[Any]:
    with torch.no_grad():
        yield torch.compile(Mlp().eval())(torch.randn(8, 16))


@program
def inference_mode() -> Iterator[Any]:
    with torch.inference_mode():
        yield torch.compile(lambda x: x.softmax(-1) * 2)(torch.randn(4, 8))


@program
def mutated_input() -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y.sin())
        return x * 2

    x = torch.randn(4, 4)
    yield torch.compile(f)(x, torch.randn(4, 4))
    yield x


@program
def mutated_input_in_training() -> Iterator[Any]:
    def f(x: Tensor, w: Tensor, seen: Tensor) -> Tensor:
        seen.mul_(0.5).add_(x.mean(0))
        return (x @ w).relu()

    w, seen = torch.randn(4, 3, requires_grad=True), torch.zeros(4)
    out = torch.compile(f)(torch.randn(5, 4), w, seen)
    out.sum().backward()
    yield out, seen, w.grad


@program
def aliased_outputs() -> Iterator[Any]:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 3
        return x.t(), y, y.view(-1), x

    x = torch.randn(3, 4)
    out = torch.compile(f)(x)
    out[0].mul_(2)  # must be seen through x: an alias, not a copy
    out[1].add_(1)
    yield out
    yield x, out[3] is x or out[3].data_ptr() == x.data_ptr(), out[2].data_ptr() == out[1].data_ptr()


@program
def views_of_one_base() -> Iterator[Any]:
    def f(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(3)
        return b + 1

    base, apart = torch.arange(8.0), torch.arange(8.0)
    compiled = torch.compile(f)
    yield compiled(base[:3], base[2:5]), base
    # The same compiled function, now with inputs that do not overlap: a guard must tell them apart.
    yield compiled(apart[:3], apart[5:8]), apart


@program
def dropout_and_random_numbers() -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, True) + torch.rand_like(x) + torch.randn(x.shape)

    x = torch.ones(16, 16, requires_grad=True)
    compiled = torch.compile(f)
    for _ in range(2):
        out = compiled(x)
        out.sum().backward()
        yield out, x.grad, torch.random.get_rng_state()


@program
def autocast() -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        return y.float().exp()

    w = torch.randn(8, 8, requires_grad=True)
    out = torch.compile(f)(torch.randn(4, 8), w)
    out.sum().backward()
    yield out, w.grad
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        yield torch.compile(lambda a, b: a @ b)(torch.randn(4, 8), torch.randn(8, 8))


@program
def tied_parameters() -> Iterator[Any]:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.embed(ids))

    model = Tied()
    torch.compile(model)(torch.randint(0, 12, (2, 5))).logsumexp(-1).sum().backward()
    yield grads(*model.parameters())


@program
def buffers() -> Iterator[Any]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    out = torch.compile(model)(torch.randn(2, 3, 8, 8))
    out.mean().backward()
    yield out, grads(*model.parameters()), list(model.buffers())
