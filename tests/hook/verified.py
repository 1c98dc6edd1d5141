"""Programs whose hits can be verified. Run as `verified.py NAME...`, prints JSON: values, counts, reasons, what it raised.

`square` and `cube` have one signature, so that the entry of one can be put in the other's place.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from programs import count_code_generation, digest
from torch import Tensor

import aot_cache

torch.set_num_threads(1)
generated = count_code_generation()


def square(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def cube(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) @ b


def inputs(requires_grad: bool = False) -> tuple[Tensor, Tensor]:
    return torch.randn(4, 4), torch.randn(4, 4, requires_grad=requires_grad)


def infer(f: Callable[..., Tensor]) -> Any:
    return torch.compile(f)(*inputs())


def train(f: Callable[..., Tensor]) -> Any:
    a, b = inputs(requires_grad=True)
    out = torch.compile(f)(a, b)
    out.square().sum().backward()
    return out, b.grad


def twice(_: Any = None) -> Any:
    """The second call must not be compared again, nor cost a compile."""
    a, b = inputs()
    compiled = torch.compile(square)
    return compiled(a, b), compiled(b, a)


def after_failure(_: Any = None) -> Any:
    """Whoever catches the error and calls again gets what is right."""
    compiled = torch.compile(square)
    a, b = inputs()
    try:
        compiled(a, b)
    except aot_cache.errors.VerificationFailed:
        return compiled(a, b)
    return None


def random_numbers(_: Any = None) -> Any:
    w = torch.ones(4, 4, requires_grad=True)

    def f(w: Tensor) -> Tensor:
        return torch.rand(4, 4) @ (w @ torch.rand(4, 4))

    compiled = torch.compile(f)
    with torch._inductor.config.patch(fallback_random=True):
        out = compiled(w)
        out.sum().backward()
    return out, w.grad, torch.get_rng_state(), torch.rand(3)


def non_leaf(_: Any = None) -> Any:
    """An input that was computed, next to a view of it."""
    leaf = torch.randn(4, 4, requires_grad=True)
    x = leaf @ leaf
    out = torch.compile(lambda x, y: x @ y)(x, x[:, :2])
    out.sum().backward()
    return out, leaf.grad


def dropout(_: Any = None) -> Any:
    x = torch.ones(16, 16, requires_grad=True)
    out = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x))(x)
    out.sum().backward()
    return out, x.grad, torch.get_rng_state()


def mutated(_: Any = None) -> Any:
    def f(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        x.add_(y)
        return (x @ w).sin()

    x, y, w = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    base = torch.zeros(4, 8)
    compiled = torch.compile(f)
    outs = [compiled(x, y, w), compiled(base[:, :4], base[:, 4:], w)]
    leaf = torch.randn(4, 4, requires_grad=True)
    inner = leaf * 2
    outs.append(compiled(inner, y, w))
    sum(out.sum() for out in outs).backward()
    return outs, x, base, inner, w.grad, leaf.grad


def aliased(_: Any = None) -> Any:
    def f(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(3)
        return b + 1

    base = torch.arange(8.0)
    return torch.compile(f)(base[:3], base[2:5]), base


def subclass(_: Any = None) -> Any:
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_()
    out = torch.compile(lambda t: t @ t)(x)
    out.sum().backward()
    return out.a, out.b, x.grad.a, x.grad.b


PROGRAMS: dict[str, Callable[[], Any]] = {
    "square": lambda: infer(square), "cube": lambda: infer(cube),
    "train square": lambda: train(square), "train cube": lambda: train(cube),
}  # fmt: skip
PROGRAMS |= {f.__name__: f for f in (twice, after_failure, random_numbers, non_leaf, subclass, dropout, mutated, aliased)}


def run(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    before, events, code = aot_cache.stats(), len(aot_cache.events()), generated()
    raised = values = None
    try:
        values = digest(PROGRAMS[name]())
    except aot_cache.errors.VerificationFailed as error:
        raised = {"text": str(error), "key": error.key, "differences": error.differences, "report": str(error.report)}
    found = aot_cache.events()[events:]
    counts = {key: value - before[key] for key, value in aot_cache.stats().items()}
    reasons = [f"{type(e).__name__} {e.reason.name} {e.detail}" for e in found if type(e).__name__ != "Hit"]
    said = {"values": values, "raised": raised, "reasons": reasons, "keys": [e.key for e in found]}
    return {**said, "generated": generated() - code, **counts}


if __name__ == "__main__":
    aot_cache.enable()
    print(json.dumps({name: run(name) for name in sys.argv[1:]}))
