"""A hit that is compiled all the same: the cached function waits beside torch's compile and is settled after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import HookMismatch
from .late import AfterImport
from .patches import Patches

Function = Callable[[list[Any]], Any]
"""What AOTAutograd returns: takes the list of its inputs, which it may empty."""
Settle = Callable[[Callable[[], Function]], Function]
"""Gets what compiles afresh, gives the function to use."""

_MODULE = "torch._functorch.aot_autograd"
# By torch's number of the compile that is under way.
_waiting: dict[int, Settle] = {}


def watch(patches: Patches, failed: Callable[[Exception], None]) -> AfterImport:
    """Join at the second half of AOTAutograd's compile; `failed` hears why if that cannot be done."""

    def act(module: Any) -> None:
        try:
            if not hasattr(module, "aot_stage2_compile"):
                raise HookMismatch(f"torch {torch.__version__} has no {_MODULE}.aot_stage2_compile")
            patches.wrap(module, "aot_stage2_compile", _compile_and_settle)
        except Exception as error:  # torch's own import must not fail with ours
            patches.undo()
            failed(error)

    return AfterImport(_MODULE, act)


def compile_beside(config: Any, settle: Settle) -> None:
    """Have the graph of this AOTConfig, which torch goes on to compile, end as what `settle` makes of it."""
    _waiting[config.aot_id] = settle


def _compile_and_settle(original: Callable[..., Any], state: Any, *args: Any, **kwargs: Any) -> Any:
    settle = _waiting.pop(state.aot_config.aot_id, None)
    if settle is None:
        return original(state, *args, **kwargs)
    metadata = None

    def compile_afresh() -> Function:
        nonlocal metadata
        fresh, metadata = original(state, *args, **kwargs)
        return fresh

    function = settle(compile_afresh)
    function._boxed_call = True  # type: ignore[attr-defined]
    return function, metadata


def is_tuned() -> bool:
    """Whether Inductor picks kernels by their speed, so that two compiles of one graph may round differently."""
    import torch._inductor.config as config

    names = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")
    return any(getattr(config, name, False) for name in names)
