"""Under Inductor, in processes of their own: what moves is what was planned, and near memory falls by as much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

PROGRAM = Path(__file__).parent / "train_disk.py"
# Large tensors are given back to the system when they are freed; AOTAutograd must partition each time.
ENVIRONMENT = {
    "AOT_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What train_disk.py measures: without a schedule, or by tier; each program once."""
    fresh = FreshProcess(tmp_path_factory.mktemp("train"))
    found: dict[str, dict[str, Any]] = {}

    def train(name: str) -> dict[str, Any]:
        if name == "none" and name not in found:
            found["none"] = fresh(PROGRAM, "none", env=ENVIRONMENT, timeout=600)["disk"]
        elif name not in found:
            found.update(fresh(PROGRAM, "moved", env=ENVIRONMENT, timeout=600))
        return found[name]

    return train


Trained = Callable[[str], dict[str, Any]]


def test_outputs_and_gradients_are_bit_equal(trained: Trained) -> None:
    assert trained("disk")["values"] == trained("none")["values"]


def test_bytes_out_are_bytes_in_are_the_plan(trained: Trained) -> None:
    disk = trained("disk")
    assert disk["out"] == disk["in"] == disk["planned"] > 100 << 20
    assert disk["live"] == 0


def test_at_least_95_percent_of_the_saved_bytes_may_move(trained: Trained) -> None:
    assert trained("disk")["eligible"] >= 0.95 * trained("disk")["saved"]


def test_memory_between_forward_and_backward_falls_by_the_plan(trained: Trained) -> None:
    fallen = trained("none")["between"] - trained("disk")["between"]
    assert fallen == pytest.approx(trained("disk")["planned"], rel=0.02)


def test_the_peak_falls(trained: Trained) -> None:
    assert trained("disk")["peak"] < 0.5 * trained("none")["peak"]


def test_with_a_tier_that_moves_nothing_the_numbers_are_the_same_and_the_rest_fails(trained: Trained) -> None:
    kept = trained("kept")
    assert kept["values"] == trained("none")["values"]
    assert (kept["out"], kept["in"]) == (0, 0)
    assert trained("none")["between"] - kept["between"] < 0.02 * kept["planned"]
    assert kept["peak"] >= trained("none")["peak"]
