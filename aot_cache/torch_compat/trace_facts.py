"""All that a trace of AOTAutograd's is given, as plain data that is equal exactly where the trace would be."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import sympy
import torch

from ..errors import NotSerializable

# Objects of these modules are what their attributes are.
_BY_ATTRIBUTES = ("torch._functorch.", "torch.fx.experimental.")
# What a view does; which one it gives stands beside it.
_BY_CLASS = "torch._C._functionalization"
# For messages: which frame it is in this process.
_NEUTRAL = frozenset({"compile_id_str"})


def fields(metadata: Any) -> dict[str, Any]:
    """Each attribute of AOTAutograd's metadata of a forward."""
    texts = _Texts()
    return {name: texts.of(value) for name, value in sorted(vars(metadata).items()) if name not in _NEUTRAL}


def given(inputs: Any, descriptors: Any, config: Any, metadata: Any) -> dict[str, Any]:
    """Raises NotSerializable: there is something that cannot be told, or of a kind that is not captured."""
    odd = ("is_export", "pre_dispatch", "disable_functionalization", "export_trace_joint")
    if any(getattr(config, name, False) for name in odd):
        raise NotSerializable("AOTAutograd traces in an unusual way")
    if getattr(metadata, "tokens", None) or getattr(metadata, "is_rng_op_functionalized", False):
        raise NotSerializable("a graph has effects, or functional random numbers")
    return {"inputs": described(inputs), "descriptors": described(descriptors), "metadata": fields(metadata)}


def described(value: Any) -> Any:
    """Nested plain data; storages are numbered in the order in which they come."""
    return _Texts().of(value)


class _Texts:
    def __init__(self) -> None:
        self._storages: dict[int, int] = {}
        self._kept: list[Any] = []

    def of(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, (complex, torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, enum.Enum):
            return str(value)
        if isinstance(value, type):
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, *map(self.of, value)]
        if isinstance(value, Mapping):
            return ["mapping", *([self.of(key), self.of(item)] for key, item in value.items())]
        if isinstance(value, (set, frozenset)):
            return ["set", *sorted(map(self.of, value), key=repr)]
        kind = type(value)
        if isinstance(value, sympy.Number):
            return str(value)
        if kind.__module__.startswith(_BY_CLASS):
            return kind.__qualname__
        if kind.__module__.startswith(_BY_ATTRIBUTES) and hasattr(value, "__dict__"):
            return [kind.__qualname__, *([name, self.of(held)] for name, held in sorted(vars(value).items()))]
        raise NotSerializable(f"a trace is given a {kind.__module__}.{kind.__qualname__}")

    def _tensor(self, value: torch.Tensor) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor

        if type(value) is not FakeTensor or value.layout != torch.strided:
            raise NotSerializable(f"a trace is given a tensor of class {type(value).__name__}, {value.layout}")
        kept = value.untyped_storage()
        self._kept.append(kept)  # so that its number stays its own
        number = self._storages.setdefault(kept._cdata, len(self._storages))
        numbers = [number, kept.nbytes(), value.storage_offset(), *value.shape, *value.stride()]
        if any(type(one) is not int for one in numbers):
            raise NotSerializable("a trace is given a tensor of a symbolic size")
        flags = (value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg(), value.is_inference())
        return [
            str(value.dtype),
            str(value.device),
            value.ndim,
            *numbers,
            *flags,
            bool(getattr(value, "_is_param", False)),
        ]
