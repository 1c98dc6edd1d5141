"""A compiled graph as a store entry and back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..artifact import codec, native
from ..artifact.envelope import MAGIC, Envelope, Manifest, pack as pack_envelope
from ..errors import DamagedValue, EnvelopeError, ForeignEntry, NotSerializable, StoreError
from ..key.build import identify, process_code
from ..key.moments import changed
from ..key.parts import CacheKey, digest
from ..key.state import facts
from ..outcome import Reason
from ..torch_compat import aot, collector, entries, generated, kernels, light, moments


@dataclass
class Pending:
    """What has to be remembered from a look-up that missed until its result is saved."""

    key: CacheKey
    name: str
    symbols: dict[str, str]
    sources: Any
    alias_guards_before: int
    shape_facts_before: tuple[int, frozenset[str]]
    handed: moments.Moment | None
    offload: Mapping[str, Any] = field(default_factory=dict)
    """What the entry says of its offload plan, once its graph is cut."""
    code: Mapping[str, str] | None = None
    """What is not torch's own in its compiler, by identity."""

    def remember_code(self) -> None:
        """Called when the look-up missed, since a backward that is compiled later must find the same."""
        self.code = process_code(identify)


@dataclass(frozen=True)
class Sealed:
    """What goes into the store: the entry under its name, and the kernel libraries that it needs under theirs."""

    name: str
    data: bytes
    libraries: Mapping[str, bytes]


def entry_name(key: str, guards: str | None, prefix: str = aot.PREFIX) -> str:
    """Entries of one key with different shape guards live side by side."""
    return f"{prefix}{key}.{digest((guards or '').encode())[:16]}"


def pack(pending: Pending, entry: Any, backward_seconds: float) -> Sealed:
    """A fresh result of AOTAutograd, sealed; `entry` itself stays usable.

    Raises:
        NotSerializable: it holds something that cannot be stored.
    """
    seconds = entries.seconds(entry)
    seconds["backward"] = seconds["backward"] or (backward_seconds if entries.kind(entry) == "training" else 0.0)
    entries.set_backward_seconds(entry, seconds["backward"])
    require_compiled_as_keyed(pending)
    entries.require_no_hidden_guards(pending.shape_facts_before, pending.symbols)
    alias_guards = entries.alias_guards(pending.alias_guards_before, pending.sources)
    entries.prepare(entry)
    sources = entries.sources(entry)
    sections = _sections(entry, sources)
    bundle = native.bundle(sources, _cpu_level(pending.key))
    manifest = Manifest(
        key=pending.key.digest,
        parts=pending.key.parts,
        name=pending.name,
        kind=entries.kind(entry),
        guards=entries.guards(entry),
        created=time.time(),
        seconds=seconds,
        facts=facts(),
        extra={
            "symbols": pending.symbols,
            "alias_guards": alias_guards,
            "kernels": bundle.table,
            "externs": light.plain_externs(sources) if sources else [],
            **pending.offload,
        },
    )
    libraries = {native.store_name(name): library for name, library in bundle.libraries.items()}
    return Sealed(entry_name(pending.key.digest, manifest.guards), pack_envelope(manifest, sections), libraries)


def _sections(entry: Any, sources: list[str]) -> dict[str, bytes]:
    texts = entries.take_texts(entry)
    try:
        sections = {"result": codec.dump(entry)} | codec.encode_texts(texts)
    finally:
        entries.put_texts(entry, texts)
    # As `revive` has them executed, in a process without Inductor's compiler.
    return sections | ({"bytecode": generated.bytecode(map(light.light_source, sources))} if sources else {})


def require_compiled_as_keyed(pending: Pending) -> None:
    """Raises NotSerializable if the backward was compiled later, under something else than the key says."""
    if pending.handed is None:
        raise NotSerializable("it is not known under which settings the graph was handed to its backend")
    if moments.handed() is pending.handed:
        return
    if pending.code is None:
        raise NotSerializable("it is not known what was in torch's compiler when the forward was compiled")
    ambient = next(part.summary for part in pending.key.parts if part.name == "ambient")
    if found := changed(pending.handed, ambient, pending.code, identify):
        raise NotSerializable(f"between the forward and its backward, {', '.join(found)} changed")


def _cpu_level(key: CacheKey) -> str:
    return next((part.summary.get("cpu.level", "") for part in key.parts if part.name == "environment"), "")


def check_belongs(manifest: Manifest, key: CacheKey) -> None:
    """Before anything is unpickled: the entry is of exactly this key, torch build and machine included."""
    theirs, ours = ([(part.name, part.digest) for part in parts] for parts in (manifest.parts, key.parts))
    if manifest.key != key.digest or theirs != ours:
        raise ForeignEntry(f"the entry says it is of key {manifest.key}, not {key.digest}")


def revive(
    opened: Envelope, pending: Pending, request: aot.Request, fetch: native.Fetch
) -> tuple[aot.Loaded, list[str]]:
    """The entry's compiled function, and why kernels, if any, were compiled again.

    Raises:
        EnvelopeError: the entry is damaged. Anything else that torch raises while it brings a result to life.
    """
    manifest, content = opened.manifest, opened.section("result")
    entry = codec.load(content)
    texts = {name: codec.decode_text(opened.section(name)) for name in opened.names if name.startswith("text.")}
    entries.put_texts(entry, texts)
    theirs = {new: old for old, new in manifest.extra.get("symbols", {}).items()}
    entries.rename_symbols(entry, {theirs[new]: old for old, new in pending.symbols.items() if new in theirs})
    light.lighten(entries.graphs(entry), manifest.extra.get("externs", []))
    with collector.paused(), served(opened, fetch) as serving:
        function = entries.revive(entry, request)
    entries.add_alias_guards(manifest.extra.get("alias_guards", ()), request.sources)
    forward, backward = (int(manifest.seconds.get(phase, 0.0) * 1e9) for phase in ("forward", "backward"))
    return aot.Loaded(function, bytes(content), forward, backward), list(serving.rebuilt.values())


@contextlib.contextmanager
def served(opened: Envelope, fetch: native.Fetch) -> Iterator[kernels.Serving]:
    """While an entry is brought to life: its kernels, and the bytecode around them. Raises as `native.serve`."""
    bytecode = opened.section("bytecode") if "bytecode" in opened.names else b""
    with generated.offered(bytecode), native.serve(opened.manifest.extra["kernels"], fetch) as serving:
        yield serving


def why_unusable(error: Exception) -> Reason:
    """What an error says of the entry that was to be read."""
    if isinstance(error, StoreError) and not isinstance(error, DamagedValue):
        return Reason.DIRECTORY
    if isinstance(error, ForeignEntry):
        return Reason.FOREIGN
    return Reason.DAMAGED if isinstance(error, (EnvelopeError, DamagedValue)) else Reason.LOAD


def is_ours(name: str, data: bytes) -> bool:
    """Whether something that torch's portable archive brings was put there by us."""
    return data.startswith(MAGIC) or name.startswith(native.store_name(""))


def check_name_tells_content(name: str, data: bytes) -> None:
    """Raises EnvelopeError unless `data` is what belongs under `name`."""
    if data.startswith(MAGIC):
        manifest = Envelope(data).manifest
        expected = entry_name(manifest.key, manifest.guards)
    else:
        expected = native.store_name(digest(data))
    if name != expected:
        raise EnvelopeError(f"{name} does not belong to what it holds: {expected}")
