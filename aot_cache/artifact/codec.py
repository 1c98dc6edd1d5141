"""Compiled results to sections and back: the only pickle, and it rebuilds nothing but what is on its list.

The list keeps accidents and foreign data out. It is no defence against an attacker: an entry is code that a hit runs.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from ..errors import EnvelopeError, NotSerializable
from ..torch_compat import light, storages
from ..torch_compat.entries import REBUILDERS, without_modes

# Classes of these packages may be rebuilt; functions only if they are listed.
_PACKAGES = ("torch", "sympy", "mpmath")
_BUILTINS = frozenset(
    "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple type NoneType "
    "Ellipsis NotImplemented".split()
)
# Values that pickle by name.
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
_STANDARD = frozenset(
    {
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "Counter"),
        ("collections", "deque"),
        ("functools", "partial"),
        ("pathlib", "PosixPath"),
        ("_operator", "getitem"),
    }
)


def dump(result: Any) -> bytes:
    """A compiled result as bytes.

    Raises:
        NotSerializable: it holds something that cannot be stored, or that `load` would refuse.
    """
    try:
        with without_modes():
            buffer = io.BytesIO()
            _Pickler(buffer, protocol=4).dump(result)
    except NotSerializable:
        raise
    except Exception as error:  # whatever an object's own reduce raises
        raise NotSerializable(f"{type(error).__name__}: {error}") from error
    return buffer.getvalue()


def load(data: bytes | memoryview) -> Any:
    """The compiled result that `dump` was given.

    Raises:
        EnvelopeError: the bytes name something that is not on the list, or are no such result.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except EnvelopeError:
        raise
    except Exception as error:  # a pickle can fail in any way at all
        raise EnvelopeError(f"the compiled result cannot be rebuilt: {type(error).__name__}: {error}") from error


def encode_texts(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}


def decode_text(data: bytes | memoryview) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")


class _Pickler(pickle.Pickler):
    """Refuses at once what `load` would refuse."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            module, name = pickle.whichmodule(value, value.__qualname__), value.__qualname__
            if not (_is_listed(module, name) or isinstance(value, type) and _is_allowed_class(value, module)):
                raise NotSerializable(f"it holds {module}.{name}, which is not allowed in an entry")
        elif storages.is_storage(value):
            # torch's own way is a pickle within the pickle, which no list could watch.
            return storages.rebuild, storages.take(value)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if _is_listed(module, name):
            return light.by_name(module, name) or super().find_class(module, name)
        # Only importing what torch would import anyway: a user's module must be there already.
        known = module.split(".")[0] in _PACKAGES or module in sys.modules
        found = super().find_class(module, name) if known else None
        # The class must live where the pickle says it does: "torch.x" "os.system" must not lead elsewhere.
        if isinstance(found, type) and _is_allowed_class(found, module) or isinstance(found, _CONSTANTS):
            return found
        raise EnvelopeError(f"the compiled result names {module}.{name}, which is not allowed")


def _is_listed(module: str, name: str) -> bool:
    if (module, name) == (storages.rebuild.__module__, storages.rebuild.__name__):
        return True
    return (module, name) in _STANDARD or (module, name) in REBUILDERS or module == "builtins" and name in _BUILTINS


def _is_allowed_class(found: type, module: str) -> bool:
    if found.__module__.split(".")[0] in _PACKAGES and module.split(".")[0] in _PACKAGES:
        return True
    # A user's tensor subclass: the graph at hand was captured with it, so its module is imported already.
    return found.__module__ == module and module in sys.modules and issubclass(found, torch.Tensor)
