"""Models whose weights do not fit: `offload_weights` moves them to the far tier, from where each use brings them in."""

from __future__ import annotations

import functools
import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import BudgetTooSmall, OffloadError, SettingError
from ..settings import parse_size
from ..torch_compat import aliases
from .far_tensor import FarTensor
from .residence import Residence
from .tier_disk import DiskTier
from .tier_host import HostTier
from .transfer import Tier, Transfer

log = logging.getLogger("aot_cache")

SMALLEST = 64 * 1024
"""Bytes; a storage with fewer stays near."""


@dataclass
class _Group:
    """All parameters and buffers on one storage, each with where it hangs."""

    name: str
    storage: torch.UntypedStorage
    places: list[tuple[nn.Module, str]] = field(default_factory=list)


def offload_weights(model: nn.Module, budget: int | str, far: str) -> Residence:
    """See `aot_cache.offload_weights`."""
    limit = parse_size("budget", budget)
    groups = _groups(model)
    _check(model, groups, limit)
    total = sum(group.storage.nbytes() for group in groups)
    device = groups[0].storage.device if groups else torch.device("cpu")
    residence = Residence(Transfer(_tier(far, device, total), limit), limit)
    # All are copied before the first is replaced: if the far tier is full, nothing has happened.
    weights = [residence.take(group.name, _bytes(group.storage)) for group in groups]
    watched = []
    for group, weight in zip(groups, weights, strict=True):
        made: dict[int, Tensor] = {}
        for module, name in group.places:
            old = getattr(module, name)
            setattr(module, name, made.setdefault(id(old), _far(weight, old)))
            _forbid_conversion(module)
        watched.append((group.name, weakref.ref(group.storage)))
    groups.clear()
    del group, old
    residence.held = _held(watched)
    return residence


def _far(weight: Any, old: Tensor) -> Tensor:
    new = FarTensor.of(weight, old)
    return nn.Parameter(new, requires_grad=False) if isinstance(old, nn.Parameter) else new


def _groups(model: nn.Module) -> list[_Group]:
    """What is large enough to move, by storage, in the order of the modules."""
    found: dict[int, _Group] = {}
    for path, module in model.named_modules():
        for name, tensor in _own(module):
            if not aliases.is_plain(tensor) or tensor.is_meta:
                continue
            storage = tensor.untyped_storage()
            if storage.nbytes() >= SMALLEST:
                group = found.setdefault(storage.data_ptr(), _Group(f"{path}.{name}".strip("."), storage))
                group.places.append((module, name))
    return list(found.values())


def _own(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(recurse=False, remove_duplicate=False)
    yield from module.named_buffers(recurse=False, remove_duplicate=False)


def _check(model: nn.Module, groups: list[_Group], limit: int) -> None:
    """Raises OffloadError: these weights cannot be offloaded."""
    if any(isinstance(tensor, FarTensor) for module in model.modules() for _, tensor in _own(module)):
        raise OffloadError("weights of this model are offloaded already")
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            raise OffloadError(
                f"{name} requires grad: offload_weights is for inference; call model.requires_grad_(False) before"
            )
    if devices := {str(group.storage.device) for group in groups}:
        if len(devices) > 1:
            raise OffloadError(f"weights are on {', '.join(sorted(devices))}: offload_weights takes one device")
    moving = {group.storage.data_ptr() for group in groups}
    for optimizer in [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)]:
        for group in optimizer.param_groups:
            if any(p.device.type != "meta" and _address(p) in moving for p in group["params"]):
                raise OffloadError(
                    f"an optimizer ({type(optimizer).__name__}) holds weights of this model: offload_weights is for "
                    "inference; drop the optimizer before"
                )
    largest = max(groups, key=lambda group: group.storage.nbytes(), default=None)
    if largest is not None and largest.storage.nbytes() > limit:
        raise BudgetTooSmall(limit, largest.storage.nbytes(), f"{largest.name} is that large")


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if aliases.is_plain(tensor) else 0


def _tier(far: str, device: torch.device, total: int) -> Tier:
    """Room for all twice: weights that are written anew go out before the old ones are given up."""
    kind, colon, path = str(far).partition(":")
    if kind == "disk" and path and "\0" not in path:
        if device.type != "cpu":
            raise OffloadError(f"far={far!r} is for weights on the CPU, and these are on {device}: use 'host'")
        return DiskTier(Path(path).expanduser(), 2 * total + total // 8)
    if far != "host":
        raise SettingError("far", far, "disk:DIRECTORY or host")
    if device.type == "cpu":
        raise OffloadError("far='host' is for weights on an accelerator, and these are on the CPU: use disk:DIRECTORY")
    return HostTier(device, 2 * total)


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _held(watched: list[tuple[str, weakref.ref[torch.UntypedStorage]]]) -> tuple[str, ...]:
    """Names of the storages that are still alive; says so, for their memory was not freed."""
    if any(ref() is not None for _, ref in watched):
        gc.collect()
    held = {name: storage.nbytes() for name, ref in watched if (storage := ref()) is not None}
    if held:
        log.warning(
            "aot_cache: %s bytes of offloaded weights stay near, since something else holds them: %s",
            sum(held.values()),
            ", ".join(held),
        )
    return tuple(held)


def _forbid_conversion(module: nn.Module) -> None:
    """Have module.to(), half() and their like raise: they would bring every weight near."""
    if "_apply" not in vars(module):
        module._apply = functools.partial(_convert, module)  # type: ignore[method-assign]


def _convert(module: nn.Module, change: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """What stands for module._apply: a conversion that changes nothing goes through."""
    for name, tensor in _own(module):
        if isinstance(tensor, FarTensor):
            probe = torch.empty(1, dtype=tensor.dtype, device=tensor.device)
            if change(probe) is not probe:
                raise OffloadError(f"{name} is offloaded, and cannot be converted: do that before offload_weights")
    return type(module)._apply(module, change, recurse)
