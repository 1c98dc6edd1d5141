"""A stack whose activations exceed a budget trains within it under Inductor, cold and warm, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

HERE = Path(__file__).parent
PROGRAM = HERE / "offload_memory.py"
ENVIRONMENT = {
    "PYTHONPATH": ":".join(map(str, (HERE.parent.parent, HERE))),
    # Large tensors are given back to the system when they are freed.
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
Trained = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What offload_memory.py prints; `warm` and `kept` are the mode `disk` in later processes."""
    fresh = FreshProcess(tmp_path_factory.mktemp("train"))
    found: dict[str, dict[str, Any]] = {}

    def train(name: str) -> dict[str, Any]:
        if name in ("warm", "kept"):
            train("disk")
        if name not in found:
            mode = "disk" if name == "warm" else name
            found[name] = fresh(PROGRAM, mode, env=ENVIRONMENT, timeout=900)
        return found[name]

    return train


MODES = pytest.mark.parametrize("mode", ["disk", "warm"])


@MODES
def test_outputs_and_gradients_are_bit_equal(trained: Trained, mode: str) -> None:
    assert trained(mode)["values"] == trained("none")["values"]


@MODES
def test_the_peak_falls_by_what_the_plan_says(trained: Trained, mode: str) -> None:
    found = trained(mode)
    planned = found["above without"] - found["above"]
    assert planned > 100e6
    assert trained("none")["peak"] - found["peak"] == pytest.approx(planned, rel=0.02)


@MODES
def test_the_peak_is_the_planned_one(trained: Trained, mode: str) -> None:
    found = trained(mode)
    assert found["peak"] == pytest.approx(found["above"], rel=0.02)
    assert trained("none")["peak"] == pytest.approx(found["above without"], rel=0.02)


@MODES
def test_memory_between_forward_and_backward_falls_by_what_moves(trained: Trained, mode: str) -> None:
    found = trained(mode)
    assert trained("none")["between"] - found["between"] == pytest.approx(found["planned"], rel=0.02)


@MODES
def test_what_moves_in_a_step_is_the_plan_and_the_report_says_so(trained: Trained, mode: str) -> None:
    found = trained(mode)
    assert found["out"] == found["in"] == found["planned"] > 0
    assert "134 MB out and 134 MB in; planned 134 MB each" in found["said"]


def test_a_warm_process_generates_no_code(trained: Trained) -> None:
    assert (trained("disk")["generated"], trained("disk")["graph_miss"]) == (2, 1)
    assert (trained("warm")["generated"], trained("warm")["graph_hit"]) == (0, 1)


def test_with_a_tier_that_moves_nothing_the_numbers_are_the_same_and_the_rest_fails(trained: Trained) -> None:
    kept = trained("kept")
    assert kept["values"] == trained("none")["values"]
    assert (kept["out"], kept["in"]) == (0, 0)
    assert trained("none")["between"] - kept["between"] < 0.02 * kept["planned"]
    assert kept["peak"] > 1.5 * kept["above"]
