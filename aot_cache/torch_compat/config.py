"""torch's compiler configuration, as plain values by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

# Settings that cannot change what a compile produces, by full name or by prefix. Everything else counts.
_NEUTRAL_INDUCTOR = (
    "trace.",  # debug output; provenance_tracking_level is put back below
    "compile_threads",
    "worker_start_method",
    "worker_suppress_logging",
    "quiesce_async_compile",
    "cuda.cutlass_dir",  # where CUTLASS lies; what it generates is bundled with the entry
    "cutlass.cutlass_dir",
    "xpu.cutlass_dir",
    "cpp.cxx",  # which compiler, spelled in some way: an entry's kernels come with it
    "fx_graph_cache",
    "fx_graph_remote_cache",
    "autotune_local_cache",
    "autotune_remote_cache",
    "bundled_autotune_remote_cache",
    "force_disable_caches",
    "bundle_triton_into_fx_graph_cache",
    "cpp_cache_precompile_headers",
    "verbose_progress",
    "disable_progress",
    "developer_warnings",
    "warn_mix_layout",
    "_cache_config_ignore_prefix",
    "_save_config_ignore",
    "_cache_config_factory_keys",
)
_NEUTRAL_FUNCTORCH = (
    "bundled_autograd_cache",  # set by the hook itself
    "enable_autograd_cache",
    "enable_remote_autograd_cache",
    "strict_autograd_cache",
    "autograd_cache_normalize_inputs",
    "autograd_cache_allow_custom_autograd_functions",
    "bypass_autograd_cache_key",
    "force_autograd_cache",
    "debug_partitioner",
    "_save_config_ignore",
)
_NEUTRAL_SHARED = (
    "job_id",  # and whose memory of sizes is read: what it holds is compared
    "pgo_extra_",
    "force_disable_caches",
    "force_cudagraph_gc",
    "_save_config_ignore",
)
# Of these, as of Dynamo's own settings, the graph says what they did.
_TRACING_SHARED = ("dynamic_sources", "dynamic_values", "unbacked_sources")
_NEUTRAL_COMMS = ("reorder_sink_verbose_logging", "env_str")
_NEUTRAL_DISTRIBUTED = ("TYPE_CHECKING",)
# Dynamo's settings shape the graph, which is in the key itself; these are read again below it.
_DYNAMO = (
    "do_not_emit_runtime_asserts",
    "capture_scalar_outputs",
    "specialize_float",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "prefer_deferred_runtime_asserts_over_guards",
    "compiled_autograd",
    "enable_compiler_collectives",
    "use_numpy_random_stream",
    "leaf_function_validate_outputs",
    "leaf_function_check_escaped_gradients",
    "allow_empty_graphs",
    "fake_tensor_disable_inference_mode",
)


def snapshot() -> dict[str, Any]:
    """All settings that may change a compile's result: `inductor.*`, `functorch.*`, some `dynamo.*`, shared ones."""
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor
    import torch._inductor.config_comms as comms
    import torch.compiler.config as shared
    import torch.fx.experimental._config as fx
    from torch.distributed import config as distributed

    found = dict(_named("inductor", inductor, _NEUTRAL_INDUCTOR))
    found |= dict(_named("functorch", functorch, _NEUTRAL_FUNCTORCH))
    found |= dict(_named("fx", fx, ("translation_validation", "print_specializations", "extended_debug")))
    found["inductor.trace.provenance_tracking_level"] = inductor.trace.provenance_tracking_level
    found |= dict(_named("comms", comms, _NEUTRAL_COMMS)) | dict(
        _named("distributed", distributed, _NEUTRAL_DISTRIBUTED)
    )
    # Aliases are not among them: those are names for settings of Dynamo's or Inductor's.
    found |= dict(_named("compiler", shared, _NEUTRAL_SHARED + _TRACING_SHARED))
    found |= {f"dynamo.{name}": getattr(dynamo, name) for name in _DYNAMO if hasattr(dynamo, name)}
    return found


def tracing() -> dict[str, Any]:
    """Settings of `torch.compiler.config` that only Dynamo reads, while it traces."""
    import torch.compiler.config as shared

    return {f"compiler.{name}": getattr(shared, name) for name in _TRACING_SHARED if hasattr(shared, name)}


def is_per_thread() -> bool:
    """Whether a setting that one thread makes is not seen by others (torch 2.13)."""
    import torch._inductor.config as inductor

    return isinstance(inductor._config["max_autotune"].user_override, ContextVar)


def has_code() -> bool:
    """Whether a setting that counts holds code: a pass, a partitioner, a solver."""
    values = (
        item for value in snapshot().values() for item in (value if isinstance(value, (list, tuple)) else (value,))
    )
    return any(callable(value) or hasattr(value, "uuid") for value in values)


def non_default(values: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Those of `values` that differ from torch's defaults, each with its default (None if it has none)."""
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor
    import torch._inductor.config_comms as comms
    import torch.compiler.config as shared
    import torch.fx.experimental._config as fx
    from torch.distributed import config as distributed

    modules = {"inductor": inductor, "functorch": functorch, "dynamo": dynamo, "fx": fx}
    modules |= {"compiler": shared, "comms": comms, "distributed": distributed}
    shown = {}
    for name, value in values.items():
        room, _, rest = name.partition(".")
        entry = getattr(modules.get(room), "_config", {}).get(rest)
        if entry is None and value or entry is not None and entry.default != value:
            shown[name] = value, getattr(entry, "default", None)
    return shown


def _named(room: str, module: Any, neutral: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in module.get_config_copy().items():
        if not name.startswith(neutral):
            yield f"{room}.{name}", value
