"""Plain values as bytes: typed and length-prefixed, so that no two different values share an encoding."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Any

from ..errors import AotCacheError
from ..outcome import Reason


class CannotKey(AotCacheError):
    """Something is not known to be covered by a key; becomes a Bypass."""

    def __init__(self, reason: Reason, detail: str, remedy: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason, self.detail, self.remedy = reason, detail, remedy


_LENGTHS = struct.Struct("<BQ").pack
Extend = Callable[["Encoder", Any], bool]
"""Encodes a value that is not plain, and says whether it could."""


class Encoder:
    """Appends encodings to one buffer.

    extend: asked first for every value that is neither a plain scalar nor a plain list, tuple or dict; graphs teach nodes,
    tensors and callables with it.
    """

    def __init__(self, extend: Extend | None = None) -> None:
        self._chunks: list[bytes] = []
        self._extend = extend
        # Keys hold the same few tags and names over and over.
        self._tags: dict[str, bytes] = {}
        self._strings: dict[str, bytes] = {}

    def bytes(self) -> bytes:
        return b"".join(self._chunks)

    def tag(self, tag: str, data: bytes = b"") -> None:
        name = self._tags.get(tag)
        if name is None:
            name = self._tags[tag] = tag.encode()
        self._chunks.append(_LENGTHS(len(name), len(data)) + name + data)

    def text(self, tag: str, text: str) -> None:
        self.tag(tag, text.encode("utf-8", "surrogatepass"))

    def value(self, value: Any) -> None:
        """Encode any plain value or container, or what `extend` knows.

        Raises:
            CannotKey: the value is of an unknown type.
        """
        kind = type(value)
        if kind is str:
            known = self._strings.get(value)
            if known is None:
                self.text("str", value)
                self._strings[value] = self._chunks[-1]
            else:
                self._chunks.append(known)
        elif (simple := _SIMPLE.get(kind)) is not None:
            self.tag(*simple(value))
        elif kind is tuple or kind is list:
            self._sequence(value)
        elif kind is dict:
            self._mapping(value)
        elif self._extend is not None and self._extend(self, value):
            return
        elif isinstance(value, (list, tuple)):
            self._sequence(value)
        elif isinstance(value, dict):
            self._mapping(value)
        elif isinstance(value, (set, frozenset)):
            self._unordered(value)
        elif isinstance(value, slice):
            self.tag("slice")
            for bound in (value.start, value.stop, value.step):
                self.value(bound)
        elif isinstance(value, range):
            self.text("range", f"{value.start} {value.stop} {value.step}")
        elif isinstance(value, enum.Enum):
            self._enum(value)
        else:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise CannotKey(Reason.UNKNOWN_OBJECT, f"a value of type {kind}")

    def _enum(self, member: enum.Enum) -> None:
        # The name alone does not say what the program computes with.
        self.text("enum", f"{type(member).__module__}.{type(member).__qualname__}.{member.name}")
        self.value(member._value_)

    def _sequence(self, items: list[Any] | tuple[Any, ...]) -> None:
        kind = "list" if isinstance(items, list) else "tuple"
        # Subclasses (named tuples, torch.Size) behave differently; FX's immutable lists do not.
        name = "" if type(items) in (list, tuple) or _is_fx_collection(items) else type(items).__qualname__
        self.text(kind, f"{len(items)} {name}")
        for item in items:
            self.value(item)

    def _mapping(self, items: dict[Any, Any]) -> None:
        name = "" if type(items) is dict or _is_fx_collection(items) else type(items).__qualname__
        self.text("dict", f"{len(items)} {name}")
        for key, item in items.items():
            self.value(key)
            self.value(item)

    def _unordered(self, items: set[Any] | frozenset[Any]) -> None:
        encodings = []
        for item in items:
            inner = Encoder(self._extend)
            inner.value(item)
            encodings.append(inner.bytes())
        self.text("set", str(len(items)))
        self._chunks += sorted(encodings)


def _is_fx_collection(value: Any) -> bool:
    return type(value).__module__ == "torch.fx.immutable_collections"


_SIMPLE: dict[type, Callable[[Any], tuple[str, bytes]]] = {
    type(None): lambda v: ("none", b""),
    type(Ellipsis): lambda v: ("ellipsis", b""),
    type(NotImplemented): lambda v: ("notimplemented", b""),
    bool: lambda v: ("bool", b"1" if v else b"0"),
    int: lambda v: ("int", str(v).encode()),
    # The bits, so that -0.0 and every NaN keep their own identity.
    float: lambda v: ("float", struct.pack("<d", v)),
    complex: lambda v: ("complex", struct.pack("<dd", v.real, v.imag)),
    bytes: lambda v: ("bytes", v),
}
