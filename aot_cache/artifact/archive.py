"""Graphs with their kernels, and frames, in one file for another machine. Everything in it is checked by who opens it.

    magic     8 bytes   b"AOTCARCH"
    version   u16 LE    FORMAT
    length    u32 LE    bytes of the header
    digest    16 bytes  BLAKE2b of the header
    header    JSON      [[name, size, stored, digest], ...] by name; sizes in bytes, the digest is that of what is stored
    values    bytes     in the header's order, each `stored` bytes: zlib, or the value itself if that is no longer

Equal values give equal bytes (under one version of zlib): nothing says when, where or in which order they were written.
Digests prove that nothing was damaged, not who wrote it. Pure: no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..errors import EnvelopeError, ForeignEntry, StoreError, told
from ..key.parts import CacheKey, digest
from . import frame_view
from .envelope import Envelope, Manifest

MAGIC = b"AOTCARCH"
FORMAT = 1
_PREFIX = struct.Struct("<8sHI16s")
_MAX_HEADER = 64 * 2**20
_GRAPH_NAME = re.compile(r"g-[0-9a-f]{32}\.[0-9a-f]{16}")
_NAME = re.compile(r"[fg]-[0-9a-f]{32}\.[0-9a-f]{16}|k-[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{32}")
_LEVEL = 6
_KERNEL, _FRAME = "k-", "f-"

Step = Callable[[int], None]


@dataclass(frozen=True)
class Carried:
    """What has to be known of a graph or a frame to carry it: see `entry`.

    digest: of all its bytes. environment: the summary of its key part of that name.
    kernels, graphs: names of the libraries that a graph needs, of the graphs that a frame needs.
    key_is_ours: whether its key is made of its parts as this version of the program makes keys.
    """

    name: str
    title: str
    digest: str
    created: float
    environment: Mapping[str, str]
    kernels: frozenset[str]
    graphs: frozenset[str]
    key_is_ours: bool


def entry(name: str, data: bytes) -> Carried:
    """The graph or frame, read and checked completely. Raises EnvelopeError if it is not what its name says."""
    opened = Envelope(data)
    opened.check()
    made, is_frame = opened.manifest, name.startswith(_FRAME)
    if is_frame:
        variant = digest(b"".join(opened.section(section) for section in opened.names))[:16]
    else:
        variant = digest((made.guards or "").encode())[:16]
    holds = f"{_FRAME if is_frame else 'g-'}{made.key}.{variant}"
    if name != holds:
        raise EnvelopeError(f"{name} holds the entry {holds}")
    if not math.isfinite(made.created):
        raise EnvelopeError(f"{name} was made at {made.created}, which is no time")
    environment = next((part.summary for part in made.parts if part.name == "environment"), {})
    ours = CacheKey(made.parts).digest == made.key
    graphs = frozenset(frame_view.graphs(made)) if is_frame else frozenset()
    if not all(map(_GRAPH_NAME.fullmatch, graphs)):
        raise EnvelopeError(f"{name} does not list its graphs as ours do")
    needed = frozenset() if is_frame else kernels(name, made)
    return Carried(name, made.name, digest(data), made.created, environment, needed, graphs, ours)


def check_kernel(name: str, data: bytes) -> None:
    """Raise EnvelopeError unless the bytes are those of the kernel library with that name."""
    if name != _KERNEL + digest(data):
        raise EnvelopeError(f"{name} is damaged: its digest is not its name")


def kernels(name: str, made: Manifest) -> frozenset[str]:
    """The names of the libraries that the graph entry `name` needs. Raises EnvelopeError if its list is not one."""
    found = set()
    try:
        for row in made.extra.get("kernels", {}).get("libraries", ()):
            if not _DIGEST.fullmatch(row["digest"]):
                raise ValueError(row["digest"])
            found.add(_KERNEL + row["digest"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EnvelopeError(f"the kernels of {name} are not listed as ours are: {told(error)}") from None
    return frozenset(found)


@dataclass(frozen=True)
class Row:
    """One value: its bytes, the bytes it takes in the file, their digest, and from where on they are there."""

    size: int
    stored: int
    digest: str
    offset: int = 0


def write(
    file: BinaryIO, names: Iterable[str], get: Callable[[str], bytes | None], spool: str | None, step: Step
) -> dict[str, Row]:
    """Write the values of `names` to `file`, one at a time; `spool` is the directory for as many temporary bytes.

    Raises:
        StoreError: a value is gone, or cannot be read.
    """
    rows: dict[str, Row] = {}
    # The header goes first and holds the sizes, so the values wait for it in a file without a name.
    with tempfile.TemporaryFile(dir=spool) as values:
        for number, name in enumerate(sorted(set(names)), 1):
            data = get(name)
            if data is None:
                raise StoreError(f"{name} was removed while it was exported: export again")
            packed = min(zlib.compress(data, _LEVEL), data, key=len)
            values.write(packed)
            rows[name] = Row(len(data), len(packed), digest(packed))
            step(number)
        table = [[name, row.size, row.stored, row.digest] for name, row in rows.items()]
        header = json.dumps(table, separators=(",", ":")).encode()
        file.write(_PREFIX.pack(MAGIC, FORMAT, len(header), _blake(header)) + header)
        values.seek(0)
        shutil.copyfileobj(values, file, 2**20)
    return rows


class Archive:
    """An archive in a file that can seek. The header is checked at once, a value when it is read.

    limit: bytes that all values together may take.

    Raises:
        ForeignEntry: the file is an archive of another format version.
        EnvelopeError: it is none, is cut short, is damaged, or would take more than `limit`.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self.rows = _rows(file)
        total = sum(row.size for row in self.rows.values())
        if total > limit:
            fit = f"the {limit} that fit (AOT_CACHE_SIZE_LIMIT)"
            raise EnvelopeError(f"the archive holds {total} bytes, more than {fit}")

    def read(self, name: str) -> bytes:
        """One value. Raises EnvelopeError if it is damaged."""
        row = self.rows[name]
        self._file.seek(row.offset)
        data = self._file.read(row.stored)
        if digest(data) != row.digest:
            raise EnvelopeError(f"{name} in the archive is damaged: its digest does not agree")
        return _inflated(name, data, row.size) if row.stored < row.size else data

    def check(self, step: Step) -> list[Carried]:
        """Read everything once; the graphs and frames in it. Raises EnvelopeError for the first thing that is wrong."""
        entries = []
        for number, name in enumerate(self.rows, 1):
            data = self.read(name)
            if name.startswith(_KERNEL):
                check_kernel(name, data)
            else:
                entries.append(entry(name, data))
            step(number)
        for one in entries:
            if lost := sorted((one.kernels | one.graphs) - self.rows.keys()):
                raise EnvelopeError(f"the archive is incomplete: {one.name} needs {lost[0]}")
        return entries


def _inflated(name: str, data: bytes, size: int) -> bytes:
    """`data` without its compression, which is never followed beyond `size` bytes."""
    expand = zlib.decompressobj()
    try:
        value = expand.decompress(data, size + 1)
    except zlib.error as error:
        raise EnvelopeError(f"{name} in the archive is damaged: {error}") from None
    if len(value) != size or not expand.eof or expand.unused_data:
        raise EnvelopeError(f"{name} in the archive is not {size} bytes in {len(data)}")
    return value


def _rows(file: BinaryIO) -> dict[str, Row]:
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    prefix = file.read(_PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC:
        raise EnvelopeError("the file is not an archive of aot-cache")
    if len(prefix) < _PREFIX.size:
        raise EnvelopeError("the archive is cut short")
    _, version, length, expected = _PREFIX.unpack(prefix)
    if version != FORMAT:
        raise ForeignEntry(f"the archive has format {version}, this program reads {FORMAT}")
    if length > min(_MAX_HEADER, end - _PREFIX.size):
        raise EnvelopeError("the archive is cut short")
    header = file.read(length)
    if _blake(header) != expected:
        raise EnvelopeError("the archive is damaged: the digest of its header does not agree")
    rows = _parsed(header, _PREFIX.size + length)
    needed = _PREFIX.size + length + sum(row.stored for row in rows.values())
    if needed != end:
        what = "cut short" if end < needed else "followed by something else"
        raise EnvelopeError(f"the archive is {what}: it has {end} bytes instead of {needed}")
    return rows


def _parsed(header: bytes, offset: int) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    try:
        for name, size, stored, stored_digest in json.loads(header):
            _check_row(name, size, stored, stored_digest, after=next(reversed(rows), ""))
            rows[name] = Row(size, stored, stored_digest, offset)
            offset += stored
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvelopeError(f"the archive's header is not one of ours: {error}") from None
    return rows


def _check_row(name: Any, size: Any, stored: Any, stored_digest: Any, after: str) -> None:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(f"{str(name)[:200]!r} is not the name of an entry")
    if name <= after:
        raise ValueError(f"{name} comes after {after}")
    if type(size) is not int or type(stored) is not int or not 0 < stored <= size < 2**63:
        raise ValueError(f"{name} has {str(size)[:40]} bytes in {str(stored)[:40]}")
    if not (isinstance(stored_digest, str) and _DIGEST.fullmatch(stored_digest)):
        raise ValueError(f"{name} has no digest")


def _blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
