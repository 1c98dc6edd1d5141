"""Kinds of graphs that look as if no key could cover them. Run as `kinds.py run|keys NAME...`, prints JSON.

run: compiles each and prints its values and what the cache counted. keys: compiles nothing and prints the key of each,
as it is and with one thing in it changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from programs import count_code_generation, digest
from torch import Tensor

import aot_cache

KINDS: dict[str, Callable[[bool], Any]] = {}
# torch 2.13's Inductor fails on them (DataDependentOutputException), with or without a cache.
ONLY_KEYED = {"hinted", "mapped", "scanned", "strict"}


def kind(function: Callable[[bool], Any]) -> Callable[[bool], Any]:
    """A kind compiles a graph and returns its values; told to, with another function or constant in it."""
    KINDS[function.__name__] = function
    return function


class Keyed(BaseException):
    """Ends a compile after its key; not an Exception, so that the cache does not hide it."""


def compiled(function: Callable[..., Any], *inputs: Any, **how: Any) -> Any:
    with torch.no_grad():
        return torch.compile(function, **how)(*inputs)


@kind
def numpy_functions(changed: bool) -> Any:
    wave = np.cos if changed else np.sin

    def f(a: Any) -> Any:
        shifted = np.zeros_like(a)
        shifted[1:] = a[:-1]
        return wave(a) @ np.eye(3) + np.where(a > 0.5, shifted, -a) - np.sort(a, axis=1)[:, ::-1].sum(axis=0)

    return torch.from_numpy(compiled(f, np.arange(12.0).reshape(4, 3) / 7))


@kind
def checks_of_a_size(changed: bool) -> Any:
    def f(x: Tensor, n: Tensor) -> Tensor:
        size = n.item()
        torch._check_is_size(size)
        torch._check(size <= (5 if changed else 4), lambda: "too large")
        return x[:size] * 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return compiled(f, torch.arange(6.0), torch.tensor(3))


@kind
def forward_mode(changed: bool) -> Any:
    wave = torch.cos if changed else torch.sin

    def f(x: Tensor) -> Any:
        def energy(row: Tensor) -> Tensor:
            return (wave(row) ** 2).sum()

        return torch.func.jvp(wave, (x,), (x,)), torch.func.vmap(torch.func.grad(energy))(x)

    return compiled(f, torch.arange(6.0).reshape(2, 3))


@kind
def backward_by_compiled_autograd(changed: bool) -> Any:
    x = torch.arange(3.0, requires_grad=True)
    y = x.sin()
    y.register_hook(lambda grad: grad * (3 if changed else 2))
    with torch._dynamo.compiled_autograd._enable(torch.compile):
        (y * x).sum().backward()
    return x.grad


def mesh() -> Any:
    import torch.distributed as distributed
    from torch.distributed.tensor import init_device_mesh

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    return init_device_mesh("cpu", (1,), mesh_dim_names=("data",))


@kind
def distributed_tensor(changed: bool) -> Any:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh(), [Shard(1 if changed else 0)])
    return compiled(lambda x: (x * 2 + 1).redistribute(x.device_mesh, [Replicate()]).to_local(), x)


@kind
def placements_in_the_graph(changed: bool) -> Any:
    from torch.distributed.tensor import DTensor, Partial, Replicate

    placement, over = Partial("max" if changed else "sum"), mesh()
    return compiled(
        lambda x: (
            DTensor.from_local(x, over, [placement], run_check=False).redistribute(over, [Replicate()]).to_local()
        ),
        torch.arange(6.0),
    )


@kind
def scanned(changed: bool) -> Any:
    from torch._higher_order_ops.scan import scan

    start = 3 if changed else 2
    return compiled(lambda x: scan(lambda c, t: (c * start + t, c - t), torch.zeros(3), x), torch.ones(4, 3))


@kind
def mapped(changed: bool) -> Any:
    from torch._higher_order_ops.map import map as map_

    return compiled(
        lambda x: map_(lambda row, k: row.sin() * (3 if changed else 2) + k, x, torch.ones(3)), torch.ones(4, 3)
    )


@kind
def hinted(changed: bool) -> Any:
    from torch._higher_order_ops.hints_wrap import hints_wrapper

    return compiled(
        lambda x: hints_wrapper(lambda t: t.sin(), (x,), {}, hints={"a": 2 if changed else 1}), torch.ones(3)
    )


@kind
def mapped_over_a_list(changed: bool) -> Any:
    from torch._higher_order_ops.foreach_map import foreach_map

    def both(x: Tensor, y: Tensor) -> Tensor:
        return x * (3 if changed else 2) + y

    return compiled(lambda x: foreach_map(both, [x, x + 1], [x, x]), torch.ones(3))


@kind
def product_of_another_dtype(changed: bool) -> Any:
    from torch._higher_order_ops.out_dtype import out_dtype

    wide = torch.int64 if changed else torch.int32
    return compiled(lambda n: out_dtype(torch.ops.aten.mm.default, wide, n, n), torch.ones(3, 3, dtype=torch.int8))


@kind
def strict(changed: bool) -> Any:
    from torch._higher_order_ops.strict_mode import strict_mode

    wave = torch.cos if changed else torch.sin
    return compiled(lambda x: strict_mode(lambda t: (wave(t),), (x,)), torch.ones(3))


@kind
def fallback_of_the_users(changed: bool) -> Any:
    import torch._inductor.lowering as lowering

    op = torch.ops.aten.erfinv.default
    before = lowering.lowerings[op]
    if not changed:
        lowering.lowerings[op] = lowering.fallback_handler(op, add_to_fallback_set=False)
    try:
        return compiled(lambda x: x.erfinv(), torch.arange(3.0) / 7)
    finally:
        lowering.lowerings[op] = before


def by_cosine(x: Tensor) -> Tensor:
    return torch.ops.aten.cos(x)


def by_exponential(x: Tensor) -> Tensor:
    return torch.ops.aten.exp(x)


@kind
def table_of_decompositions(changed: bool) -> Any:
    rule = by_exponential if changed else by_cosine

    def backend(module: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx
        from torch._inductor.decomposition import select_decomp_table

        table = select_decomp_table() | {torch.ops.aten.sin.default: rule}
        return compile_fx(module, inputs, decompositions=table)

    x = torch.arange(3.0, requires_grad=True)
    out = torch.compile(lambda x: x.sin(), backend=backend)(x)
    out.sum().backward()
    return out, x.grad


def run(names: list[str]) -> dict[str, Any]:
    generated, found = count_code_generation(), {}
    for name in [name for name in names if name not in ONLY_KEYED]:
        torch._dynamo.reset()
        before, code = aot_cache.stats(), generated()
        values = digest(KINDS[name](False))
        counts = {key: value - before[key] for key, value in aot_cache.stats().items()}
        found[name] = {"values": values, "generated": generated() - code, **counts}
    return found


def keys(names: list[str]) -> dict[str, list[list[str]]]:
    from aot_cache.hook import graphs

    build, seen = graphs.graph_key, []

    def note(request: Any, symbols: Any) -> Any:
        seen.append(build(request, symbols).digest)
        raise Keyed

    graphs.graph_key = note
    found: dict[str, list[list[str]]] = {}
    for name in names:
        found[name] = []
        for changed in (False, True, False):
            torch._dynamo.reset()
            seen.clear()
            try:
                KINDS[name](changed)
            except Keyed:
                pass
            found[name].append(list(seen))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    aot_cache.enable()
    result = {"run": run, "keys": keys}[sys.argv[1]](sys.argv[2:] or list(KINDS))
    reasons = [str(event) for event in aot_cache.events() if type(event).__name__ not in ("Hit", "Miss")]
    print(json.dumps({"kinds": result, "reasons": reasons}))
