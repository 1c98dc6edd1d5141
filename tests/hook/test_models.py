"""Models of transformers start warm: in a fresh process, from another directory and file, under another hash seed."""

from __future__ import annotations

import shutil
from pathlib import Path

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
    cold = process(HERE / "models.py", name, mode, hashseed=1, timeout=600)
    assert cold["graph_miss"] and cold["generated"] and not cold["graph_hit"] and not cold["graph_bypass"]

    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(HERE / "models.py", moved / "renamed.py")
    shutil.copy(HERE / "programs.py", moved / "programs.py")
    empty = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "HOME": str(tmp_path)}
    warm = process(moved / "renamed.py", name, mode, hashseed=2, env=empty, timeout=600)
    assert warm["graph_hit"] == cold["graph_miss"]
    assert not warm["graph_miss"] and not warm["graph_bypass"] and not warm["error"] and not warm["generated"]
    assert warm["values"] == cold["values"]
