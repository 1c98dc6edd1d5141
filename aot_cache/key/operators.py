"""Operators that are not torch's own, for the identity of callables and as a key part."""

from __future__ import annotations

import functools
import mmap
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..outcome import Reason
from ..torch_compat import extensions, objects
from .callables import Unidentified
from .callables.origin import of_file
from .encode import CannotKey, Encoder
from .parts import KeyPart, digest


def taught(value: Any) -> bytes | tuple[bytes, Any] | None:
    """As torch_compat.objects.taught, and for custom operators with all that is registered for them."""
    operators = extensions.custom(value)
    if operators is None:
        return objects.taught(value)
    try:
        return b"operator", [(op._name, _with_libraries(extensions.definition(op))) for op in operators]
    except extensions.UnknownKernel as error:
        raise Unidentified(str(error), remedy=error.remedy) from None


def extensions_part(identify: Callable[[Any], str]) -> KeyPart:
    """What was added to torch for the whole process: kernels for torch's own operators, libraries of operators."""
    encoder = Encoder()
    summary: dict[str, str] = {}
    try:
        found = extensions.overrides()
    except extensions.UnknownKernel as error:
        raise CannotKey(Reason.UNKNOWN_CALLABLE, str(error), error.remedy) from None
    for name, kernels in sorted(found.items()):
        for key, kernel in sorted(kernels.items()):
            summary[f"{name} {key}"] = _identity(identify, f"{key} kernel of {name}", kernel)
    libraries = sorted(library_facts(path) for path in extensions.loaded_libraries())
    summary |= {f"library {number}": facts for number, facts in enumerate(libraries)}
    encoder.value(summary)
    return KeyPart.of("extensions", encoder.bytes(), summary)


def _identity(identify: Callable[[Any], str], what: str, value: Any) -> str:
    try:
        return identify(value)
    except CannotKey as error:
        raise CannotKey(error.reason, f"{what}: {error.detail}", error.remedy) from error


def _with_libraries(found: dict[str, Any]) -> dict[str, Any]:
    """Compiled kernels by what stands for their library, instead of the path of their source."""
    native: dict[str, str] = found["native"]
    return {**found, "native": {key: _library_of(source, _size_of_maps()) for key, source in native.items()}}


@functools.lru_cache(maxsize=256)
def _library_of(source: str, mapped: int) -> str:
    """What identifies the loaded library that was compiled from `source`, whose path it holds as a text."""
    for path in sorted(_mapped_libraries(), key=os.path.getsize):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(source.encode() + b"\0") >= 0:
                return library_facts(path)
    raise Unidentified(f"a compiled kernel of {source}, in none of the loaded libraries")


def library_facts(path: str) -> str:
    """Name and version of the distribution that the library belongs to, or a digest of its content.

    Raises:
        Unidentified: the file cannot be read.
    """
    owner = of_file(os.path.abspath(path))
    if owner is not None:
        return str(owner)
    try:
        stat = os.stat(path)
        return _content(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise Unidentified(f"library {path}: {error}") from None


@functools.lru_cache(maxsize=64)
def _content(path: str, size: int, modified: int) -> str:
    return digest(Path(path).read_bytes())


def _mapped_libraries() -> set[str]:
    """Shared libraries in this process, but for torch's and the system's."""
    found: Iterable[str] = extensions.loaded_libraries()
    if sys.platform == "linux":
        lines = Path("/proc/self/maps").read_text().splitlines()
        found = {*found, *(line.split(maxsplit=5)[5] for line in lines if ".so" in line and line.count(" ") >= 5)}
    else:
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        found = {*found, *(file for file in files if file and file.endswith((".so", ".pyd", ".dylib")))}
    outside = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", extensions.TORCH_DIRECTORY)
    return {path for path in found if not path.startswith(outside) and os.path.isfile(path)}


def _size_of_maps() -> int:
    """Changes when libraries are loaded."""
    return len(sys.modules) + len(extensions.loaded_libraries())
