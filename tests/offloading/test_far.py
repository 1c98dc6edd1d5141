"""The far tiers in use: one a kind of device, opened once, and measured once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from aot_cache.errors import FarTierFull, TransferError
from aot_cache.offloading import far, operators
from aot_cache.offloading.options import Options
from aot_cache.offloading.schedule import Link

MIB = 2**20


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = operators.use("cpu", None)
    monkeypatch.setattr(far, "_used", {})
    monkeypatch.setattr(far, "_links", {})
    yield
    operators.use("cpu", before)


def options(directory: Path, **how: Any) -> Options:
    return Options.of("8MB", f"disk:{directory}", **how)


def test_equal_options_share_a_tier_and_others_do_not(tmp_path: Path) -> None:
    one = far.use(options(tmp_path), "cpu")
    assert far.use(options(tmp_path), "cpu") is one is far.used("cpu")
    assert far.use(options(tmp_path, inflight="1MB"), "cpu") is not one


def test_what_moved_by_an_earlier_tier_still_comes_back(tmp_path: Path) -> None:
    far.use(options(tmp_path), "cpu")
    x = torch.randn(256, 256)
    handle = operators.wait(operators.spill(x), x)
    far.use(options(tmp_path, inflight="1MB"), "cpu")
    like = (list(x.shape), list(x.stride()), x.dtype, x.device)
    assert torch.equal(operators.fill(operators.fetch(handle, *like), *like), x)


def test_the_limit_of_the_far_tier_is_kept(tmp_path: Path) -> None:
    transfer = far.use(options(tmp_path, far_limit=MIB), "cpu")
    kept = [transfer.put(torch.ones(MIB // 4))]
    with pytest.raises(FarTierFull, match=str(tmp_path)):
        kept.append(transfer.put(torch.ones(MIB // 4)))


def test_a_plan_that_fills_the_far_tier_has_room_for_whole_pages(tmp_path: Path) -> None:
    size, count = 64 * 1024 + 4, 16
    transfer = far.use(options(tmp_path, far_limit=size * count), "cpu")
    assert len([transfer.put(torch.ones(size // 4)) for _ in range(count)]) == count


def test_a_link_that_is_given_is_not_measured(tmp_path: Path) -> None:
    assert far.link(options(tmp_path, link=(1, 2)), "cpu") == Link(1.0, 2.0)
    assert not far._links


def test_a_link_is_measured_once_also_inside_of_a_compile(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        found = far.link(options(tmp_path), "cpu")
    assert found.source == "probe"
    assert min(found.d2h, found.h2d) > 0
    assert far.link(options(tmp_path), "cpu") is found


def test_a_directory_that_takes_no_file_is_an_error_before_anything_is_compiled() -> None:
    with pytest.raises(TransferError, match="no far tier in /proc"):
        far.require(options(Path("/proc")))


def test_a_host_tier_without_an_accelerator_is_an_error() -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    with pytest.raises(TransferError, match="there is none"):
        far.require(Options.of("1GB", "host"))
