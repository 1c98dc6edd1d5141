"""The far tier of a CPU process: a file without a name, written and read by one worker thread each way."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..errors import FarTierFull, TransferError
from ..units import exact_size

_PAGE = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Extent:
    """A piece of the file, in bytes."""

    offset: int
    size: int


class DiskTier:
    """Bytes of tensors in an unlinked file under `directory` that never grows beyond `limit` bytes.

    The file is gone when the process ends, however it ends. Never mapped: mapped pages would count as near memory.
    `written` and `read` count the bytes that went through the file.

    Raises:
        TransferError: no file can be made there.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise TransferError(f"no far tier in {directory}: {error}") from error
        self._directory, self._limit, self._end = directory, limit, 0
        self.written = self.read = 0
        self._free: list[Extent] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="aot_cache-offload-out")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="aot_cache-offload-in")

    @property
    def size(self) -> int:
        """Bytes of the file, used or not."""
        return self._end

    @property
    def used(self) -> int:
        """Bytes of the file that are given out, in whole pages."""
        return self._end - sum(extent.size for extent in self._free)

    def allocate(self, size: int) -> Extent:
        """A place for `size` bytes, for which the file system has room.

        Raises:
            FarTierFull: the limit or the file system does not allow it.
        """
        size = max(-(-size // _PAGE), 1) * _PAGE
        fitting = min((extent for extent in self._free if extent.size >= size), key=lambda e: e.size, default=None)
        if fitting is None:
            return self._grow(size)
        self._free.remove(fitting)
        if fitting.size > size:
            self._free.append(Extent(fitting.offset + size, fitting.size - size))
        return Extent(fitting.offset, size)

    def _grow(self, size: int) -> Extent:
        last = next((extent for extent in self._free if extent.offset + extent.size == self._end), None)
        start = last.offset if last else self._end
        if start + size > self._limit:
            raise FarTierFull(self._directory, size, self.used, f"it may hold {exact_size(self._limit)}")
        try:
            os.posix_fallocate(self._file.fileno(), start, size)
        except OSError as error:
            raise FarTierFull(self._directory, size, self.used, str(error)) from error
        if last:
            self._free.remove(last)
        self._end = start + size
        return Extent(start, size)

    def free(self, extent: Extent) -> None:
        """Give a place back; neighbours that are free become one."""
        offset, end = extent.offset, extent.offset + extent.size
        for other in [e for e in self._free if e.offset + e.size == offset or e.offset == end]:
            self._free.remove(other)
            offset, end = min(offset, other.offset), max(end, other.offset + other.size)
        self._free.append(Extent(offset, end - offset))

    def store(self, near: Tensor, nbytes: int, extent: Extent) -> Future[None]:
        """Begin to write the first `nbytes` of `near`, which lives until that is done."""
        return self._writer.submit(self._write, near, nbytes, extent)

    def load(self, extent: Extent, nbytes: int, near: Tensor) -> Future[None]:
        """Begin to read into the first `nbytes` of `near`."""
        return self._reader.submit(self._read, near, nbytes, extent)

    def _write(self, near: Tensor, nbytes: int, extent: Extent) -> None:
        self._all(os.pwrite, near, nbytes, extent)
        self.written += nbytes

    def _read(self, near: Tensor, nbytes: int, extent: Extent) -> None:
        self._all(lambda descriptor, view, offset: os.preadv(descriptor, [view], offset), near, nbytes, extent)
        self.read += nbytes

    def _all(self, move: Callable[[int, memoryview, int], int], near: Tensor, nbytes: int, extent: Extent) -> None:
        if nbytes == 0:
            return
        view = memoryview((ctypes.c_char * nbytes).from_address(near.data_ptr())).cast("B")
        done = 0
        while done < nbytes:
            try:
                step = move(self._file.fileno(), view[done:], extent.offset + done)
            except OSError as error:
                if error.errno in _FULL:
                    raise FarTierFull(self._directory, nbytes, self.used, str(error)) from error
                raise TransferError(f"the far tier in {self._directory} failed: {error}") from error
            if step == 0:
                raise TransferError(f"the far tier in {self._directory} ended early")
            done += step

    def close(self) -> None:
        """Finish what was begun, and give the file up."""
        self._writer.shutdown()
        self._reader.shutdown()
        self._file.close()
