"""A hit without Inductor's compiler: what only a compile needs of it is not imported.

Some things on torch's own hit path import `torch._inductor.lowering` and all around it (0.7 s): the backend's first
line, two imports at the head of every generated wrapper, the table of decompositions that an entry names, and debugging
aids in the graph cache and in every call. Each has a stand-in here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from . import compilers
from .compiling import caching_is_off
from .patches import Patches

_COMPILE_FX = "torch._inductor.compile_fx"
_OUTPUT_CODE = "torch._inductor.output_code"
_EXTERN = "from torch._inductor.select_algorithm import extern_kernels\n"
_ALIGN = "from torch._inductor.codegen.memory_planning import _align as align\n"


class NotCached(Exception):
    """The graph has no entry; it has to go the whole way."""


# -- the backend -------------------------------------------------------------------------------------------------------


def watch(patches: Patches) -> None:
    """Have `torch.compile(backend="inductor")` look an entry up before it imports its compiler."""
    wrapper = torch._TorchCompileInductorWrapper
    patches.wrap(wrapper, "get_compiler_config", _configuration)
    patches.wrap(wrapper, "__call__", _look_up_first)


def import_on_demand(patches: Patches) -> None:
    """Let code that says `torch._inductor.debug` find the module, though no compiler has imported it yet."""
    import torch._inductor as inductor

    def submodule(name: str) -> Any:
        if name == "debug" and sys._getframe(1).f_globals.get("__name__") == _OUTPUT_CODE:
            return _NoDebug
        if not name.startswith("__") and importlib.util.find_spec(f"torch._inductor.{name}") is not None:
            return importlib.import_module(f"torch._inductor.{name}")
        raise AttributeError(f"module 'torch._inductor' has no attribute {name!r}")

    if not hasattr(inductor, "__getattr__"):
        patches.set(inductor, "__getattr__", submodule)
        patches.on_undo(_import_what_graphs_read)


_has_light_graphs = False


def _import_what_graphs_read() -> None:
    # Graphs that were loaded go on running.
    if _has_light_graphs:
        importlib.import_module("torch._inductor.debug")


class _NoDebug:
    """What a compiled graph reads, at each call, of a `torch._inductor.debug` that nobody has imported to change it."""

    RECORD_GRAPH_EXECUTION = False


def _configuration(original: Callable[..., Any], backend: Any) -> Any:
    if _COMPILE_FX in sys.modules:
        return original(backend)
    import torch._inductor.config as config

    with config.patch(backend.config):
        return config.get_config_copy()


def _look_up_first(original: Callable[..., Any], backend: Any, model: Any, inputs: Any, **kwargs: Any) -> Any:
    if _COMPILE_FX not in sys.modules and "torch._inductor.decomposition" not in sys.modules:
        try:
            return _peek(backend, model, inputs, kwargs.get("config_patches") or {})
        except NotCached:
            pass
        except Exception:  # whatever went wrong will show, or not, on torch's own way
            pass
    return original(backend, model, inputs, **kwargs)


@dataclass
class _Extra:
    """What Inductor shares between forward and backward, for a graph that needs no CUDA graphs."""

    cudagraphs: Any
    forward_device: Any
    forward_is_partitioned: bool = False
    cudagraphs_bwd_override: None = None
    graph_id: int | None = field(default=None)


def _peek(backend: Any, model: Any, inputs: Any, patches: dict[str, Any]) -> Any:
    """The compiled function of an entry; raises NotCached if there is none, or if this way is not like torch's own."""
    import torch._dynamo as dynamo
    import torch._functorch.aot_autograd as aot_autograd
    import torch._inductor.config as config
    from torch._inductor.cudagraph_utils import BoxedDeviceIndex
    from torch._inductor.output_code import OutputCode
    from torch._inductor.utils import BoxedBool

    context = torch._guards.TracingContext.try_get()
    if context is None or context.fake_mode is None or not _is_ordinary(model, inputs) or caching_is_off():
        raise NotCached
    with config.patch({**backend.config, **patches}), _as_compile_fx(context), compilers.torchs_own(), peeking():
        if config.cpp_wrapper or getattr(config, "fx_wrapper", False) or config.triton.cudagraphs or config.freezing:
            raise NotCached
        compiler = aot_autograd.SerializableAOTDispatchCompiler(OutputCode, _never)
        compiled = aot_autograd.aot_module_simplified(
            model,
            inputs,
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=compiler,
            keep_inference_input_mutations=True,
            compiler_config_extra=_Extra(BoxedBool(False), BoxedDeviceIndex(None)),
        )
    dynamo.utils.counters["aot_autograd"]["total"] += 1
    dynamo.utils.counters["aot_autograd"]["ok"] += 1
    return dynamo.disable(compiled, reason="do not trace AOT-compiled graph")


def _is_ordinary(model: Any, inputs: Any) -> bool:
    """A graph as Dynamo makes them, which `compile_fx` would hand to AOTAutograd as it is."""
    from torch._inductor.codecache import resolve_pre_grad_pass_timing

    if not isinstance(model, torch.fx.GraphModule) or model.meta.get("cudagraph_annotation") is not None:
        return False
    output = next(iter(reversed(model.graph.nodes)))
    plain = type(model.graph._codegen).__name__ == "CodeGen" and isinstance(output.args[0], (list, tuple))
    nested = any(isinstance(value, (list, tuple, dict)) for value in inputs)
    return plain and not nested and resolve_pre_grad_pass_timing() == "late"


@contextlib.contextmanager
def _as_compile_fx(context: Any) -> Iterator[None]:
    """The surroundings in which `compile_fx` calls AOTAutograd."""
    import torch._dynamo.config as dynamo_config
    import torch._functorch.config as functorch_config
    import torch._inductor.config as config
    from torch._dispatch.python import enable_python_dispatcher
    from torch._dynamo import compiled_autograd
    from torch._inductor.virtualized import V
    from torch.fx._lazy_graph_module import _use_lazy_graph_module

    functorch = {"unlift_effect_tokens": True, "selective_decompose": config.selective_decompose}
    with (
        _use_lazy_graph_module(dynamo_config.use_lazy_graph_module),
        enable_python_dispatcher(),
        V.set_fake_mode(context.fake_mode),
        torch._guards.tracing(context),
        compiled_autograd._disable(),
        functorch_config.patch(functorch),
    ):
        yield


def _never(*_: Any, **__: Any) -> Any:
    raise NotCached


_PEEKING: ContextVar[bool] = ContextVar("looking up only", default=False)


@contextlib.contextmanager
def peeking() -> Iterator[None]:
    token = _PEEKING.set(True)
    try:
        yield
    finally:
        _PEEKING.reset(token)


def is_peeking() -> bool:
    """Whether the graph at hand is only looked up: a miss must raise NotCached instead of compiling."""
    return _PEEKING.get()


# -- the generated wrapper ---------------------------------------------------------------------------------------------


class _ExternKernels:
    """Stands in for Inductor's `extern_kernels` in a wrapper that uses only functions of torch through it."""

    def __getattr__(self, name: str) -> Any:
        if "torch._inductor.select_algorithm" not in sys.modules and name in _PLAIN:
            return getattr(torch, name)
        from torch._inductor.select_algorithm import extern_kernels

        return getattr(extern_kernels, name)


extern_kernels = _ExternKernels()
# Names that an entry said are functions of torch where it was compiled, by the same build of torch.
_PLAIN: set[str] = set()


def plain_externs(sources: list[str]) -> list[str]:
    """Extern kernels that the wrappers use and that are functions of torch; called after a compile."""
    from torch._inductor.select_algorithm import extern_kernels as real

    used = {name for source in sources for name in re.findall(r"\bextern_kernels\.(\w+)", source)}
    return sorted(n for n in used if hasattr(torch, n) and getattr(real, n, None) is getattr(torch, n))


def lighten(graphs: list[Any], externs: list[str]) -> None:
    """Rewrite the imports of revived wrappers, if the modules that they name are not there already."""
    if "torch._inductor.select_algorithm" in sys.modules:
        return
    _PLAIN.update(externs)
    for graph in graphs:
        if source := getattr(graph, "source_code", None):
            graph.source_code = light_source(source)


def light_source(source: str) -> str:
    """A wrapper's source with other imports than torch's own."""
    import torch._inductor.utils as utils

    source = source.replace(_EXTERN, f"from {__name__} import extern_kernels\n")
    if hasattr(utils, "_align"):
        source = source.replace(_ALIGN, "from torch._inductor.utils import _align as align\n")
    return source


# -- the entry --------------------------------------------------------------------------------------------------------


def by_name(module: str, name: str) -> Any:
    """What an entry says only by name and does not need to run, if its module would have to be imported; else None."""
    if (module, name) != ("torch._inductor.decomposition", "select_decomp_table") or module in sys.modules:
        return None
    return _select_decomp_table


def _select_decomp_table() -> Any:
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


# -- the graph cache ---------------------------------------------------------------------------------------------------


def after_load(original: Callable[..., Any], graph: Any, info: Any, constants: Any) -> Any:
    """Around `FxGraphCache.cache_hit_post_compile`, which imports `torch._inductor.graph` for its tests' sake."""
    global _has_light_graphs
    import torch._inductor.codecache as codecache

    needs_torch = _has_triton_kernels(graph) or set(graph.device_types) - {"cpu"} or _is_traced()
    if "torch._inductor.graph" in sys.modules or needs_torch:
        return original(graph, info, constants)
    _has_light_graphs = True
    try:
        graph.after_deserialization(constants)
    except OSError:
        return None, info
    codecache.metrics.CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
    codecache.counters["inductor"] += graph.counter_deltas
    return graph, info


def _has_triton_kernels(graph: Any) -> bool:
    bundle = graph._triton_bundle
    return bundle is not None and any(getattr(bundle, part.name) for part in fields(bundle))


def _is_traced() -> bool:
    """Whether somebody reads what torch logs of a loaded graph."""
    import torch._inductor.codecache as codecache

    # torch installs this handler always; it does nothing without the variable.
    handlers = [h for h in torch._logging._internal.trace_log.handlers if type(h).__name__ != "LazyTraceHandler"]
    return bool(handlers or os.environ.get("TORCH_TRACE") or codecache.output_code_log.isEnabledFor(logging.DEBUG))
