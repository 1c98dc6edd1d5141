from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
import torch

from aot_cache.errors import FarTierFull, TransferError
from aot_cache.offloading.tier_disk import DiskTier, Extent

PAGE = 4096


@pytest.fixture
def tier(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = DiskTier(tmp_path, 64 * PAGE)
    yield made
    made.close()


def round_trip(tier: DiskTier, near: torch.Tensor) -> torch.Tensor:
    nbytes = near.numel() * near.itemsize
    place = tier.allocate(nbytes)
    tier.store(near, nbytes, place).result()
    back = torch.empty_like(near)
    tier.load(place, nbytes, back).result()
    return back


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_what_comes_back_is_what_went_out(tier: DiskTier, dtype: str) -> None:
    near = (torch.arange(3 * PAGE + 17) % 3).to(getattr(torch, dtype))
    assert torch.equal(round_trip(tier, near), near)
    assert tier.written == tier.read == near.numel() * near.itemsize


def test_an_empty_tensor_goes_out_and_comes_back(tier: DiskTier) -> None:
    assert round_trip(tier, torch.empty(0, 3)).shape == (0, 3)


def test_the_file_has_no_name_from_the_start(tier: DiskTier, tmp_path: Path) -> None:
    round_trip(tier, torch.ones(PAGE))
    assert list(tmp_path.iterdir()) == []


def test_places_do_not_overlap_and_are_used_again(tier: DiskTier) -> None:
    first, second, third = (tier.allocate(size) for size in (PAGE, 2 * PAGE + 1, PAGE))
    assert [(e.offset, e.size) for e in (first, second, third)] == [(0, PAGE), (PAGE, 3 * PAGE), (4 * PAGE, PAGE)]
    tier.free(second)
    assert tier.allocate(2 * PAGE) == Extent(PAGE, 2 * PAGE)
    assert tier.allocate(PAGE) == Extent(3 * PAGE, PAGE)
    assert (tier.size, tier.used) == (5 * PAGE, 5 * PAGE)


def test_free_neighbours_become_one_place(tier: DiskTier) -> None:
    places = [tier.allocate(PAGE) for _ in range(4)]
    for number in (0, 2, 1):
        tier.free(places[number])
    assert tier.allocate(3 * PAGE) == Extent(0, 3 * PAGE)
    assert tier.size == 4 * PAGE


def test_free_space_at_the_end_grows_rather_than_being_left(tier: DiskTier) -> None:
    tier.free(tier.allocate(60 * PAGE))
    assert tier.allocate(64 * PAGE) == Extent(0, 64 * PAGE)


def test_beyond_the_limit_is_an_error_that_says_so_and_takes_nothing(tier: DiskTier) -> None:
    tier.allocate(60 * PAGE)
    with pytest.raises(FarTierFull, match="holds 246 kB and has no room for 20.5 kB more.*hold 262.144 kB"):
        tier.allocate(5 * PAGE)
    assert tier.allocate(4 * PAGE).size == 4 * PAGE


def test_a_file_system_without_room_is_told_before_anything_is_moved(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FarTierFull, match="No space left"):
        tier.allocate(PAGE)
    monkeypatch.undo()
    assert tier.allocate(PAGE) == Extent(0, PAGE)


def test_an_error_of_the_worker_is_raised_where_the_copy_ends(tier: DiskTier) -> None:
    place = tier.allocate(PAGE)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # python ignores the signal: writing gives EFBIG
    try:
        copy = tier.store(torch.ones(PAGE // 4), PAGE, place)
        with pytest.raises(FarTierFull):
            copy.result()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_ends_early_is_an_error_and_not_zeros(tier: DiskTier) -> None:
    with pytest.raises(TransferError, match="ended early"):
        tier.load(Extent(0, PAGE), PAGE, torch.empty(PAGE // 4)).result()


def test_a_directory_that_cannot_hold_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="no far tier in"):
        DiskTier(tmp_path / "absent", PAGE)
