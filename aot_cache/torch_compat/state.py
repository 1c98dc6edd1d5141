"""Ambient state of torch that changes what a compile produces, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch


def ambient() -> dict[str, Any]:
    """Every ambient switch, as plain values; the same on every machine for the same program state."""
    state: dict[str, Any] = {
        "grad": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "default_dtype": str(torch.get_default_dtype()),
        "default_device": str(torch.get_default_device()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "deterministic_fill": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "anomaly": torch.is_anomaly_enabled(),
        "anomaly_nan": torch.is_anomaly_check_nan_enabled(),
        "matmul_precision": _read(torch.get_float32_matmul_precision),
        "threads": torch.get_num_threads(),
        "view_replay": torch._C._is_view_replay_enabled(),
        "denormals": sys.float_info.min / 2 > 0.0,
        "einsum": _einsum(),
        "numpy": _numpy(),
    }
    return state | _autocast() | _backends()


def _numpy() -> list[str]:
    """Types that NumPy's functions give by default in a graph; read from Dynamo's settings once, when first needed."""
    known = getattr(sys.modules.get("torch._numpy._dtypes_impl"), "_default_dtypes", None)
    if known is not None:
        return list(map(str, known))
    import torch._dynamo.config as config

    return [f"torch.{getattr(config, f'numpy_default_{kind}')}" for kind in ("float", "complex", "int")]


def _autocast() -> dict[str, Any]:
    # The dtype counts even while autocast is off: a graph may enter autocast without naming one.
    state: dict[str, Any] = {"autocast.cache": torch.is_autocast_cache_enabled()}
    for device in torch._C._autocast_supported_devices():
        dtype = torch.get_autocast_dtype(device)
        state[f"autocast.{device}"] = f"{'on' if torch.is_autocast_enabled(device) else 'off'} {dtype}"
    return state


def _einsum() -> list[Any]:
    """What chooses the order in which torch.einsum contracts more than two operands."""
    package = torch.backends.opt_einsum.get_opt_einsum()
    switches = [torch.backends.opt_einsum.enabled, torch.backends.opt_einsum.strategy]
    return [*switches, package and str(getattr(package, "__version__", "unknown"))]


def _backends() -> dict[str, Any]:
    backends = torch.backends
    read: dict[str, Callable[[], Any]] = {
        "sdp.flash": backends.cuda.flash_sdp_enabled,
        "sdp.mem_efficient": backends.cuda.mem_efficient_sdp_enabled,
        "sdp.math": backends.cuda.math_sdp_enabled,
        "sdp.cudnn": backends.cuda.cudnn_sdp_enabled,
        "sdp.reduced_math": backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
        "sdp.priority": lambda: [int(p) for p in torch._C._get_sdp_priority_order()],
        "matmul.fp32": lambda: backends.cuda.matmul.fp32_precision,
        "matmul.fp16_reduction": lambda: backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "matmul.bf16_reduction": lambda: backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "matmul.fp16_accumulation": lambda: backends.cuda.matmul.allow_fp16_accumulation,
        "cudnn.enabled": lambda: backends.cudnn.enabled,
        "cudnn.benchmark": lambda: backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: backends.cudnn.deterministic,
        "cudnn.fp32": lambda: [backends.cudnn.conv.fp32_precision, backends.cudnn.rnn.fp32_precision],
        "mkldnn.enabled": lambda: backends.mkldnn.enabled,
        "mkldnn.deterministic": lambda: backends.mkldnn.deterministic,
        "mkldnn.fp32": lambda: [backends.mkldnn.matmul.fp32_precision, backends.mkldnn.conv.fp32_precision],
        "nnpack": lambda: torch._C._get_nnpack_enabled(),
        "fp32": lambda: backends.fp32_precision,
        "cuda.preferred_linalg": lambda: str(backends.cuda.preferred_linalg_library()),
        "cuda.preferred_blas": lambda: str(backends.cuda.preferred_blas_library()),
    }
    return {name: _read(reader) for name, reader in read.items()}


def _read(reader: Callable[[], Any]) -> Any:
    """The switch's value; a switch that this build or release lacks has none that could differ."""
    try:
        return reader()
    except (AttributeError, RuntimeError):
        return "absent"


def active_modes() -> list[Any]:
    """Function and dispatch modes that are active, outermost first; torch's own tracing modes are left out."""
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    return [mode for mode in modes if not _is_tracing_mode(mode)]


def _is_tracing_mode(mode: Any) -> bool:
    kind = f"{type(mode).__module__}.{type(mode).__qualname__}"
    # The default device is part of `ambient`.
    return kind in ("torch._subclasses.fake_tensor.FakeTensorMode", "torch.utils._device.DeviceContext")


def cpu_capability() -> str:
    """The instruction set that ATen dispatches to, as ATEN_CPU_CAPABILITY and this CPU decide it."""
    return torch.backends.cpu.get_cpu_capability()


def accelerators() -> dict[str, str]:
    """Name, capability and driver of the accelerators, or nothing on a machine without one."""
    if not torch.accelerator.is_available():
        return {}
    device = torch.accelerator.current_accelerator()
    facts = {"accelerator": str(device), "current": str(torch.accelerator.current_device_index())}
    if device is not None and device.type == "cuda":
        for index in range(torch.cuda.device_count()):
            facts[f"cuda{index}"] = _gpu(index)
        facts["driver"] = str(torch._C._cuda_getDriverVersion())
    return facts


def _gpu(index: int) -> str:
    properties = torch.cuda.get_device_properties(index)
    arch = getattr(properties, "gcnArchName", "")
    numbers = (properties.major, properties.minor, properties.multi_processor_count, properties.total_memory)
    return f"{properties.name} {arch} {numbers}"
