"""What a guard of Dynamo's saw, as text that is equal in another process exactly if the guard would hold there.

One rule for each kind of guard. A kind without a rule, or a value that a rule does not know, means that the frame is not
cached: never a guess.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..outcome import Reason
from ..torch_compat import extensions, frames_state, objects, tensors
from ..torch_compat.kinds import is_a
from . import fingerprint_keys
from .callables.leaf import encode, in_order
from .callables.node import portable_module
from .encode import CannotKey
from .fingerprint_code import Codes
from .fingerprint_text import is_short
from .parts import digest

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)
_HOOKS = tuple(f"._{kind}hooks" for kind in ("forward_", "forward_pre_", "backward_", "backward_pre_"))
# Containers of plain values, which an equality guard compares as a whole.
_PLAIN_CONTAINERS = (list, set, tuple, frozenset, torch.Size, type({}.keys()))
# Parametrised types, which are compared by their parts.
_ALIASES = (types.GenericAlias, types.UnionType, type(typing.List[int]), type(typing.Optional[int]))
_CONSTANT_BASES = (int, float, complex, str, bytes)


class Fingerprints:
    """Fingerprints of what one frame's guards see.

    sizes: by source, which dimensions of a tensor are fixed. listing: whether the names of an object's attributes count.
    """

    def __init__(self, sizes: Mapping[Any, Mapping[str, Sequence[Any]]], listing: bool) -> None:
        self.codes = Codes()
        self._sizes, self.listing = sizes, listing

    def of(self, kind: str, arguments: Mapping[str, Any], value: Any, source: Any) -> str:
        """The fingerprint of `value`, which a guard of this kind looks at.

        Raises:
            CannotKey: there is no rule for it.
        """
        rule = _RULES.get(kind)
        if rule is None:
            raise unknown(f"a guard of kind {kind}")
        return rule(self, value, {**arguments, "": source})

    def unguarded(self, value: Any) -> str:
        """The fingerprint of something that Dynamo read without a guard, because it belongs to Python itself."""
        if is_a(value, types.ModuleType):
            return _module(self, value, {})
        if is_a(value, (type, *_FUNCTIONS)):
            return self.codes.of(value)
        if type(value) is dict:
            return f"dict {digest(repr([[self.unguarded(part) for part in item] for item in value.items()]).encode())}"
        if is_a(value, _ALIASES):
            inside = [self.unguarded(part) for part in (typing.get_origin(value), *typing.get_args(value))]
            return f"{type(value).__name__} {digest(repr(inside).encode())}"
        return self.constant(value)

    def keys(self, value: Any) -> str:
        """Which keys a dictionary has, those without a fingerprint by their type alone, and in what order."""
        if not is_a(value, dict):
            raise unknown(f"the keys of a {_type_name(value)}")
        return fingerprint_keys.told(value, self.constant)

    def constant(self, value: Any) -> str:
        data = encode(value)
        if data is not None:
            text = repr(value)  # in which a set's items stand in an order that may be chance
            return f"{type(value).__name__} {text if is_short(text) and 'frozenset(' not in text else digest(data)}"
        if is_a(value, types.CodeType):
            return self.codes.code(value)
        if is_a(value, enum.Enum):
            return f"{self.codes.of(type(value))} {value._name_} {self.constant(value._value_)}"
        if type(value) in _PLAIN_CONTAINERS:
            items = [self.constant(item) for item in value]
            items = in_order(value, items) if is_a(value, (set, frozenset)) else items
            return f"{type(value).__name__} {_listed(items)}"
        if is_a(value, (type, *_FUNCTIONS)):
            return self.codes.of(value)
        if is_a(value, typing._SpecialForm) and getattr(typing, str(value._name), None) is value:
            return f"typing {value._name}"
        if extensions.custom(value) is not None:
            return self.codes.of(value)
        if (name := objects.ufunc(value)) is not None:
            return f"numpy {name}"
        if not is_a(value, torch.Tensor) and (known := objects.taught(value)) is not None:
            return f"{type(value).__name__} {digest(repr(known).encode())}"
        raise unknown(f"a value of type {_type_name(value)}")

    def tensor(self, value: Any, source: Any) -> str:
        if not (is_a(value, torch.Tensor) and tensors.is_plain(value)):
            raise unknown(f"a tensor of type {_type_name(value)}")
        described = tensors.describe(value, tensors.Symbols(()))
        # Dynamo marks parameters so while it traces; it tells CUDA graphs, which have no frames here, what stays put.
        del described["static"]
        for mine, theirs in (("shape", "size"), ("stride", "stride")):
            fixed = self._sizes.get(source, {}).get(theirs)
            if fixed is not None and len(fixed) == len(described.get(mine, ())):
                described[mine] = ["?" if n is None else d for d, n in zip(described[mine], fixed)]
        described["buffer"] = bool(getattr(value, "_is_buffer", False))
        described |= {"keys": frames_state.dispatch_keys(value), "dynamic": frames_state.marks_of_tensor(value)}
        shown = f"{described['dtype'].removeprefix('torch.')}[{','.join(described['shape'])}] on {described['device']}"
        shown += f", strides {','.join(described.get('stride', ())) or '-'}"
        shown += ", requires grad" if described["requires_grad"] else ""
        return f"{type(value).__name__} {shown} {digest(repr(sorted(described.items())).encode())}"


def _listed(items: Sequence[str]) -> str:
    """Fingerprints in a row as one: all of them if that is short."""
    text = repr(list(items))
    return text if is_short(text) else digest(text.encode())


def unknown(what: str) -> CannotKey:
    return CannotKey(Reason.FRAME_GUARD, what)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# -- the rules: (fingerprints, value, arguments; the source under "") -> text ------------------------------------------------


def _type(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    text = prints.codes.of(type(value))
    if prints.listing:
        text += f" attributes {' '.join(map(str, getattr(value, '__dict__', ())))}"
    return text


def _constant(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return prints.constant(value)


def _constant_subclass(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    for base in _CONSTANT_BASES:
        if is_a(value, base):
            # Its methods run untraced where Dynamo folds.
            return f"{prints.codes.of(type(value), whole=True)} {prints.constant(base(value))}"
    raise unknown(f"a value of type {_type_name(value)}")


def _named(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    """For guards on identity: only what a name and a digest identify has one in another process."""
    if is_a(value, types.ModuleType):
        return _module(prints, value, {})
    if is_a(value, (types.FunctionType, types.MethodType)):
        # It may have run while Dynamo traced, so what it reads counts.
        return prints.codes.of(value, whole=True)
    if is_a(value, types.GenericAlias):
        raise unknown(f"identity of a value of type {_type_name(value)}")
    return prints.constant(value)


def _closure(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    if type(value) is types.FunctionType:
        return prints.codes.of(value)
    return _named(prints, value, arguments)


def _module(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    # The module itself: what is read of it has guards of its own.
    if extensions.module_named(value.__name__) is not value:
        raise unknown(f"a module that is not loaded under its name, {value.__name__}")
    return f"module {portable_module(value.__name__)}"


def _tensor(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    if arguments[""].is_dict_key() or arguments[""].is_specialized_nn_module():
        raise unknown("identity of a tensor")
    return prints.tensor(value, arguments[""])


def _length(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    text = f"{len(value)} in {prints.codes.of(type(value))}"
    # Dynamo may loop over a dictionary's keys under this guard alone.
    if not is_a(value, dict) or not value:
        return text
    if str(arguments[""].name).endswith(_HOOKS):  # numbered within the process
        return text + fingerprint_keys.order(value)
    return f"{text} {prints.keys(value)}"


def _keys(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    keys = list(dict.keys(value)) if is_a(value, dict) else list(value.keys())
    listed = _listed([prints.constant(key) for key in keys]) + fingerprint_keys.order(value)
    return f"{len(keys)} keys {listed} in {prints.codes.of(type(value))}"


def _contains(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    key = arguments["key"]
    container = next((c for c in (dict, set, frozenset) if is_a(value, c)), None)
    if container is None:
        raise unknown(f"membership in a {_type_name(value)}")
    found = container.__contains__(value, key)
    return f"{prints.constant(key)} {found}"


def _attribute(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    return f"{arguments['attr']} {hasattr(value, arguments['attr'])}"


def _own_attribute(prints: Fingerprints, value: Any, arguments: Mapping[str, Any]) -> str:
    return f"{arguments['attr']} {arguments['attr'] in value.__dict__}"


def _iterator(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return f"{type(value).__name__} {value.__reduce__()[1:]!r}"


def _tuple_iterator(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return f"{type(value).__name__} {value.__length_hint__()}"


def _not_none(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return f"None {value is None}"


def _key_set(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return str(value.raw_repr())


def _in_key(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    """State that is part of a frame's key, or that must be off for a frame to be cached at all."""
    return "in the key"


def _in_shapes(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return "evaluated"


def _same(prints: Fingerprints, value: Any, _: Mapping[str, Any]) -> str:
    return "which values are the same object"


Rule = Callable[[Fingerprints, Any, Mapping[str, Any]], str]
_RULES: dict[str, Rule] = {
    "AUTOGRAD_SAVED_TENSORS_HOOKS": _in_key,
    "BOOL_MATCH": _constant,
    "BUILTIN_MATCH": _named,
    "CLASS_MATCH": _named,
    "CLOSURE_MATCH": _closure,
    "CONSTANT_MATCH": _constant,
    "CONSTANT_SUBCLASS_MATCH": _constant_subclass,
    "COUNT_ITERATOR_MATCH": _iterator,
    "DEFAULT_DEVICE": _in_key,
    "DETERMINISTIC_ALGORITHMS": _in_key,
    "DICT_CONTAINS": _contains,
    "DICT_KEYS_MATCH": _keys,
    "DICT_NOT_CONTAINS": _contains,
    "DISPATCH_KEY_SET_MATCH": _key_set,
    "DUAL_LEVEL": _in_key,
    "DUPLICATE_INPUT": _same,
    "EMPTY_NN_MODULE_HOOKS_DICT": _length,
    "EQUALS_MATCH": _constant,
    "FSDP_TRAINING_STATE": _in_key,
    "FUNCTION_MATCH": _named,
    "FUNCTORCH_STACK_MATCH": _in_key,
    "GLOBAL_STATE": _in_key,
    "GRAD_MODE": _in_key,
    "HASATTR": _attribute,
    "ID_MATCH": _named,
    "MAPPING_KEYS_CHECK": _keys,
    "MODULE_MATCH": _module,
    "NONE_MATCH": _constant,
    "NOT_NONE_MATCH": _not_none,
    "NOT_PRESENT_IN_GENERIC_DICT": _own_attribute,
    "RANGE_ITERATOR_MATCH": _iterator,
    "SEQUENCE_LENGTH": _length,
    "SET_CONTAINS": _contains,
    "SET_NOT_CONTAINS": _contains,
    "SHAPE_ENV": _in_shapes,
    "TENSOR_MATCH": _tensor,
    "TORCH_FUNCTION_STATE": _in_key,
    "TUPLE_ITERATOR_LEN": _tuple_iterator,
    "TYPE_MATCH": _type,
}
