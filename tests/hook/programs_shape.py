"""Programs about structure: shapes, control flow, several graphs, subclasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from programs import Mlp, grads, program
from torch import Tensor


@program
def traceable_subclass() -> Iterator[Any]:
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_()
    out = torch.compile(lambda t: (t @ t).sin())(x)
    out.sum().backward()
    yield out.a, out.b, x.grad.a, x.grad.b


@program
def checkpointing() -> Iterator[Any]:
    from torch.utils.checkpoint import checkpoint

    model = Mlp()
    x = torch.randn(8, 16, requires_grad=True)
    torch.compile(lambda t: checkpoint(model, t, use_reentrant=False))(x).sum().backward()
    yield x.grad, grads(*model.parameters())


@program
def control_flow() -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos() - 1, (x,))

    compiled = torch.compile(f)
    yield compiled(torch.ones(4)), compiled(-torch.ones(4))


@program
def control_flow_in_training() -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos() - 1, (x,))

    x = torch.ones(4, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad


@program
def loops() -> Iterator[Any]:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        return torch.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t * 1.5 + i), (torch.tensor(0), x))

    yield torch.compile(f)(torch.randn(3))


@program
def several_graphs() -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        z = y.cos() + y
        torch._dynamo.graph_break()
        return z.tanh().sum()

    x = torch.randn(6, requires_grad=True)
    torch.compile(f)(x).backward()
    yield x.grad


@program
def dynamic_shapes() -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        if x.shape[0] > 10:
            return (x @ w).relu() * x.shape[0]
        return (x @ w).sigmoid()

    w = torch.randn(4, 3, requires_grad=True)
    compiled = torch.compile(f, dynamic=True)
    for rows in (5, 7, 12, 20):
        x = torch.randn(rows, 4)
        out = compiled(x, w)
        out.sum().backward()
        yield out, w.grad


@program
def automatic_dynamic_shapes() -> Iterator[Any]:
    compiled = torch.compile(lambda x: (x * 2 + 1).reshape(-1).flip(0))
    for rows in (3, 4, 5, 9):
        yield compiled(torch.arange(float(rows * 2)).reshape(rows, 2))


@program
def marked_dynamic() -> Iterator[Any]:
    x = torch.randn(6, 3)
    torch._dynamo.mark_dynamic(x, 0, min=4, max=64)
    yield torch.compile(lambda t: t.cumsum(0) / t.shape[0])(x)


@program
def scalars_and_integers() -> Iterator[Any]:
    compiled = torch.compile(lambda x, n, s: x * n + s)
    yield compiled(torch.ones(3), 2, 0.5), compiled(torch.ones(3), 3, 0.25), compiled(torch.ones(3), 4, 0.125)


@program
def strides_and_layouts() -> Iterator[Any]:
    compiled = torch.compile(lambda x: x.transpose(0, 1).contiguous() + x.t())
    yield compiled(torch.randn(4, 4).t()), compiled(torch.randn(4, 8)[:, ::2])
    yield torch.compile(lambda x: x.real * x.imag)(torch.randn(4, dtype=torch.complex64).conj())


@program
def higher_order_gradients() -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        return torch.func.grad(lambda t: (t.sin() ** 2).sum())(x)

    yield torch.compile(f)(torch.randn(5))
    yield torch.compile(lambda x: torch.func.vmap(lambda r: r.softmax(0))(x))(torch.randn(3, 4))


@program
def forward_whose_backward_is_never_called() -> Iterator[Any]:
    w = torch.randn(3, requires_grad=True)
    yield torch.compile(lambda t: (t * 5).tan())(w).detach()
