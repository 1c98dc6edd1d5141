"""The CPU that Inductor writes and builds kernels for: the one at hand, or a named level that others have too."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ..errors import HookMismatch
from .patches import Patches

_INDUCTOR = "torch._inductor"
# Spelled out, since not every compiler that torch works with knows the levels by name.
_V2 = "march=x86-64 mcx16 msahf mpopcnt msse3 mssse3 msse4.1 msse4.2".split()
_V3 = _V2 + "mavx mavx2 mbmi mbmi2 mf16c mfma mlzcnt mmovbe mxsave".split()
_V4 = _V3 + "mavx512f mavx512bw mavx512cd mavx512dq mavx512vl".split()
FLAGS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""By level: the compiler's flags, without their first dash, that stand in place of -march=native."""
_VECTORS = {"x86-64-v2": (), "x86-64-v3": ("VecAVX2",), "x86-64-v4": ("VecAVX512", "VecAVX2")}
_IN_PROCESS = ("", "NORMAL", "SERIALIZE")
_ARCHITECTURE = ("march=", "mcpu=", "mtune=")

_level = ""


def use(level: str) -> None:
    """From now on compile for `level`, a name in FLAGS, or "" for this CPU; takes effect once `join` was called."""
    global _level
    assert not level or level in FLAGS, level
    _level = level


def level() -> str:
    """The level that is compiled for; "" for this CPU, also while there is an `obstacle`."""
    return "" if _level and obstacle() else _level


def obstacle() -> str:
    """Why no level can be compiled for, whatever the CPU; '' if one can."""
    module = sys.modules.get(f"{_INDUCTOR}.compile_fx")
    if module is None:
        mode = os.environ.get("TORCHINDUCTOR_FX_COMPILE_MODE", "").upper()
    else:
        mode = getattr(getattr(module, "fx_compile_mode", None), "name", "")
        mode = "ASYNC" if getattr(module, "fx_compile_async", False) else mode
    # There Inductor would write sources for this CPU's vectors, and here they would be built for the level's.
    return "" if mode in _IN_PROCESS else f"Inductor compiles in another process (fx_compile_mode {mode})"


def join(patches: Patches) -> None:
    """Join where Inductor asks what this CPU has; imports its C++ builder.

    Raises:
        HookMismatch: this torch lacks one of the seams.
    """
    if not _level:
        return
    _replace(patches, "cpu_vec_isa", "pick_vec_isa", _pick_vec_isa)
    _replace(patches, "cpp_builder", "_get_optimization_cflags", _optimization_flags)
    for name in ("is_mkldnn_bf16_supported", "is_mkldnn_fp16_supported"):
        _replace(patches, "utils", name, _on_other_devices)


def _replace(patches: Patches, home: str, name: str, around: Callable[..., Any]) -> None:
    """Put `around(original, ...)` in the place of a function, in every module of Inductor that has it by name."""
    module = importlib.import_module(f"{_INDUCTOR}.{home}")
    original = getattr(module, name, None)
    if not callable(original):
        raise HookMismatch(f"{module.__name__} has no {name}: set AOT_CACHE_CPU to native for this torch")

    # A module that is imported meanwhile keeps it when the patches are gone: then it must do what the original does.
    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs) if level() else original(*args, **kwargs)

    for holder in [m for n, m in list(sys.modules.items()) if n.startswith(_INDUCTOR)]:
        if getattr(holder, "__dict__", {}).get(name) is original:
            patches.set(holder, name, replacement)


def _pick_vec_isa(_: Callable[[], Any]) -> Any:
    """The widest vectors of the level, whatever ATEN_CPU_CAPABILITY says: that is libtorch's affair alone."""
    from torch._inductor import config, cpu_vec_isa

    width = config.cpp.simdlen
    found = (isa for isa in _vectors(_level) if width in (None, isa.bit_width()) and isa)
    return next(found, cpu_vec_isa.invalid_vec_isa)


@functools.cache
def _vectors(level: str) -> tuple[Any, ...]:
    from torch._inductor import cpu_vec_isa

    return tuple(_bare(getattr(cpu_vec_isa, name)) for name in _VECTORS[level])


def _bare(isa: Any) -> Any:
    """An instruction set without the extensions that torch adds to it where the CPU at hand has them."""
    base = importlib.import_module(f"{_INDUCTOR}.cpu_vec_isa").VecISA
    own = {"__bool__": base.__bool__, "__hash__": base.__hash__, "is_avx512_bf16_supported": lambda self: False}
    return type(isa.__name__, (isa,), own)()


def _optimization_flags(original: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[list[str], list[str]]:
    flags, linker = original(*args, **kwargs)
    return [flag for flag in flags if not flag.startswith(_ARCHITECTURE)] + FLAGS[_level], linker


def _on_other_devices(original: Callable[[str], bool], device_type: str) -> bool:
    # No level promises what oneDNN asks of the CPU for these types.
    return device_type != "cpu" and original(device_type)
