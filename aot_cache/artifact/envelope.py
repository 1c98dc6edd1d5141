"""The file format of one entry: header, manifest, then sections, each checked before anything is unpickled. Pure: no torch.

magic       8 bytes   b"AOTCACHE"
version     u16 LE    FORMAT
length      u32 LE    bytes of the manifest
digest      16 bytes  BLAKE2b of the manifest
manifest    JSON      {"key": ..., "parts": [...], "facts": {...}, ..., "sections": [[name, length, digest], ...]}
sections    bytes     one after the other, in the manifest's order
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import EnvelopeError, ForeignEntry, told
from ..key.parts import KeyPart

MAGIC = b"AOTCACHE"
FORMAT = 1
_HEADER = struct.Struct("<8sHI16s")
HEADER_BYTES = _HEADER.size
# A manifest is some tens of kilobytes; a length beyond this is damage, not data.
_MAX_MANIFEST = 64 * 2**20


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@dataclass(frozen=True)
class Manifest:
    """What an entry says of itself, readable without torch and without unpickling.

    key: the full key, 32 hexadecimal digits. parts: its named parts.
    name: the compiled function or module, as torch names it. kind: "training" or "inference".
    guards: the shape guards' expression, or None. created: seconds since the epoch.
    seconds: compile time by phase ("forward", "backward"). facts: torch, python, cpu, ... by name.
    extra: what later versions of this program add; kept as it is.
    """

    key: str
    parts: tuple[KeyPart, ...]
    name: str
    kind: str
    guards: str | None
    created: float
    seconds: Mapping[str, float]
    facts: Mapping[str, str]
    extra: Mapping[str, Any]


def pack(manifest: Manifest, sections: Mapping[str, bytes]) -> bytes:
    """One entry as bytes."""
    body = {
        "key": manifest.key,
        "parts": [part.to_json() for part in manifest.parts],
        "name": manifest.name,
        "kind": manifest.kind,
        "guards": manifest.guards,
        "created": manifest.created,
        "seconds": dict(manifest.seconds),
        "facts": dict(manifest.facts),
        "extra": dict(manifest.extra),
        "sections": [[name, len(data), _digest(data).hex()] for name, data in sections.items()],
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    header = _HEADER.pack(MAGIC, FORMAT, len(text), _digest(text))
    return b"".join((header, text, *sections.values()))


class Envelope:
    """One entry's bytes, opened: the manifest is checked at once, a section when it is read.

    Raises:
        ForeignEntry: the bytes are of another format version.
        EnvelopeError: they are not an entry, are cut short, or a digest does not agree.
    """

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        body, start = _open_manifest(self._data)
        self._sections: dict[str, tuple[int, int, str]] = {}
        try:
            self.manifest = _manifest(body)
            for name, length, digest in body["sections"]:
                if not (isinstance(name, str) and isinstance(length, int) and length >= 0):
                    raise ValueError(f"section {name!r} of length {length!r}")
                self._sections[name] = (start, length, digest)
                start += length
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EnvelopeError(f"the manifest is not one of ours: {told(error)}") from None
        if start != len(self._data):
            raise EnvelopeError(f"the entry has {len(self._data)} bytes instead of {start}")

    @property
    def names(self) -> list[str]:
        return list(self._sections)

    def sizes(self) -> dict[str, int]:
        """Bytes by section name."""
        return {name: length for name, (_, length, _) in self._sections.items()}

    def section(self, name: str) -> memoryview:
        """The bytes of one section, after its digest was checked."""
        if name not in self._sections:
            raise EnvelopeError(f"the entry has no section {name!r}")
        start, length, expected = self._sections[name]
        data = self._data[start : start + length]
        if _digest(data).hex() != expected:
            raise EnvelopeError(f"section {name!r} is damaged: its digest does not agree")
        return data

    def check(self) -> None:
        """Read every section once."""
        for name in self._sections:
            self.section(name)


def _open_manifest(data: memoryview) -> tuple[dict[str, Any], int]:
    if len(data) < HEADER_BYTES:
        raise EnvelopeError(f"{len(data)} bytes are too few for an entry")
    magic, version, length, expected = _HEADER.unpack(data[:HEADER_BYTES])
    if magic != MAGIC:
        raise EnvelopeError("the bytes do not start as an entry does")
    if version != FORMAT:
        raise ForeignEntry(f"the entry has format {version}, this program reads {FORMAT}")
    end = HEADER_BYTES + length
    if length > _MAX_MANIFEST or end > len(data):
        raise EnvelopeError("the manifest is cut short")
    text = data[HEADER_BYTES:end]
    if _digest(text) != expected:
        raise EnvelopeError("the manifest is damaged: its digest does not agree")
    try:
        body = json.loads(bytes(text))
    except ValueError as error:
        raise EnvelopeError(f"the manifest is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise EnvelopeError("the manifest is not an object")
    return body, end


def _manifest(body: dict[str, Any]) -> Manifest:
    return Manifest(
        key=str(body["key"]),
        parts=tuple(KeyPart.from_json(part) for part in body["parts"]),
        name=str(body["name"]),
        kind=str(body["kind"]),
        guards=None if body["guards"] is None else str(body["guards"]),
        created=float(body["created"]),
        seconds={str(k): float(v) for k, v in body["seconds"].items()},
        facts={str(k): str(v) for k, v in body["facts"].items()},
        extra=dict(body["extra"]),
    )
