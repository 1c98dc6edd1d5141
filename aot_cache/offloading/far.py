"""The far tiers in use. One for each kind of device: compiled code goes on moving tensors after its block has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from ..errors import OffloadError, TransferError
from ..torch_compat import entries
from . import operators
from .options import Options
from .schedule import Link
from .tier_disk import DiskTier
from .tier_host import HostTier
from .transfer import Copy, Tier, Transfer

_PROBE_BYTES, _PROBES = 16 * 2**20, 3
_used: dict[str, tuple[tuple[str, Path, int, int], Transfer]] = {}
_links: dict[tuple[str, str, Path], Link] = {}


def kind_of(options: Options, device: str) -> str:
    """The kind of tier, disk or host, for tensors on that kind of device.

    Raises:
        OffloadError: what is asked for is not for these.
    """
    kind = "disk" if device == "cpu" else "host"
    if options.kind not in ("auto", kind):
        raise OffloadError(f"far={options.kind!r} cannot take tensors on {device}: use {kind}, or leave it out")
    return kind


def use(options: Options, device: str) -> Transfer:
    """Let tensors on that kind of device move as the options say; what moved already comes back from where it is.

    Raises:
        TransferError: there is no such far tier.
    """
    wanted = (kind_of(options, device), options.directory, options.budget.far, options.budget.inflight)
    known = _used.get(device)
    if known is None or known[0] != wanted:
        known = wanted, Transfer(_tier(options, device), options.budget.inflight)
        _used[device] = known
    operators.use(device, known[1])
    return known[1]


def used(device: str) -> Transfer | None:
    """By what tensors on that kind of device move now."""
    known = _used.get(device)
    return None if known is None else known[1]


def require(options: Options) -> None:
    """Raises TransferError: nothing can be written to the directory of the options."""
    if options.kind != "host":
        DiskTier(options.directory, _PROBE_BYTES).close()
    elif not torch.accelerator.is_available():
        raise TransferError("far='host' is for tensors on an accelerator, and there is none: use disk:DIRECTORY")


def link(options: Options, device: str) -> Link:
    """The link of the options, or one that was measured, once in a process.

    Raises:
        TransferError: the far tier cannot be used.
    """
    if options.link is not None:
        return options.link
    place = (device, kind_of(options, device), options.directory)
    if place not in _links:
        _links[place] = _probed(_tier(options, device), device, min(_PROBE_BYTES, options.budget.far))
    return _links[place]


def _tier(options: Options, device: str) -> Tier:
    limit = options.budget.far
    if kind_of(options, device) == "disk":
        # Places are whole pages, and what moves is 16 of them at least, unless it must.
        return DiskTier(options.directory, limit + limit // 16)
    return HostTier(torch.device(device), limit)


def _probed(tier: Tier, device: str, size: int) -> Link:
    out, back = [], []
    with entries.without_modes():  # those of the compile that asks
        near = torch.ones(size, dtype=torch.uint8, device=device)
        place = tier.allocate(size)
        for _ in range(_PROBES):
            out.append(_seconds(lambda: tier.store(near, size, place), device))
            back.append(_seconds(lambda: tier.load(place, size, near), device))
        tier.free(place)
        tier.close()
    d2h, h2d = (float(f"{size / max(min(taken), 1e-9):.2g}") for taken in (out, back))
    return Link(d2h, h2d, source="probe")


def _seconds(begin: Callable[[], Copy], device: str) -> float:
    started = time.perf_counter()
    begin().result()
    if device != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - started
