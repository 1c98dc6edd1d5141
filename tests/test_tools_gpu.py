"""The GPU script's own logic, with results that are made up: it can say no to each of them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from support import TOOLS

sys.path.append(str(TOOLS))

import gpu_offload  # noqa: E402

PLAIN: dict[str, Any] = {
    "digest": "a", "repeats": True, "first": 9.0, "steps": [0.1, 0.3], "out": 0, "back": 0, "peak": 1000,
    "planned": 0, "planned_peak": 1200, "planned_above": 1000, "sources": ["planned"], "lowered": 2,
    "stats": {"graph_hit": 0, "graph_miss": 0, "graph_bypass": 1, "error": 0}, "reasons": [],
    "device": "made up", "torch": "2.13.0",
}  # fmt: skip
COLD = PLAIN | {"out": 400, "back": 400, "planned": 400, "peak": 600, "planned_peak": 720, "planned_above": 600}
COLD |= {"stats": {"graph_hit": 0, "graph_miss": 1, "graph_bypass": 0, "error": 0}}
WARM = COLD | {"sources": ["cache"], "lowered": 0, "stats": {**COLD["stats"], "graph_hit": 1, "graph_miss": 0}}
BUDGET = 720


def test_runs_as_they_should_be_are_not_complained_of() -> None:
    assert gpu_offload.complaints(PLAIN, COLD, WARM, BUDGET) == []


WRONG = [
    ({"repeats": False}, {}, {}, "two steps give different numbers"),
    ({}, {"digest": "b"}, {}, "cold: output or gradients"),
    ({}, {}, {"digest": "b"}, "warm: output or gradients"),
    ({}, {"planned": 0, "out": 0, "back": 0}, {}, "cold: 0 bytes were planned"),
    ({}, {"out": 0}, {}, "400 bytes were planned, 0 went out"),
    ({}, {}, {"back": 399}, "399 came back"),
    ({}, {"planned_peak": 721}, {}, "above the budget"),
    ({}, {"peak": 1000}, {}, "the peak fell by 0 bytes, and by the plan it should by 400"),
    ({}, {"stats": {**COLD["stats"], "graph_bypass": 1}}, {}, "cold: {"),
    ({}, {"lowered": 0}, {}, "the cold start did not plan and compile"),
    ({}, {}, {"sources": ["planned"]}, "the warm start was not warm"),
    ({}, {}, {"lowered": 1}, "the warm start was not warm"),
]


@pytest.mark.parametrize(("plain", "cold", "warm", "said"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_is_wrong_is_said(plain: dict[str, Any], cold: dict[str, Any], warm: dict[str, Any], said: str) -> None:
    found = gpu_offload.complaints(PLAIN | plain, COLD | cold, WARM | warm, BUDGET)
    assert any(said in complaint for complaint in found), found


def test_the_table_has_a_column_a_run_and_says_where_numbers_differ() -> None:
    lines = gpu_offload.table(PLAIN, COLD | {"digest": "b"}, WARM, BUDGET).splitlines()
    rows = {line[:42].strip(): line[42:].split() for line in lines[1:]}
    assert rows["ms a step, median"] == ["200.0"] * 3
    assert rows["output and gradients"] == ["bit-equal", "DIFFERENT", "bit-equal"]


def test_without_a_gpu_it_says_so_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(gpu_offload, "compare", lambda *_: pytest.fail("it ran"))
    monkeypatch.setattr(sys, "argv", ["gpu_offload.py"])
    assert gpu_offload.main() == 2
    assert "there is no GPU" in capsys.readouterr().err
