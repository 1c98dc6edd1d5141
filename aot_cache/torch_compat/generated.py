"""The Python modules that Inductor generates around its kernels: run from memory, and from bytecode if an entry has it.

Torch writes a wrapper's source to a file, then reads and compiles that file. While an entry is loaded it gets a path
that no file has instead. Compiling takes a tenth of a second for a large model, so entries bring the bytecode.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib.util
import io
import linecache
import marshal
import sys
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

# Bytecode is for one version of Python, and says what -O says.
_FORMAT = importlib.util.MAGIC_NUMBER + bytes((sys.flags.optimize,))

_sources: dict[str, str] = {}
_codes: dict[str, CodeType] = {}


def digest(source: str) -> str:
    return hashlib.blake2b(source.encode(), digest_size=16).hexdigest()


def place(source: str) -> str:
    """The path, of no file, under which `open_` and `compile_` know this source from now on."""
    path = _path(source)
    # Without a modification time linecache keeps the lines, so that tracebacks show them.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    _sources[path] = source
    return path


def bytecode(sources: Iterable[str]) -> bytes:
    """What `with offered(...)` saves compiling these sources."""
    return _FORMAT + marshal.dumps(
        {path: compile(source, path, "exec", dont_inherit=True) for source in sources if (path := _path(source))}
    )


@contextlib.contextmanager
def offered(data: bytes | memoryview) -> Iterator[None]:
    """Wrappers placed in the block are not compiled if `data` is what `bytecode` gave for them in a Python like this."""
    codes = marshal.loads(data[len(_FORMAT) :]) if data[: len(_FORMAT)] == _FORMAT else {}
    _codes.update(codes)
    try:
        yield
    finally:
        for path in codes:
            _codes.pop(path, None)


def open_(path: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `open` where torch reads a wrapper."""
    source = _sources.get(path)
    return open(path, *args, **kwargs) if source is None else io.StringIO(source)


def compile_(source: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for `compile` where torch compiles a wrapper."""
    code = _codes.get(path) if _sources.get(path) == source else None
    return builtins.compile(source, path, *args, **kwargs) if code is None else code


def _path(source: str) -> str:
    return f"<aot_cache>/{digest(source)}.py"
