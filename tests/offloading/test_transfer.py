from __future__ import annotations

import errno
import os
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor

from aot_cache.errors import FarTierFull, TransferError
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Arrival, Slot, Transfer, extent

from .tiers import ManualTier

KILO = 1024


def tensor(kilobytes: int = 1) -> Tensor:
    return torch.randn(kilobytes * KILO // 4)


def like(near: Tensor):  # type: ignore[no-untyped-def]
    return near.size(), near.stride(), near.dtype, near.device


def fetch(transfer: Transfer, slot: Slot, near: Tensor) -> Arrival:
    return transfer.fetch(slot, like(near))


@pytest.fixture
def tier() -> ManualTier:
    return ManualTier()


def test_a_copy_out_is_begun_and_not_waited_for(tier: ManualTier) -> None:
    slot = Transfer(tier, 4 * KILO).put(tensor())
    assert tier.log == ["begin out 0"]
    slot.transfer.settle(slot)
    assert tier.log == ["begin out 0", "wait out 0"]


def test_near_memory_lives_until_its_bytes_are_out_and_no_longer(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, 4 * KILO), tensor()
    alive = weakref.ref(near.untyped_storage())
    slot = transfer.put(near)
    del near
    assert alive() is not None
    transfer.settle(slot)
    assert alive() is None


def test_copies_out_wait_for_the_oldest_once_the_bound_is_reached(tier: ManualTier) -> None:
    transfer = Transfer(tier, 3 * KILO)
    slots = [transfer.put(tensor()) for _ in range(5)]
    begun = ["begin out 0", "begin out 1", "begin out 2"]
    assert tier.log == [*begun, "wait out 0", "begin out 3", "wait out 1", "begin out 4"]
    assert transfer.peak_out == 3 * KILO
    assert len(slots) == 5


def test_a_copy_that_has_ended_is_not_on_its_way(tier: ManualTier) -> None:
    transfer = Transfer(tier, 2 * KILO)
    slots = [transfer.put(tensor()), transfer.put(tensor())]
    tier.copies[1].end()
    slots.append(transfer.put(tensor()))
    assert not [line for line in tier.log if line.startswith("wait")]
    assert slots[1].near is None


def test_a_tensor_beyond_the_bound_goes_alone(tier: ManualTier) -> None:
    transfer = Transfer(tier, 2 * KILO)
    slots = [transfer.put(tensor()), transfer.put(tensor(8)), transfer.put(tensor())]
    assert tier.log == ["begin out 0", "wait out 0", "begin out 1", "wait out 1", "begin out 2"]
    assert slots


def test_copies_in_wait_for_room_and_begin_in_order(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, 2 * KILO), tensor()
    slots = [transfer.put(near) for _ in range(3)]
    for slot in slots:
        transfer.settle(slot)
    tier.log.clear()
    arrivals = [fetch(transfer, slot, near) for slot in slots]
    assert tier.log == ["begin in 3", "begin in 4"]
    assert arrivals[2].near is None
    transfer.get(arrivals[0])
    assert tier.log == ["begin in 3", "begin in 4", "wait in 3", "begin in 5"]
    assert (transfer.peak_in, transfer.taken_back) == (2 * KILO, 0)


def test_what_is_needed_first_takes_the_room_of_what_was_begun_too_early(tier: ManualTier) -> None:
    transfer, nears = Transfer(tier, 2 * KILO), [tensor() for _ in range(3)]
    slots = [transfer.put(near) for near in nears]
    arrivals = [fetch(transfer, slot, near) for slot, near in zip(slots, nears, strict=True)]
    assert torch.equal(transfer.get(arrivals[2]), nears[2])
    assert (transfer.peak_in, transfer.taken_back) == (2 * KILO, 1)
    assert torch.equal(transfer.get(arrivals[0]), nears[0])
    assert torch.equal(transfer.get(arrivals[1]), nears[1])


def test_a_place_is_free_as_soon_as_nobody_holds_the_slot(tier: ManualTier) -> None:
    transfer = Transfer(tier, 4 * KILO)
    slot = transfer.put(tensor())
    assert (transfer.live, tier.room) == (KILO, (1 << 40) - KILO)
    del slot
    assert (transfer.live, tier.room) == (0, 1 << 40)


def test_a_place_that_is_still_written_to_is_not_given_out_again() -> None:
    tier = ManualTier(room=2 * KILO)
    transfer = Transfer(tier, 8 * KILO)
    transfer.put(tensor())
    kept = transfer.put(tensor())
    assert "free" not in tier.log
    last = transfer.put(tensor())  # there is no other place: it must wait for the copy that nobody wants
    assert tier.log == ["begin out 0", "begin out 1", "wait out 0", "free", "begin out 2"]
    assert kept.place is not last.place


def test_an_arrival_that_nobody_takes_leaves_nothing(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, 2 * KILO), tensor()
    slot = transfer.put(near)
    for _ in range(5):
        arrival = fetch(transfer, slot, near)
        assert arrival.near is not None
    del arrival, slot
    assert transfer.live == 0


def test_a_slot_can_be_read_again(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, 2 * KILO), tensor()
    slot = transfer.put(near)
    first, second = (transfer.get(fetch(transfer, slot, near)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


def test_no_room_is_an_error_and_what_was_out_stays(tier: ManualTier) -> None:
    tier.room = KILO
    transfer, near = Transfer(tier, 4 * KILO), tensor()
    slot = transfer.put(near)
    with pytest.raises(FarTierFull):
        transfer.put(tensor())
    assert torch.equal(transfer.get(fetch(transfer, slot, near)), near)
    assert transfer.moved_out == KILO


@pytest.mark.parametrize("where", ["settle", "put", "fetch"])
def test_an_error_of_a_copy_out_reaches_the_step(tier: ManualTier, where: str) -> None:
    transfer, near = Transfer(tier, 4 * KILO), tensor()
    slot = transfer.put(near)
    tier.copies[0].end(TransferError("the disk is gone"))
    act = {
        "settle": lambda: transfer.settle(slot),
        "put": lambda: transfer.put(tensor()),
        "fetch": lambda: fetch(transfer, slot, near),
    }[where]
    with pytest.raises(TransferError, match="the disk is gone"):
        act()


def test_after_an_error_nothing_is_left_and_work_goes_on(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, KILO), tensor()
    slot = transfer.put(near)
    tier.copies[0].end(TransferError("the disk is gone"))
    with pytest.raises(TransferError):
        transfer.put(near)
    with pytest.raises(TransferError, match="the disk is gone"):
        fetch(transfer, slot, near)
    del slot
    assert transfer.live == 0
    slot = transfer.put(near)
    assert torch.equal(transfer.get(fetch(transfer, slot, near)), near)


def test_an_error_of_a_copy_in_reaches_the_step(tier: ManualTier) -> None:
    transfer, near = Transfer(tier, 4 * KILO), tensor()
    arrival = fetch(transfer, transfer.put(near), near)
    tier.copies[-1].end(TransferError("the disk is gone"))
    with pytest.raises(TransferError, match="the disk is gone"):
        transfer.get(arrival)


def test_asking_for_another_size_than_went_out_is_an_error(tier: ManualTier) -> None:
    transfer = Transfer(tier, 4 * KILO)
    with pytest.raises(TransferError, match="1.024 kB went out"):
        fetch(transfer, transfer.put(tensor()), tensor(2))


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        ((2, 3), (3, 1), 24),
        ((2, 3), (1, 2), 24),
        ((4, 3), (0, 1), 12),
        ((2, 3), (8, 1), 44),
        ((0, 3), (3, 1), 0),
        ((), (), 4),
    ],
)
def test_bytes_reach_from_the_first_element_to_the_last(size, stride, expected) -> None:  # type: ignore[no-untyped-def]
    assert extent(size, stride, torch.float32) == expected


def test_any_strides_survive_the_way_over_a_disk(tmp_path: Path) -> None:
    transfer = Transfer(DiskTier(tmp_path, 1 << 20), 1 << 16)
    base = torch.randn(6, 8, 5)
    for near in (base, base.transpose(0, 2), base[1:3], base[:, ::2], base[2, 3, 1:2].expand(7, 3), torch.tensor(2.0)):
        back = transfer.get(fetch(transfer, transfer.put(near), near))
        assert torch.equal(back, near)
        assert back.stride() == near.stride()
    transfer.close()


@pytest.mark.parametrize("way", ["pwrite", "preadv"])
def test_an_error_of_the_disk_reaches_the_step_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    transfer, near = Transfer(DiskTier(tmp_path, 1 << 20), 1 << 16), tensor()
    with monkeypatch.context() as patched:
        patched.setattr(os, way, full)
        slot = transfer.put(near)
        with pytest.raises(FarTierFull, match="No space left"):
            transfer.get(fetch(transfer, slot, near))
    alive = weakref.ref(slot)
    del slot
    assert alive() is None  # without the garbage collector: nothing refers to the error, whose frames refer to it
    assert transfer.live == 0
    again = transfer.put(near)
    assert torch.equal(transfer.get(fetch(transfer, again, near)), near)
    transfer.close()


def test_a_backward_in_another_thread_gets_what_the_forward_moved(tmp_path: Path) -> None:
    transfer = Transfer(DiskTier(tmp_path, 1 << 22), 1 << 14)
    nears = [[tensor() for _ in range(40)] for _ in range(4)]
    same: list[bool] = []

    def work(mine: list[Tensor]) -> None:
        slots = [transfer.put(near) for near in mine]
        arrivals = [fetch(transfer, slot, near) for slot, near in zip(slots, mine, strict=True)]
        same.extend(torch.equal(transfer.get(a), near) for a, near in zip(arrivals, mine, strict=True))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in nears]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 160
    assert transfer.live == 0
    assert max(transfer.peak_out, transfer.peak_in) <= 1 << 14
    transfer.close()
