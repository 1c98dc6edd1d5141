"""What the nodes of a joint graph hold, as plain data for JSON and back: what would not come back exactly is refused."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.passes.shape_prop import TensorMetadata
from torch.fx.traceback import NodeSource
from torch.utils.checkpoint import CheckpointPolicy

from ..errors import EnvelopeError, NotSerializable

_ITSELF = (type(None), bool, int, float, str)
_SEQUENCES = {"tuple": tuple, "size": torch.Size, "frozen list": immutable_list}
_MAPPINGS = {"dict": dict, "frozen dict": immutable_dict}
_NAMED = {"dtype": torch.dtype, "layout": torch.layout, "memory format": torch.memory_format}
_DESCRIPTORS = "torch._functorch._aot_autograd.descriptors"
_HIGHER = "higher-order "
# What a fake tensor carries that the graph it is in has not given it.
_OF_EVERY_FAKE = frozenset({"fake_mode", "_fake_device"})


class Writer:
    """Values as plain data. nodes: the numbers of those that values may refer to. tensors, storages: see `Reader`."""

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self.tensors: list[list[Any]] = []
        self.storages: list[int] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def plain(self, value: Any) -> Any:
        """Raises NotSerializable: it is of no kind that is known to come back as it was."""
        kind = type(value)
        if kind in _ITSELF:
            return value
        if kind is list:
            return [self.plain(item) for item in value]
        if kind is Node and value in self.nodes:
            return {"node": self.nodes[value]}
        for tag, known in _SEQUENCES.items():
            if kind is known:
                return {tag: [self.plain(item) for item in value]}
        for tag, known in _MAPPINGS.items():
            if kind is known:
                return {tag: [[self.plain(key), self.plain(item)] for key, item in value.items()]}
        for tag, known in _NAMED.items():
            if kind is known:
                return {tag: str(value).removeprefix("torch.")}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value)}
        if isinstance(value, (OpOverload, HigherOrderOperator)) or value is operator.getitem:
            return _name(value)
        if kind is torch.device:
            return {"device": str(value)}
        if kind is slice:
            return {"slice": [self.plain(item) for item in (value.start, value.stop, value.step)]}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind is TensorMetadata:
            return {"tensor meta": [self.plain(item) for item in value]}
        if kind is CheckpointPolicy:
            return {"policy": value.name}
        if kind is NodeSource and NodeSource._from_dict(value.to_dict()) == value:
            return {"source": value.to_dict()}
        if kind.__module__ == _DESCRIPTORS and dataclasses.is_dataclass(value):
            names = [one.name for one in dataclasses.fields(value)]
            return {"descriptor": [kind.__name__, *([name, self.plain(getattr(value, name))] for name in names)]}
        raise NotSerializable(f"a joint graph holds a {kind.__module__}.{kind.__qualname__}")

    def _tensor(self, value: torch.Tensor) -> int:
        """The number of a row: its storage's number, its type, device, size, strides and offset."""
        if reason := odd(value):
            raise NotSerializable(f"a joint graph holds {reason}")
        kept = value.untyped_storage()
        number = self._numbers.setdefault(kept._cdata, len(self.storages))
        if number == len(self.storages):
            self._kept.append(kept)  # so that its number stays its own
            self.storages.append(kept.nbytes())
        shape = [list(value.shape), list(value.stride()), value.storage_offset()]
        self.tensors.append([number, str(value.dtype).removeprefix("torch."), str(value.device), *shape])
        return len(self.tensors) - 1


def odd(value: torch.Tensor) -> str:
    """Why a tensor is more than its type, device, size, strides and place in a storage; "" if it is no more."""
    from torch._subclasses.fake_tensor import FakeTensor

    if type(value) is not FakeTensor or value.layout != torch.strided:
        return f"a tensor of class {type(value).__name__}, {value.layout}"
    if more := sorted(name for name, held in vars(value).items() if held is not None and name not in _OF_EVERY_FAKE):
        return f"a tensor with {', '.join(more)}"
    if value.requires_grad or value.is_conj() or value.is_neg() or value.is_inference():
        return "a tensor that requires a gradient, is conjugated or of inference mode"
    numbers = (*value.shape, *value.stride(), value.storage_offset(), value.untyped_storage().nbytes())
    return "" if all(type(number) is int for number in numbers) else "a tensor of a symbolic size"


class Reader:
    """Plain data of a `Writer` as values, on fake tensors of `fake_mode`. nodes: those made so far, by number.

    storages: bytes of each. tensors: rows of a storage's number, type, device, size, strides and offset.
    """

    def __init__(self, storages: Sequence[int], tensors: Sequence[Sequence[Any]], fake_mode: Any) -> None:
        self.nodes: list[Node] = []
        self._tensors = _fakes(storages, tensors, fake_mode)
        self._read: dict[str, Callable[[Any], Any]] = {
            "node": lambda number: self.nodes[number],
            "tensor": lambda number: self._tensors[number],
            "target": _target,
            "copied target": lambda name: copy.copy(_target(name)),
            "device": torch.device,
            "slice": lambda items: slice(*map(self.value, items)),
            "complex": lambda parts: complex(*parts),
            "tensor meta": lambda items: TensorMetadata(*map(self.value, items)),
            "policy": lambda name: CheckpointPolicy[name],
            "source": NodeSource._from_dict,
            "descriptor": self._descriptor,
        }

    def value(self, plain: Any) -> Any:
        """Raises EnvelopeError, KeyError, TypeError, ...: it is not what a `Writer` gave."""
        if type(plain) in _ITSELF:
            return plain
        if type(plain) is list:
            return [self.value(item) for item in plain]
        ((tag, held),) = plain.items()
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](self.value(item) for item in held)
        if tag in _MAPPINGS:
            return _MAPPINGS[tag]((self.value(key), self.value(item)) for key, item in held)
        if tag in _NAMED:
            return named(tag, held)
        return self._read[tag](held)

    def _descriptor(self, held: Any) -> Any:
        import torch._functorch._aot_autograd.descriptors as module

        kind = getattr(module, held[0])
        if kind.__module__ != _DESCRIPTORS or not dataclasses.is_dataclass(kind):
            raise EnvelopeError(f"{held[0]} is no descriptor")
        return kind(**{name: self.value(item) for name, item in held[1:]})


def named(tag: str, name: str) -> Any:
    """torch.float32 of dtype and float32."""
    found = getattr(torch, name)
    if type(found) is not _NAMED[tag]:
        raise EnvelopeError(f"{name} is no {tag}")
    return found


def _name(target: Any) -> dict[str, str]:
    """What `_target` finds it by; where FX copied a node's annotations, an operator is a copy, and not equal to itself."""
    name = "getitem" if target is operator.getitem else str(target)
    name = f"{_HIGHER}{target.name()}" if isinstance(target, HigherOrderOperator) else name
    found = _target(name)
    if found is not target and vars(found) != vars(target):
        raise NotSerializable(f"a joint graph names {name}, which is another one now")
    return {"target" if found is target else "copied target": name}


def _target(name: str) -> Any:
    if name == "getitem":
        return operator.getitem
    if name.startswith(_HIGHER):
        found, kind = getattr(torch.ops.higher_order, name.removeprefix(_HIGHER)), HigherOrderOperator
    else:
        space, base, overload = name.split(".")
        found, kind = getattr(getattr(getattr(torch.ops, space), base), overload), OpOverload
    if not isinstance(found, kind):
        raise EnvelopeError(f"{name} is no operator")
    return found


def _fakes(storages: Sequence[int], tensors: Sequence[Sequence[Any]], fake_mode: Any) -> list[Any]:
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._mode_utils import no_dispatch

    with no_dispatch(), torch.no_grad():
        kept = [torch.empty(size, dtype=torch.uint8, device="meta").untyped_storage() for size in storages]
        found = []
        for number, dtype, device, size, stride, offset in tensors:
            empty = torch.empty(0, dtype=named("dtype", dtype), device="meta")
            found.append(FakeTensor(fake_mode, empty.set_(kept[number], offset, size, stride), torch.device(device)))
    return found
