from __future__ import annotations

import pytest

from aot_cache.offloading.costs import Roofline, table

ROOF = Roofline(flops=100.0, bandwidth=10.0, overhead=0.5)


def test_a_node_takes_what_the_slower_of_computing_and_memory_takes_and_the_overhead() -> None:
    assert ROOF.seconds(flops=1000.0, moved=10.0) == 10.5
    assert ROOF.seconds(flops=10.0, moved=1000.0) == 100.5
    assert ROOF.seconds(flops=0.0, moved=0.0) == 0.5


@pytest.mark.parametrize(
    ("name", "seconds"), [("roofline-cpu-1", 0.05 + 2e-6), ("roofline-gpu-1", 1e9 / 1.6e12 + 4e-6)]
)
def test_a_name_stands_for_its_numbers(name: str, seconds: float) -> None:
    assert table(name).seconds(flops=1e9, moved=1e9) == seconds


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(KeyError, match="no cost table 'roofline': there are roofline-cpu-1, roofline-gpu-1"):
        table("roofline")
