"""The tier of accelerators on a device that is written in Python: the copies, not their overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

PROGRAM = Path(__file__).parent / "host_tier.py"
SIZES = [4096, 4096, 2400, 4]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = FreshProcess(tmp_path_factory.mktemp("host"))(PROGRAM, env={"AOT_CACHE": "0"})
    return found


def test_what_comes_back_is_what_went_out_and_on_the_device(seen: dict[str, Any]) -> None:
    assert seen["same"] == [True] * 4


def test_each_tensor_is_copied_once_each_way_and_nothing_else_is(seen: dict[str, Any]) -> None:
    assert seen["ways"] == {"toy to cpu": SIZES, "cpu to toy": SIZES}
    assert (seen["written"] - 4 * 16384, seen["read"]) == (sum(SIZES), sum(SIZES))


def test_host_memory_of_one_tensor_serves_the_next_of_its_size(seen: dict[str, Any]) -> None:
    assert seen["live"] == 0
    assert seen["sizes"][0] == 4096 + 2400 + 4


def test_pinned_memory_is_bounded_and_gives_way_to_other_sizes(seen: dict[str, Any]) -> None:
    assert seen["sizes"][1] == 1 << 16
    assert "it may hold 65.536 kB" in seen["full"]
    assert seen["after"] == 0


def test_memory_that_is_written_to_by_the_side_stream_is_kept_for_it(seen: dict[str, Any]) -> None:
    assert seen["kept"] == [1024, 1024, 300, 1]
