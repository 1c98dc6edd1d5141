"""Graphs that torch's cache, or an earlier key of ours, would not cover: hits in a fresh process, and only if equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

pytestmark = pytest.mark.slow

KINDS = Path(__file__).parent / "kinds.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    process = FreshProcess(tmp_path_factory.mktemp("kinds"))
    return {
        "cold": process(KINDS, "run", hashseed=1, timeout=900),
        "warm": process(KINDS, "run", hashseed=2, timeout=900),
        "keys": process(KINDS, "keys", hashseed=3),
    }


def test_the_first_process_compiles_and_refuses_none(runs: dict[str, Any]) -> None:
    assert runs["cold"]["reasons"] == []
    for name, result in runs["cold"]["kinds"].items():
        assert result["graph_miss"] and result["generated"] and not result["graph_hit"], name


def test_a_fresh_process_hits_every_graph_with_the_same_values(runs: dict[str, Any]) -> None:
    assert runs["warm"]["reasons"] == []
    for name, result in runs["warm"]["kinds"].items():
        assert result["graph_hit"] and not result["graph_miss"] and not result["generated"], (name, result)
        assert result["values"] == runs["cold"]["kinds"][name]["values"], name


def test_another_function_or_constant_is_another_key(runs: dict[str, Any]) -> None:
    for name, (first, changed, again) in runs["keys"]["kinds"].items():
        assert len(first) == len(changed) == 1, name
        assert first == again and first != changed, name
