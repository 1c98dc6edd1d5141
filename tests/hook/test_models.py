"""Models of transformers start warm: in a fresh process, from another directory and file, under another hash seed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    # One directory for all models: the precompiled header of Inductor is made once. No entry serves two of them.
    return FreshProcess(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "vit", "resnet"])
def test_a_restarted_model_starts_warm(process: FreshProcess, tmp_path: Path, name: str, mode: str) -> None:
    cold = process(HERE / "models.py", name, mode, hashseed=1, env={"AOT_CACHE_FRAMES": "1"}, timeout=600)
    assert cold["frame_miss"] and not cold["frame_bypass"], cold["why"]
    assert cold["graph_miss"] and cold["generated"] and not cold["graph_hit"] and not cold["graph_bypass"]

    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(HERE / "models.py", moved / "renamed.py")
    shutil.copy(HERE / "programs.py", moved / "programs.py")
    empty = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "HOME": str(tmp_path), "AOT_CACHE_FRAMES": "0"}
    warm = process(moved / "renamed.py", name, mode, hashseed=2, env=empty, timeout=600)
    assert warm["graph_hit"] == cold["graph_miss"]
    assert not warm["graph_miss"] and not warm["graph_bypass"] and not warm["error"] and not warm["generated"]
    assert warm["values"] == cold["values"]

    frames = {**empty, "AOT_CACHE_FRAMES": "1"}
    untraced = process(moved / "renamed.py", name, mode, hashseed=3, env=frames, timeout=600)
    assert untraced["frame_hit"] == cold["frame_miss"], untraced["why"]
    assert not any(untraced[count] for count in ("traced", "generated", "frame_miss", "frame_bypass", "graph_miss", "error"))
    assert untraced["values"] == cold["values"]

    bare = on_a_bare_machine(process, tmp_path, name, mode)
    assert bare["graph_hit"] == cold["graph_miss"] and not bare["generated"] and not bare["error"]
    assert bare["values"] == cold["values"]
    assert not bare["processes"] and cold["processes"]


def on_a_bare_machine(process: FreshProcess, tmp_path: Path, name: str, mode: str) -> dict[str, Any]:
    """The model from an imported archive: no compiler on PATH, own HOME and TMPDIR, a cache that is only read."""
    archive, cache, bare = tmp_path / "archive", tmp_path / "cache", tmp_path / "bare"
    cli = [sys.executable, "-m", "aot_cache"]
    subprocess.run([*cli, "export", str(archive), "--dir", str(process.home / "aot_cache")], check=True, cwd=process.home)
    subprocess.run([*cli, "import", str(archive), "--dir", str(cache)], check=True, cwd=process.home)
    before = contents(cache)
    places = {variable: bare / variable.lower() for variable in ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "PATH")}
    for place in places.values():
        place.mkdir(parents=True)
    env = {variable: str(place) for variable, place in places.items()}
    env |= {"AOT_CACHE_DIR": str(cache), "AOT_CACHE_MODE": "readonly", "AOT_CACHE_ASSERT_HIT": "1", "AOT_CACHE_FRAMES": "0"}
    result = process(HERE / "models.py", name, mode, hashseed=3, env=env, timeout=600)
    assert contents(bare) == {}, "files were written outside of the cache"
    assert contents(cache) == before
    return result


def contents(folder: Path) -> dict[Path, bytes]:
    # SQLite makes its (empty) log and shared memory beside a database even to read it, where it may.
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.name.startswith("cache.db-")}
