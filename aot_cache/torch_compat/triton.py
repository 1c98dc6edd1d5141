"""Triton kernels: what those that the user wrote consist of, and what an entry keeps of those that were compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any


def arguments(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """`kwargs` of an operator that calls a kernel, with the kernel and its constants instead of their numbers.

    The numbers mean something only in this process. name: the operator's; other operators' arguments stay as they are.
    """
    if not name.startswith("triton_kernel_wrapper_"):
        return dict(kwargs)
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    kernel = kernel_side_table.get_kernel(kwargs["kernel_idx"])
    constants = kernel_side_table.get_constant_args(kwargs["constant_args_idx"])
    return {**kwargs, "kernel_idx": kernel, "constant_args_idx": dict(sorted(constants.items()))}


def keep_binaries_only(graphs: Iterable[Any]) -> None:
    """Leave of the compiled kernels that a graph carries what Triton's own cache holds: plain text and binaries.

    Torch also keeps the launchers of those kernels, whose pickles hold Triton's own objects with the functions of the
    process. Without them a hit puts the binaries where Triton looks for them, and builds each launcher from the source
    in the wrapper.
    """
    for graph in graphs:
        bundle = getattr(graph, "_triton_bundle", None)
        if bundle is not None and bundle.static_autotuners:
            graph.set_triton_bundle(type(bundle)(bundle.kernel_artifacts, []))


def is_kernel(value: Any) -> bool:
    return type(value).__module__ in _MODULES and type(value).__name__ in _KERNELS


def taught(value: Any) -> tuple[bytes, Any] | None:
    """As torch_compat.objects.taught, for what `triton.jit` and its decorators make."""
    if type(value).__module__ not in _MODULES or "triton" not in sys.modules:
        return None
    kind = type(value).__name__
    if kind in ("JITFunction", "ConstexprFunction"):
        # The source text, because Triton reads what bytecode does not show, such as annotations.
        settings = {name: getattr(value, name, None) for name in _SETTINGS}
        return f"{kind} {value.src}".encode(), (value.fn, settings)
    if kind == "Autotuner":
        configs = [dict(sorted(vars(config).items())) for config in value.configs]
        return b"Autotuner", (value.fn, configs, list(value.keys), getattr(value, "perf_model", None))
    if kind == "Heuristics":
        return b"Heuristics", (value.fn, value.values)
    return None


_MODULES = ("triton.runtime.jit", "triton.runtime.autotuner")
_KERNELS = ("JITFunction", "Autotuner", "Heuristics")
_SETTINGS = ("noinline", "debug", "do_not_specialize", "do_not_specialize_on_alignment", "launch_metadata")
