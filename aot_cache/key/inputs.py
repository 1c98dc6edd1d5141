"""A graph's inputs as a key part: metadata of tensors, how they share storage, symbols; never values or names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..outcome import Reason
from ..torch_compat import distributed, tensors
from .encode import CannotKey, Encoder
from .parts import KeyPart


def inputs_part(inputs: Sequence[Any], symbols: tensors.Symbols, identify: Callable[[Any], str]) -> KeyPart:
    """The key part of the inputs, in order.

    Raises:
        CannotKey: an input is of a kind that the key does not know.
    """
    encoder = Encoder()
    summary: dict[str, str] = {}
    for index, value in enumerate(inputs):
        try:
            summary[str(index)] = _input(encoder, value, symbols, identify)
        except CannotKey as error:
            raise CannotKey(error.reason, f"input {index}: {error.detail}", error.remedy) from error
    layout = _alias_layout(inputs, symbols)
    encoder.value(layout)
    encoder.value(symbols.settings())
    if layout:
        summary["shared storage"] = "; ".join(
            " ".join(f"{index}:[{place}]" for index, place in group) for group in layout
        )
    summary |= {f"symbol {name}": text for name, text in symbols.settings().items()}
    return KeyPart.of("inputs", encoder.bytes(), summary)


def _input(encoder: Encoder, value: Any, symbols: tensors.Symbols, identify: Callable[[Any], str]) -> str:
    """Encode one input; returns it in short."""
    if tensors.is_tensor(value):
        return _tensor(encoder, value, symbols, identify)
    if tensors.is_symbolic(value):
        text = symbols.text(value)
        encoder.text("symbolic", f"{type(value).__name__} {text}")
        return text
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        encoder.value(value)
        return repr(value)
    if distributed.mesh_of(value) is not None and (known := distributed.described(value)) is not None:
        encoder.value(known)
        return repr(known)
    raise CannotKey(Reason.UNKNOWN_OBJECT, f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _tensor(encoder: Encoder, tensor: Any, symbols: tensors.Symbols, identify: Callable[[Any], str]) -> str:
    described = tensors.describe(tensor, symbols)
    if tensors.is_wrapper_subclass(tensor):
        _subclass(encoder, tensor, symbols, identify)
    elif not tensors.is_plain(tensor):
        raise CannotKey(
            Reason.UNKNOWN_OBJECT,
            f"a tensor of type {type(tensor).__module__}.{type(tensor).__qualname__}",
            "only traceable wrapper subclasses (with __tensor_flatten__) can be identified",
        )
    encoder.value(described)
    marks = [name for name in ("requires_grad", "parameter", "conj", "neg", "inference") if described[name]]
    place = "" if described["device"] == "cpu" else f" {described['device']}"
    stride = "" if "stride" not in described else f" stride {','.join(described['stride'])}"
    dtype = described["dtype"].removeprefix("torch.")
    return f"{dtype}[{','.join(described['shape'])}]{stride}{place}{' ' if marks else ''}{' '.join(marks)}"


def _subclass(encoder: Encoder, tensor: Any, symbols: tensors.Symbols, identify: Callable[[Any], str]) -> None:
    names, context = tensor.__tensor_flatten__()
    encoder.text("subclass", identify(type(tensor)))
    encoder.value(list(names))
    Encoder.value(encoder, _plain_context(context, identify))
    for name in names:
        _input(encoder, getattr(tensor, name), symbols, identify)


def _plain_context(context: Any, identify: Callable[[Any], str]) -> Any:
    """The subclass's own metadata; objects in it enter by their portable identity."""
    if isinstance(context, (tuple, list)):
        return [_plain_context(item, identify) for item in context]
    if isinstance(context, dict):
        return {str(key): _plain_context(item, identify) for key, item in context.items()}
    if context is None or isinstance(context, (bool, int, float, complex, str, bytes)):
        return context
    return identify(context)


def _alias_layout(inputs: Sequence[Any], symbols: tensors.Symbols) -> list[list[list[Any]]]:
    """Groups of inputs that share a storage: [[index, place in the storage], ...]; inputs alone in theirs are left out."""
    groups: dict[int, list[list[Any]]] = {}
    for index, value in enumerate(inputs):
        for tensor in _plain_tensors(value):
            storage = tensors.storage_of(tensor)
            if storage is not None:
                groups.setdefault(storage, []).append([index, tensors.place(tensor, symbols)])
    return [group for group in groups.values() if len(group) > 1]


def _plain_tensors(value: Any) -> list[Any]:
    if not tensors.is_tensor(value):
        return []
    if not tensors.is_wrapper_subclass(value):
        return [value]
    return [inner for name in value.__tensor_flatten__()[0] for inner in _plain_tensors(getattr(value, name))]
