"""Tiers that are not what they seem, for tests."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from torch import Tensor

from aot_cache.errors import FarTierFull


def finished(error: BaseException | None = None) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(error) if error else future.set_result(None)
    return future


class KeepingTier:
    """The negative control: whatever goes out stays in near memory."""

    written = read = 0

    def allocate(self, size: int) -> dict[str, Tensor]:
        return {}

    def free(self, place: dict[str, Tensor]) -> None:
        place.clear()

    def store(self, near: Tensor, nbytes: int, place: dict[str, Tensor]) -> Future[None]:
        place["near"] = near.clone()
        return finished()

    def load(self, place: Any, nbytes: int, near: Tensor) -> Future[None]:
        near.copy_(place["near"])
        return finished()

    def close(self) -> None:
        pass


class ManualTier(KeepingTier):
    """Copies end when the test says so: `end(number)`; the order of everything that happens is in `log`."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room, self.log = room, []  # type: ignore[var-annotated]
        self.copies: list[ManualCopy] = []

    def allocate(self, size: int) -> Any:
        if size > self.room:
            raise FarTierFull("test", size, 0, "so the test wants it")
        self.room -= size
        return {"size": size}

    def free(self, place: Any) -> None:
        self.log.append("free")
        self.room += place["size"]

    def store(self, near: Tensor, nbytes: int, place: Any) -> Any:
        place["near"] = near.clone()
        return self._begun("out")

    def load(self, place: Any, nbytes: int, near: Tensor) -> Any:
        near.copy_(place["near"])
        return self._begun("in")

    def _begun(self, way: str) -> ManualCopy:
        copy = ManualCopy(self, f"{way} {len(self.copies)}")
        self.log.append(f"begin {copy.name}")
        self.copies.append(copy)
        return copy


class ManualCopy:
    """Waiting for it ends it."""

    def __init__(self, tier: ManualTier, name: str) -> None:
        self.tier, self.name, self.ended, self.error = tier, name, False, None  # type: ignore[var-annotated]

    def done(self) -> bool:
        return self.ended

    def end(self, error: Exception | None = None) -> None:
        self.ended, self.error = True, error

    def result(self) -> None:
        if not self.ended:
            self.tier.log.append(f"wait {self.name}")
        self.ended = True
        error, self.error = self.error, None
        try:
            if error:
                raise error
        finally:
            del error  # its frames refer to it
