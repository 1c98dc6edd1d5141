"""The benchmark `phases` compares a warm start with what no cache can avoid, from processes that were warm."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest
from support import TOOLS

sys.path.append(str(TOOLS / "bench"))
import child  # noqa: E402
import phases  # noqa: E402

PHASES = {"import torch._dynamo": 0.5, "kernels and graphs": 0.3, "an eager step": 0.2, "all": 2.0}


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that were run; a start takes as long as PHASES says, a plain import twice as long as ours."""
    run: list[list[str]] = []

    def run_json(argv: list[str], label: str, env: dict[str, str]) -> Any:
        run.append(argv[1:])
        assert env["AOT_CACHE"] == ("0" if argv[1] == "-c" else "1")
        return 1.0 if argv[1] == "-c" else {"phases": PHASES, "counts": {"frame_hit": 1, "graphs": 0}}

    monkeypatch.setattr(child, "run_json", run_json)
    return run


def test_a_start_is_compared_with_torchs_import_and_with_ours(children: list[list[str]]) -> None:
    text, raw = phases.run(argparse.Namespace(models=["gpt2"], rounds=2))
    assert [argv[0] for argv in children] == [str(phases.CHILD), *[str(phases.CHILD), "-c"] * 2]
    assert len(raw["gpt2"]) == 2
    ratios = [line for line in text.splitlines() if line.startswith("| all / needed")]
    assert [line.split("|")[2].strip() for line in ratios] == ["1.33", "2.00"]


def test_a_start_that_was_not_warm_is_no_measurement(
    children: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = {"phases": PHASES, "counts": {"frame_hit": 0, "graphs": 1}}
    monkeypatch.setattr(child, "run_json", lambda *_: cold)
    with pytest.raises(child.ChildFailed, match="not warm"):
        phases.run(argparse.Namespace(models=["gpt2"], rounds=1))


def test_the_plain_import_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert 0 < child.run_json([sys.executable, "-c", phases.PLAIN], "import", phases._without_cache(tmp_path)) < 600
