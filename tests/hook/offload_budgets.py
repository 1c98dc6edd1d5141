"""Trains small models, each under a budget, and prints JSON: `offload_budgets.py MODEL=BUDGET...`; none: without a block.

All models but `blocks` are matrix products, so that no C++ compiler runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from programs import digest
from torch import Tensor
from torch.utils.checkpoint import checkpoint

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "offloading"))

import stack  # noqa: E402

import aot_cache  # noqa: E402

SIZE, LINK = 256, (1e9, 1e9)


def chain(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return ((x @ a) @ b) @ c


def other(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return ((x @ x) @ b) @ (c @ a)


def marked(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (aot_cache.mark(x @ a, "must") @ b) @ c


def kept_near(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (aot_cache.mark(x @ a, "never") @ b) @ c


def checkpointed(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return checkpoint(lambda x: (x @ a) @ b, x, use_reentrant=False) @ c


def viewed(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs that are views of each other's memory, and of an input."""
    y = chain(x, a, b, c)
    return y.view(-1).view(SIZE, SIZE), x.t()


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
        ctx.save_for_backward(x, a)
        return x @ a

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, a = ctx.saved_tensors
        return gradient @ a.t(), x.t() @ gradient


def own_backward(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (Triple.apply(x, a) @ b) @ c


MODELS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (chain, other, marked, kept_near, checkpointed, viewed, own_backward)
}


@contextmanager
def traces() -> Iterator[Callable[[], int]]:
    """How many joint graphs AOTAutograd traces meanwhile; not by a patch, which would be part of the key."""
    count = 0

    def saw(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "aot_dispatch_autograd_graph"

    sys.setprofile(saw)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


def blocks() -> tuple[Callable[..., Any], list[Tensor]]:
    model = stack.stack(2, 64)
    return model, [torch.randn(8, 64, 64, requires_grad=True), *model.parameters()]


def given(name: str) -> tuple[Callable[..., Any], list[Tensor], list[Tensor]]:
    """What to compile, its arguments, and what has gradients."""
    torch.manual_seed(0)
    if name == "blocks":
        model, tensors = blocks()
        return model, tensors[:1], tensors
    tensors = [torch.randn(SIZE, SIZE, requires_grad=True) for _ in range(4)]
    return MODELS[name], tensors, tensors


def step(compiled: Callable[..., Any], arguments: list[Tensor], leaves: list[Tensor]) -> list[Any]:
    for leaf in leaves:
        leaf.grad = None
    found = compiled(*arguments)
    outputs = found if isinstance(found, tuple) else (found,)
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    return [*(output.detach() for output in outputs), *(leaf.grad for leaf in leaves)]


def run(name: str, budget: str, dynamic: bool | None) -> dict[str, Any]:
    torch._dynamo.reset()
    before, model, arguments, leaves = aot_cache.stats(), *given(name)
    near, _, inflight = budget.partition("/")
    how = {"inflight": inflight} if inflight else {}
    block: Any = aot_cache.offload(near, link=LINK, **how) if budget != "none" else nullcontext()
    with traces() as count, block:
        compiled = torch.compile(model, dynamic=dynamic)
        found: dict[str, Any] = {"values": digest(step(compiled, arguments, leaves)), "traced": count()}
    found |= {name: value - before[name] for name, value in aot_cache.stats().items()}
    if budget != "none":
        with block.step():
            step(compiled, arguments, leaves)
        found |= {"plans": [plan.text for plan in block.plans]}
        found |= {"planned": sum(row.bytes for plan in block.plans for row in plan.schedule.rows)}
        found |= {"out": block.measured.out, "in": block.measured.back}
    return found


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    aot_cache.enable()
    dynamic = True if "dynamic" in arguments else None
    pairs = [argument.partition("=") for argument in arguments if argument != "dynamic"]
    found = [run(name, budget, dynamic) for name, _, budget in pairs]
    said = [f"{type(e).__name__} {e}" for e in aot_cache.events() if type(e).__name__ not in ("Hit", "Miss")]
    print(json.dumps({"runs": found, "said": said}))


if __name__ == "__main__":
    main(sys.argv[1:])
