"""Every program hits in a fresh process, with the same values bit by bit; and none does with the cache switched off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs.py"
# A backward that nobody called was never compiled, and half an entry is none.
NEVER_STORED = {"forward_whose_backward_is_never_called"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Cold, warm (another hash seed, torch's own directory gone), and with the cache off; each a process of its own."""
    process = FreshProcess(tmp_path_factory.mktemp("programs"))
    inductor = process.home / "inductor"
    found = {"cold": process(PROGRAMS, hashseed=1, timeout=900)}
    found["warm"] = process(PROGRAMS, hashseed=2, env={"TORCHINDUCTOR_CACHE_DIR": str(process.home / "empty")})
    off = {"AOT_CACHE": "0", "TORCHINDUCTOR_CACHE_DIR": str(inductor)}
    found["off"] = process(PROGRAMS, hashseed=3, env=off, timeout=900)
    return found


def all_hit(run: dict[str, Any]) -> list[str]:
    """What is wrong with a run that should have been warm."""
    wrong = []
    for name, result in run["programs"].items():
        if name in NEVER_STORED:
            continue
        misses = result["graph_miss"] + result["graph_bypass"] + result["error"]
        if not result["graph_hit"] or misses or result["generated"]:
            wrong.append(f"{name}: {result}")
    return wrong


def test_the_first_process_compiles_everything(runs: dict[str, Any]) -> None:
    for name, result in runs["cold"]["programs"].items():
        assert result["graph_miss"] and result["generated"], name
        assert not result["graph_hit"] and not result["graph_bypass"] and not result["error"], name


def test_the_second_process_hits_every_graph_and_generates_no_code(runs: dict[str, Any]) -> None:
    assert not all_hit(runs["warm"]), runs["warm"]["reasons"]


def test_values_are_bit_equal(runs: dict[str, Any]) -> None:
    for name, result in runs["cold"]["programs"].items():
        assert runs["warm"]["programs"][name]["values"] == result["values"], name
        assert runs["off"]["programs"][name]["values"] == result["values"], name


def test_with_the_cache_off_no_hit_test_passes(runs: dict[str, Any]) -> None:
    programs = runs["off"]["programs"]
    assert len(all_hit(runs["off"])) == len(programs) - len(NEVER_STORED)
    assert not any(result["graph_hit"] or result["graph_miss"] or result["graph_bypass"] for result in programs.values())


def test_a_backward_that_was_never_compiled_is_not_stored(runs: dict[str, Any]) -> None:
    for name in NEVER_STORED:
        assert runs["warm"]["programs"][name]["graph_miss"] == 1
