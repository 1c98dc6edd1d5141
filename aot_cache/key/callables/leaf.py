"""Immutable values as bytes: equal bytes exactly if they have the same type and value."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import re
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from . import process
from .node import Named

Encoded = TypeVar("Encoded", str, bytes)


def sized(tag: str, *payloads: bytes) -> bytes:
    """`payloads` under `tag`, each with its length, so that no two sequences run together."""
    chunks = [tag.encode(), b"(", len(payloads).to_bytes(8, "little")]
    for payload in payloads:
        chunks += (len(payload).to_bytes(8, "little"), payload)
    return b"".join(chunks)


def text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def encode(value: object) -> bytes | None:
    """`value` as bytes; None if it is not an immutable value of a known, exact type."""
    encoder = _ENCODERS.get(type(value))
    return None if encoder is None else encoder(value)


def in_order(values: Iterable[object], encoded: Iterable[Encoded]) -> list[Encoded]:
    """What a set's items were encoded as, in an order that is equal in every process exactly if theirs is.

    Code may loop over a set. Numbers lie in one order wherever a set is made in the same way, which counts; other items
    lie as their hashes have it in one process.
    """
    chance = any(type(value) not in (bool, int, float, complex) for value in values)
    return sorted(encoded) if chance else list(encoded)


def _items(tag: str, values: Any, ordered: bool = True) -> bytes | None:
    chunks = []
    for value in values:
        chunk = encode(value)
        if chunk is None:
            return None
        chunks.append(chunk)
    return sized(tag, *(chunks if ordered else in_order(values, chunks)))


def _fixed(tag: str) -> Callable[[Any], bytes]:
    data = sized(tag)
    return lambda value: data


def _by(tag: str, fields: Callable[[Any], tuple[object, ...]]) -> Callable[[Any], bytes | None]:
    return lambda value: _items(tag, fields(value))


def _moment(value: Any) -> tuple[object, ...]:
    return value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo


# hex(), not str(): a decimal string has a limit of 4300 digits. The bits of a float tell 0.0 from -0.0.
_ENCODERS: dict[type, Callable[[Any], bytes | None]] = {
    type(None): _fixed("none"),
    type(Ellipsis): _fixed("ellipsis"),
    type(NotImplemented): _fixed("notimplemented"),
    bool: lambda v: sized("bool", b"1" if v else b"0"),
    int: lambda v: sized("int", hex(v).encode()),
    float: lambda v: sized("float", struct.pack("<d", v)),
    complex: lambda v: sized("complex", struct.pack("<dd", v.real, v.imag)),
    str: lambda v: sized("str", text(v)),
    bytes: lambda v: sized("bytes", v),
    tuple: lambda v: _items("tuple", v),
    frozenset: lambda v: _items("frozenset", v, ordered=False),
    range: _by("range", lambda v: (v.start, v.stop, v.step)),
    slice: _by("slice", lambda v: (v.start, v.stop, v.step)),
    re.Pattern: _by("pattern", lambda v: (v.pattern, v.flags)),
    decimal.Decimal: _by("decimal", lambda v: (str(v),)),
    datetime.date: _by("date", lambda v: (v.isoformat(),)),
    datetime.time: _by("time", _moment),
    # Without a zone of its own it is local time.
    datetime.datetime: _by("datetime", lambda v: (*_moment(v), None if v.tzinfo else process.zone())),
    datetime.timedelta: _by("timedelta", lambda v: (v.days, v.seconds, v.microseconds)),
    datetime.timezone: _by("timezone", lambda v: (v.utcoffset(None), v.tzname(None))),
    # A lock orders threads and holds no value that code could compute with.
    type(threading.Lock()): _fixed("lock"),
    type(threading.RLock()): _fixed("rlock"),
    Named: lambda v: sized("named", text(v.text)),
}
for _path in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath):
    _ENCODERS[_path] = _by(_path.__name__, lambda v: (str(v),))
