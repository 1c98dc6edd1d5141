"""Graphs and frames as the hook stores them, with kernels and a key that is made of its parts; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aot_cache.artifact import frame_view
from aot_cache.artifact.envelope import Manifest, pack
from aot_cache.key.machine import here
from aot_cache.key.parts import CacheKey, KeyPart, digest

Value = tuple[str, bytes]


def kernel(content: bytes) -> Value:
    """Name and bytes of a kernel library, long enough to have a file of its own in a disk store."""
    data = b"\x7fELF" + content * (50_000 // len(content))
    return f"k-{digest(data)}", data


def graph(
    graph: str = "graph",
    kernels: Sequence[Value] = (),
    *,
    created: float = 1_700_000_000.0,
    guards: str | None = None,
    environment: Mapping[str, str] = {},
    content: bytes = b"forward" * 100,
    extra: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Value:
    """Name and bytes of a graph entry that was made here, but for what `environment` says."""
    summary = {**here(), **environment}
    parts = (
        KeyPart.of("graph", graph.encode(), {"name": graph}),
        KeyPart.of("environment", repr(sorted(summary.items())).encode(), summary),
    )
    key = CacheKey(parts).digest if key is None else key
    libraries = [{"digest": name[2:], "bytes": len(data)} for name, data in kernels]
    manifest = Manifest(
        key=key, parts=parts, name=f"Model.{graph}", kind="training", guards=guards, created=created,
        seconds={"forward": 2.0, "backward": 3.0}, facts={"torch": "2.13.0"},
        extra={"kernels": {"libraries": libraries}} if extra is None else extra,
    )  # fmt: skip
    name = f"g-{key}.{digest((guards or '').encode())[:16]}"
    return name, pack(manifest, {"result": content, "text.forward": b"def forward(): ..."})


GUARDS = (("L['self'].config.n_layer", "EQUALS_MATCH", "int 12"), ("G['K']", "CONSTANT_MATCH", "int 2"))


def frame(
    frame: str = "frame",
    graphs: Sequence[Value] = (),
    *,
    created: float = 1_700_000_000.0,
    environment: Mapping[str, str] = {},
    guards: Sequence[tuple[str, str, str]] = GUARDS,
    extra: Mapping[str, Any] | None = None,
) -> Value:
    """Name and bytes of a frame's entry that needs `graphs`; `environment` as for a graph."""
    summary = {**here(), **environment}
    parts = (
        KeyPart.of("frame", frame.encode(), {"code": digest(frame.encode())}),
        KeyPart.of("environment", repr(sorted(summary.items())).encode(), summary),
    )
    needs = {"graphs": sorted(name for name, _ in graphs), "guards": len(guards)}
    manifest = Manifest(
        key=CacheKey(parts).digest, parts=parts, name="forward", kind="frame", guards=None, created=created,
        seconds={"trace": 1.5}, facts={"torch": "2.13.0"}, extra=needs if extra is None else extra,
    )  # fmt: skip
    view = frame_view.FrameView(tuple(guards), (("G['os'].sep", "str '/'"),), ("model.Block.forward", "numpy (numpy 2)"))
    sections = {"frame": b"{}", "code": frame.encode(), frame_view.SECTION: frame_view.write(view)}
    return f"f-{manifest.key}.{digest(b''.join(sections.values()))[:16]}", pack(manifest, sections)
