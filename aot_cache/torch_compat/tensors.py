"""Tensors and symbolic shapes, described by plain values."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Beyond this, the address of a storage cannot matter to the code that Inductor generates.
_ALIGNMENT = 64


class Symbols:
    """Names for shape symbols by order of first use, so that the names in the user's program do not matter.

    Only symbols that stand for themselves as a graph input get such a name; an entry renames these when it is loaded.
    """

    def __init__(self, inputs: Any) -> None:
        self.names: dict[str, str] = {}
        self.ranges: dict[str, str] = {}
        self._env = None
        for value in inputs:
            if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
                self._add(value)

    def _add(self, value: torch.SymInt) -> None:
        symbol, self._env = str(value.node.expr), value.node.shape_env
        if symbol not in self.names:
            self.names[symbol] = f"i{len(self.names)}"
            known = self._env.var_to_range.get(value.node.expr) if self._env is not None else None
            self.ranges[self.names[symbol]] = str(known)

    def text(self, value: Any) -> str:
        """A size, stride or offset as text."""
        if isinstance(value, int):
            return str(value)
        return self.expression(value.node.expr)

    def expression(self, expression: Any) -> str:
        import sympy

        free = {s: sympy.Symbol(self.names[str(s)]) for s in expression.free_symbols if str(s) in self.names}
        return str(expression.xreplace(free) if free else expression)

    def settings(self) -> dict[str, str]:
        """What the shape environment assumes of every symbol, if there is one."""
        if self._env is None:
            return {}
        found = {name: text for name, text in self.ranges.items()}
        found["settings"] = str(getattr(self._env, "settings", None))
        overrides = getattr(self._env, "var_to_hint_override", None) or {}
        found["hints"] = str(sorted((self.expression(s), v) for s, v in overrides.items()))
        return found


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_wrapper_subclass(tensor: torch.Tensor) -> bool:
    return is_traceable_wrapper_subclass(tensor)


def is_plain(tensor: torch.Tensor) -> bool:
    """A tensor of torch's own kinds: strided or not, fake or real, parameter or not."""
    return type(tensor) in (torch.Tensor, FakeTensor, torch.nn.Parameter, torch.nn.Buffer)


def describe(tensor: torch.Tensor, symbols: Symbols) -> dict[str, Any]:
    """Everything that a compile reads of a tensor but its values and its storage."""
    described: dict[str, Any] = {
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "layout": str(tensor.layout),
        "shape": [symbols.text(size) for size in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "leaf": tensor.is_leaf,
        "parameter": isinstance(tensor, torch.nn.Parameter) or bool(getattr(tensor, "_is_param", False)),
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "inference": tensor.is_inference(),
        "static": [
            bool(getattr(tensor, "_is_inductor_static", False)),
            getattr(tensor, "_dynamo_static_input_type", None),
        ],
        "dynamic": _dynamic_marks(tensor),
    }
    if tensor.layout is torch.strided:
        described["stride"] = [symbols.text(stride) for stride in tensor.stride()]
        offset = tensor.storage_offset()
        aligned = offset * tensor.element_size() % _ALIGNMENT if isinstance(offset, int) else symbols.text(offset)
        described["alignment"] = aligned
        described["pinned"] = tensor.device.type == "cpu" and not isinstance(tensor, FakeTensor) and tensor.is_pinned()
    else:
        described["sparse"] = _sparse(tensor)
    return described


def _dynamic_marks(tensor: torch.Tensor) -> list[str]:
    names = ("_dynamo_dynamic_indices", "_dynamo_unbacked_indices", "_dynamo_weak_dynamic_indices", "_specialize_on")
    return [f"{n}={sorted(map(str, v)) if isinstance(v, set) else v}" for n in names if (v := getattr(tensor, n, None))]


def _sparse(tensor: torch.Tensor) -> list[Any]:
    if tensor.layout is torch.sparse_coo:
        return [tensor.is_coalesced(), tensor.sparse_dim(), tensor.dense_dim()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        return [tensor.sparse_dim(), tensor.dense_dim()]
    return []


def storage_of(tensor: torch.Tensor) -> int | None:
    """An identity of the tensor's storage within this process; None if it has none."""
    if tensor.layout is not torch.strided:
        return None
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def place(tensor: torch.Tensor, symbols: Symbols) -> str:
    """Where a tensor lies in its storage: dtype, offset, shape and strides."""
    numbers = (tensor.storage_offset(), *tensor.shape, *tensor.stride())
    return f"{tensor.dtype} " + " ".join(symbols.text(n) for n in numbers)


def contents(tensor: torch.Tensor) -> bytes:
    """The values of a constant tensor, as bytes in memory order of a contiguous copy.

    Raises:
        ValueError: the tensor has no values to read (fake), or none that are plain bytes.
    """
    if isinstance(tensor, FakeTensor) or not is_plain(tensor) or tensor.layout is not torch.strided or tensor.is_mkldnn:
        raise ValueError("a constant whose values cannot be read")
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return flat.reshape(-1).view(torch.uint8).numpy().tobytes()
