"""Configuration, ambient switches and environment as key parts."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..outcome import Reason
from ..torch_compat import config, cpu, sources, state, versions
from .encode import CannotKey, Encoder
from .machine import python_facts, vector_features
from .parts import DEFAULT, KeyPart


def config_part(identify: Callable[[Any], str]) -> KeyPart:
    """torch's compiler settings; the summary names those that are not at their default."""
    values = config.snapshot()
    encoder = Encoder(_by_identity(identify))
    for name in sorted(values):
        encoder.text("setting", name)
        try:
            encoder.value(values[name])
        except CannotKey as error:
            raise CannotKey(Reason.CUSTOM_PASS, f"{name}: {error.detail}", error.remedy) from error
    return KeyPart.of("config", encoder.bytes(), _short(config.non_default(values)))


def ambient_part() -> KeyPart:
    """Switches such as grad mode, autocast and matmul precision.

    Raises:
        CannotKey: a function or dispatch mode is active whose effect on the compile is not known.
    """
    for mode in state.active_modes():
        kind = f"{type(mode).__module__}.{type(mode).__qualname__}"
        raise CannotKey(Reason.UNKNOWN_STATE, f"mode {kind} is active", "leave the mode before the compiled call")
    return _named("ambient", state.ambient())


def environment_part() -> KeyPart:
    """The torch build, Python, processor and accelerators that the compiled code is for."""
    facts = {f"torch.{name}": value for name, value in versions.build().items()}
    facts |= dict(python_facts()) | _processor()
    facts |= {f"gpu.{name}": value for name, value in state.accelerators().items()}
    facts |= {f"edited {path}": digest for path, digest in sources.edited().items()}
    facts |= {name: os.environ.get(name, "") for name in _CODEGEN_VARIABLES}
    return _named("environment", facts)


def _processor() -> dict[str, str]:
    """What kernels are compiled for: of this CPU nothing, if that is a level that other CPUs have too."""
    if level := cpu.level():
        return {"cpu.level": level}
    capability = {"cpu.capability": state.cpu_capability(), "cpu.vector": vector_features()}
    return capability | {name: os.environ.get(name, "") for name in _NATIVE_VARIABLES}


def facts() -> dict[str, str]:
    """What an entry says of where it was made; for people, not part of the key."""
    build = versions.build()
    return {
        "torch": build["torch"],
        "git": build["git"],
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": state.cpu_capability(),
    }


# Read by torch while it generates or loads code, and not part of its configuration modules.
_NATIVE_VARIABLES = ("ATEN_CPU_CAPABILITY",)
_CODEGEN_VARIABLES = (
    "TORCH_COMPILE_CPP_MARCH",
    "TORCHINDUCTOR_CPP_MARCH",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "TRITON_DEFAULT_BACKEND",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_INTERPRET",
    "TORCH_CUDA_ARCH_LIST",
    "CUDA_HOME",
    "TRITON_USE_META_WS",
    "CUDACXX",
    "CUBLAS_WORKSPACE_CONFIG",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "PYTORCH_ROCM_ARCH",
    "PYTORCH_REORDER_COLLECTIVES_LIMIT",
    "PYTORCH_SINK_WAITS_LIMIT",
    "PYTORCH_JIT",
    "TENSORIFY_PYTHON_SCALARS",
    "TORCHINDUCTOR_DEBUG_COMPILE",
    "TORCHINDUCTOR_PATTERN_MATCH_BACKEND",
    "TORCHINDUCTOR_XPU_KERNEL_FORMAT",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def _uuid(value: Any) -> str:
    found = value.uuid()
    if not found:
        raise CannotKey(Reason.CUSTOM_PASS, f"{type(value).__qualname__}.uuid() is {found!r}: it asks not to be cached")
    return repr(found)


def _named(part: str, values: Mapping[str, Any]) -> KeyPart:
    encoder = Encoder()
    encoder.value(dict(sorted(values.items())))
    return KeyPart.of(part, encoder.bytes(), {name: str(value) for name, value in values.items()})


def _short(values: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
    found = {}
    for name, (value, default) in sorted(values.items()):
        found[name] = _shown(value)
        found[name + DEFAULT] = _shown(default)
    return found


def _shown(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:200]


def _by_identity(identify: Callable[[Any], str]) -> Callable[[Encoder, Any], bool]:
    def extend(encoder: Encoder, value: Any) -> bool:
        named = callable(getattr(value, "uuid", None))
        if not callable(value) and not named:
            return False
        encoder.text("identity", identify(value))
        if named and not isinstance(value, type):
            # What its author says counts as well, but is never trusted alone: a constant is easily left behind.
            encoder.text("uuid", _uuid(value))
        return True

    return extend
