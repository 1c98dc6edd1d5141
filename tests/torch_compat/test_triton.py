"""Compiled Triton kernels in an entry: what is kept can be stored, and puts the same files into Triton's cache."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.triton_bundler import (
    StaticallyLaunchedAutotuner,
    TritonBundle,
    TritonBundler,
    TritonKernelArtifact,
    TritonKernelArtifacts,
)

from aot_cache.artifact import codec
from aot_cache.errors import NotSerializable
from aot_cache.torch_compat import entries, light, triton

FILES = {"kernel.cubin": b"\x7fELF\0", "kernel.json": b'{"hash": 1}', "__grp__kernel.json": b'{"child": "[REPLACE]/x"}'}


class Graph(SimpleNamespace):
    """A compiled graph with no more to it than its Triton kernels."""

    set_triton_bundle = CompiledFxGraph.set_triton_bundle


def graph() -> Graph:
    files = [TritonKernelArtifact(name, content) for name, content in FILES.items()]
    launcher: Any = threading.Lock()  # as hard to store as what a launcher holds
    launchers = [StaticallyLaunchedAutotuner("key", "kernel", launcher)]
    return Graph(_triton_bundle=TritonBundle([TritonKernelArtifacts("HASH", 0, files)], launchers))


def test_what_is_kept_can_be_stored_and_the_launchers_could_not() -> None:
    made = graph()
    with pytest.raises(NotSerializable):
        codec.dump(made._triton_bundle)
    triton.keep_binaries_only([made])
    assert codec.load(codec.dump(made._triton_bundle)) == TritonBundle(graph()._triton_bundle.kernel_artifacts, [])


def test_a_hit_puts_the_binaries_where_triton_looks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    made = graph()
    triton.keep_binaries_only([made])
    TritonBundler.read_and_emit(codec.load(codec.dump(made._triton_bundle)))
    (directory,) = tmp_path.rglob("HASH")
    expected = {name: content.replace(b"[REPLACE]", str(directory).encode()) for name, content in FILES.items()}
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == expected


def test_a_graph_with_kernels_takes_torchs_own_way_at_a_hit() -> None:
    made, asked = graph(), []
    triton.keep_binaries_only([made])
    light.after_load(lambda *arguments: asked.append(arguments), Graph(**vars(made), device_types={"cuda"}), {}, None)
    assert len(asked) == 1


def test_an_entry_is_prepared_without_launchers_and_the_running_graph_keeps_its_own() -> None:
    running = graph()
    prepared = Graph(**vars(running))
    entry = SimpleNamespace(pre_save=lambda: None, compiled_fw=SimpleNamespace(result=prepared), compiled_bw=None)
    entries.prepare(entry)
    assert prepared._triton_bundle.static_autotuners == [] and prepared._triton_bundle.kernel_artifacts
    assert running._triton_bundle.static_autotuners


def test_a_graph_without_triton_kernels_is_left_alone() -> None:
    empty = Graph(_triton_bundle=None)
    triton.keep_binaries_only([empty, SimpleNamespace()])
    assert empty._triton_bundle is None
