"""Moves tensors of a device that is written in Python to host memory and back, and prints JSON of what was seen.

The device's data lives on the CPU, in a table by storage; its streams are labels. What can be seen is which bytes are
copied which way, that they come back, and how much host memory is held. Run as a program: a device stays for good.
"""

from __future__ import annotations

import json
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from aot_cache.errors import FarTierFull
from aot_cache.offloading import operators, tier_host
from aot_cache.offloading.transfer import Transfer

_setup_privateuseone_for_python_backend("toy")
DEVICE = torch.device("toy", 0)
data: dict[int, Tensor] = {}
copied: list[tuple[str, int]] = []
kept_for_streams: list[int] = []


def wrap(cpu: Tensor) -> Tensor:
    made = torch._C._acc.create_empty_tensor(list(cpu.shape), cpu.dtype)
    storage = made.untyped_storage()
    data[storage._cdata] = cpu.contiguous()
    weakref.finalize(storage, data.pop, storage._cdata)
    return made


def unwrap(value: Any) -> Any:
    if isinstance(value, Tensor) and value.device.type == "toy":
        return data[value.untyped_storage()._cdata].view(value.shape)
    return value


def on_cpu(op: Any, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = pytree.tree_map(unwrap, (args, kwargs))
    return pytree.tree_map(lambda x: wrap(x) if isinstance(x, Tensor) else x, op(*args, **kwargs))


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    copied.append((f"{source.device.type} to {target.device.type}", source.numel() * source.itemsize))
    unwrap(target).copy_(unwrap(source))
    return target


every = torch.library.Library("_", "IMPL")
every.fallback(on_cpu, "PrivateUse1")
aten = torch.library.Library("aten", "IMPL")
aten.impl("empty_strided", lambda size, stride, *, dtype=None, **_: wrap(torch.empty(size, dtype=dtype)), "PrivateUse1")
aten.impl("_copy_from", copy_from, "PrivateUse1")
aten.impl("record_stream", lambda tensor, stream: kept_for_streams.append(tensor.numel()), "PrivateUse1")


class PlainTier(tier_host.HostTier):
    """A device without a driver has no pinned memory."""

    def pin(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8)


def there_and_back(x: Tensor) -> bool:
    like = list(x.size()), list(x.stride()), x.dtype, x.device
    handle = operators.wait(operators.spill(x), x)
    back = operators.fill(operators.fetch(handle, *like), *like)
    return back.device == x.device and torch.equal(unwrap(back), unwrap(x))


def main() -> None:
    tier = PlainTier(DEVICE, 1 << 16)
    transfer = Transfer(tier, 1 << 20)
    operators.use("toy", transfer)
    tensors = [wrap(torch.randn(16, 64)), wrap(torch.randn(16, 64)), wrap(torch.arange(300)), wrap(torch.tensor(2.0))]
    same = [there_and_back(x) for x in tensors]
    ways = {way: [size for name, size in copied if name == way] for way in dict(copied)}
    live = transfer.live
    sizes = [tier.size]
    held = [transfer.put(wrap(torch.randn(64, 64))) for _ in range(4)]
    sizes.append(tier.size)
    try:
        transfer.put(wrap(torch.randn(64, 64)))
        full = ""
    except FarTierFull as error:
        full = str(error)
    del held
    found = {"same": same, "ways": ways, "live": live, "sizes": sizes, "full": full, "kept": kept_for_streams}
    found |= {"written": tier.written, "read": tier.read, "after": transfer.live}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
