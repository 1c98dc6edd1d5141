"""Small programs that compile, one for each thing an entry must bring back. Run as `programs.py NAME...`, prints JSON.

For each program: a digest of all outputs, mutated inputs and gradients; what the cache counted; how often Inductor
generated code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PROGRAMS: dict[str, Callable[[], Iterator[Any]]] = {}


def program(function: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """A program yields every value that must be the same in every process."""
    PROGRAMS[function.__name__] = function
    return function


def grads(*tensors: Tensor) -> list[Tensor | None]:
    return [tensor.grad for tensor in tensors]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.norm(self.first(x))))


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


def digest(values: Any) -> str:
    """All tensors in nested values, bit by bit."""
    parts = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, Tensor):
            flat = value.detach().resolve_conj().contiguous()
            parts.update(f"{tuple(value.shape)} {value.dtype} {value.requires_grad};".encode())
            parts.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, (list, tuple)):
            parts.update(f"{len(value)}[".encode())
            for item in value:
                feed(item)
        else:
            parts.update(repr(value).encode())

    feed(values)
    return parts.hexdigest()[:16]


def count_code_generation() -> Callable[[], int]:
    """How often Inductor lowered a graph so far; works without importing Inductor."""
    from aot_cache.torch_compat.late import AfterImport

    calls = [0]

    def wrap(module: Any) -> None:
        lower = module.GraphLowering.run

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            return lower(self, *args, **kwargs)

        module.GraphLowering.run = run

    AfterImport("torch._inductor.graph", wrap)
    return lambda: calls[0]


def main(names: list[str]) -> None:
    import aot_cache

    torch.set_num_threads(1)  # sums over threads are not reproducible, with or without a cache
    generated = count_code_generation()
    results = {}
    for name in names or PROGRAMS:
        torch.manual_seed(0)
        torch._dynamo.reset()
        before, code = aot_cache.stats(), generated()
        values = list(PROGRAMS[name]())
        counts = {key: value - before[key] for key, value in aot_cache.stats().items()}
        results[name] = {"values": digest(values), "generated": generated() - code, **counts}
    reasons = [f"{type(e).__name__} {e}" for e in aot_cache.events() if type(e).__name__ not in ("Hit", "Miss")]
    print(json.dumps({"programs": results, "reasons": reasons}))


if __name__ == "__main__":
    main(sys.argv[1:])
