"""What a compile of a frame depends on besides the frame: Dynamo's settings, the backend, and states of torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch

from . import registries
from .config import tracing as tracing_config
from .kinds import is_a

# Settings of Dynamo that cannot change what a frame is compiled to, by prefix. Everything else counts.
_NEUTRAL = (
    "TYPE_CHECKING",
    "_custom_ops_profile",
    "_save_config_ignore",
    "base_dir",
    "cprofile",
    "debug_dir_root",
    "dynamo_profiler",
    "fake_tensor_cache",
    "issue_3_13_0_warning",
    "log_",
    "pt2_compile_id_prefix",
    "record_",
    "report_guard_failures",
    "repro_",
    "run_gc_after_compile",
    "verbose",
)


def dynamo_config() -> dict[str, Any]:
    """Dynamo's settings by name, without those that only log, time or debug."""
    import torch._dynamo.config as config

    found = {f"dynamo.{k}": v for k, v in config.get_config_copy().items() if not k.startswith(_NEUTRAL)}
    return found | tracing_config()


def changed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of Dynamo's settings that differ from their defaults."""
    import torch._dynamo.config as config

    known = config._config
    return {k: v for k, v in values.items() if (e := known.get(k.removeprefix("dynamo."))) is None or e.default != v}


def foreign_decompositions() -> dict[str, Any]:
    """How the decompositions that Inductor will use differ from its own, by operator."""
    inductors = sys.modules.get("torch._inductor.decomposition")
    # Not imported yet, it will take what the global table holds, which is in the key.
    return {} if inductors is None else registries.decompositions(inductors.select_decomp_table())


def graph_break_is_error() -> bool:
    """Whether torch._dynamo.error_on_graph_break is on."""
    from torch._dynamo import eval_frame

    read = getattr(eval_frame, "_get_error_on_graph_break", None)
    return bool(read()) if read else False


def backend_settings(backend: Any) -> dict[str, Any] | None:
    """The arguments of torch.compile that its Inductor backend holds; None for any other backend."""
    while (inner := getattr(backend, "_torchdynamo_orig_backend", None)) is not None:
        if not type(backend).__module__.startswith("torch."):
            return None
        backend = inner
    if type(backend) is not torch._TorchCompileInductorWrapper:
        return None
    return {"options": dict(backend.config), "dynamic": backend.dynamic}


def active() -> str:
    """What is active that a frame entry does not describe; '' if nothing is."""
    import torch._dynamo.config as config
    from torch._dynamo import compiled_autograd, convert_frame
    from torch._functorch._aot_autograd.utils import top_saved_tensors_hooks
    from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

    checks: Mapping[str, Any] = {
        "a function mode": torch._C._len_torch_function_stack(),
        "a dispatch mode": torch._C._len_torch_dispatch_stack(),
        "functorch": retrieve_all_functorch_interpreters(),
        "forward-mode differentiation": torch.autograd.forward_ad._current_level >= 0,
        "a saved-tensors hook": top_saved_tensors_hooks(),
        "compiled autograd": compiled_autograd.compiled_autograd_enabled
        or compiled_autograd.in_compiled_autograd_region,
        "torch.distributed": torch.distributed.is_available() and torch.distributed.is_initialized(),
        "a bytecode hook": convert_frame._bytecode_hooks,
        "torch's own precompile": config.caching_precompile,
        "recording for replay": config.replay_record_enabled,
        "guard_nn_modules=False": not config.guard_nn_modules,
        # Dynamo looks at them without a guard.
        "a hook on all modules": any(v for k, v in vars(torch.nn.modules.module).items() if _is_global_hook(k)),
        "CUDA graphs": torch._inductor.config.triton.cudagraphs,
    }
    return ", ".join(name for name, on in checks.items() if on)


def _is_global_hook(name: str) -> bool:
    return name.startswith("_global_") and "hooks" in name and not name.endswith("_always_called")


def marks(function: Any) -> list[str]:
    """How Dynamo was told to treat a function that is not torch's: decorators that leave no trace in its code."""
    from torch._dynamo import trace_rules

    found = []
    for name in (
        "_allowed_callable_ids",
        "_disallowed_callable_ids",
        "_nonstrict_trace_callable_ids",
        "_leaf_function_ids",
    ):
        # The sets are filled when they are first used; before that nobody has added to them.
        ids = getattr(getattr(trace_rules, name, None), "function_ids", None)
        if ids is not None and id(function) in ids:
            found.append(name)
    for name in ("_dynamo_marked_constant", "_dynamo_marked_static", "_torchdynamo_disable", "_dynamo_forbidden"):
        if getattr(function, name, False):
            found.append(name)
    return found


def compiled_function(value: Any) -> Any:
    """The function inside a wrapper of torch.compile or torch.compiler.disable; None if it is no such wrapper."""
    inner = getattr(value, "_torchdynamo_orig_callable", None) if is_a(value, FunctionType) else None
    return inner if inner is not None and value.__globals__.get("__name__") == "torch._dynamo.eval_frame" else None


def dispatch_keys(tensor: torch.Tensor) -> str:
    """All properties of a tensor that choose its kernels: layout, conjugation, gradients, functionalisation, ..."""
    return str(torch._C._dispatch_keys(tensor).raw_repr())


def marks_of_tensor(tensor: torch.Tensor) -> list[str]:
    """What mark_dynamic, mark_static, mark_unbacked and their like left on a tensor: all that they were told."""
    found = sorted((name, value) for name, value in vars(tensor).items() if value and name.startswith(_MARKS))
    return [f"{name} {_in_order(value)}" for name, value in found if name != "_dynamo_static_input_type"]


def _in_order(mark: Any) -> Any:
    if isinstance(mark, dict):
        return sorted(mark.items())
    return sorted(map(str, mark)) if isinstance(mark, set) else mark


# Not where its memory lies: Dynamo marks parameters so while it traces, and only CUDA graphs ask.
_MARKS = ("_dynamo_", "_specialize_on")


def exceeds_limit(cache_size: Any, compile_id: Any) -> bool:
    """Whether Dynamo would refuse to compile this code once more."""
    from torch._dynamo.cache_size import exceeds_recompile_limit

    return bool(exceeds_recompile_limit(cache_size, compile_id)[0])
