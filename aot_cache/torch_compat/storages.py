"""The bytes of tensors inside an entry (constants of a graph)."""

from __future__ import annotations

from typing import Any

import torch


def is_storage(value: Any) -> bool:
    return isinstance(value, (torch.TypedStorage, torch.UntypedStorage))


def take(storage: Any) -> tuple[bytes, str | None, str]:
    """Arguments for `rebuild`."""
    untyped = storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage
    dtype = str(storage.dtype).removeprefix("torch.") if isinstance(storage, torch.TypedStorage) else None
    flat = torch.empty(0, dtype=torch.uint8, device=untyped.device).set_(untyped)
    return flat.cpu().numpy().tobytes(), dtype, str(untyped.device)


def rebuild(data: bytes, dtype: str | None, device: str) -> Any:
    """The storage that `take` was given, on the same kind of device."""
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    untyped = flat.to(device).untyped_storage()
    if dtype is None:
        return untyped
    return torch.TypedStorage(wrap_storage=untyped, dtype=getattr(torch, dtype), _internal=True)
