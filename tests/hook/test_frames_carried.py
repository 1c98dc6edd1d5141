"""Frames in an archive: another directory starts from it without tracing; seconds saved are those of its own work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

PROGRAM = """
import json, os
import torch, aot_cache
aot_cache.enable(frames=True)
K = int(os.environ.get("K", "2"))
def f(x, w): return torch.addmm(x, x, w, alpha=K)
x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
torch.compile(f)(x, w).sum().backward()
saved = sum(getattr(event, "saved", 0.0) for event in aot_cache.events())
print(json.dumps({**aot_cache.stats(), "saved": saved}))
"""


def command(process: FreshProcess, *arguments: str) -> Any:
    argv = [sys.executable, "-c", "import sys; from aot_cache.cli import main; sys.exit(main(sys.argv[1:]))", *arguments]
    said = subprocess.run(argv, env=process.environment(), capture_output=True, text=True, check=True).stdout
    return json.loads(said) if "--json" in arguments else said


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    process = FreshProcess(tmp_path_factory.mktemp("first"))
    assert process(PROGRAM)["frame_miss"] == 1
    return process


def test_an_archive_with_a_frame_starts_another_directory_without_tracing(
    first: FreshProcess, fresh_process: FreshProcess, tmp_path: Path
) -> None:
    file = os.fspath(tmp_path / "archive")
    command(first, "export", file)
    imported = command(fresh_process, "import", file, "--json")
    assert [one["result"] for one in imported["frames"]] == ["imported"]
    found = fresh_process(PROGRAM)
    assert (found["frame_hit"], found["frame_miss"], found["graph_hit"], found["graph_miss"]) == (1, 0, 0, 0)


def test_a_hit_saves_tracing_and_compiling_and_the_store_counts_each_once(first: FreshProcess) -> None:
    made = command(first, "inspect", "--json")
    seconds = [sum(command(first, "inspect", one["key"], "--json")[what][0]["seconds"].values())
               for what in ("graphs", "frames") for one in made[what]]  # fmt: skip
    assert len(seconds) == 2 and all(second > 0 for second in seconds)
    assert first(PROGRAM)["saved"] == pytest.approx(sum(seconds))


def test_a_hit_uses_the_frame_and_its_graph_and_a_comparison_uses_nothing(first: FreshProcess) -> None:
    def hits() -> dict[tuple[str, str], int]:
        found = command(first, "inspect", "--json")
        return {(one["key"], one["variant"]): one["hits"] for what in ("graphs", "frames") for one in found[what]}

    before = hits()
    assert first(PROGRAM)["frame_hit"] == 1
    after = hits()
    assert after == {entry: count + 1 for entry, count in before.items()}
    assert first(PROGRAM, env={"K": "3", "AOT_CACHE_MODE": "readonly"})["frame_miss"] == 1
    assert first(PROGRAM, env={"K": "4"})["frame_miss"] == 1
    assert {entry: count for entry, count in hits().items() if entry in after} == after
