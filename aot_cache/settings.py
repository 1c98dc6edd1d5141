"""Settings: arguments over environment over defaults, checked once, frozen afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from .errors import SettingError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_MODES = ("readwrite", "readonly", "refresh")
NATIVE = "native"
CPU_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def _default_directory() -> Path:
    # platformdirs is not needed, and so not imported, when AOT_CACHE_DIR is set.
    import platformdirs

    return Path(platformdirs.user_cache_dir("aot_cache", appauthor=False))


@dataclass(frozen=True)
class Settings:
    """Everything a user can set.

    enabled: whether torch.compile is cached (AOT_CACHE).
    directory: where entries live (AOT_CACHE_DIR); the platform's user cache directory by default.
    size_limit: bytes that entries may take before the least recently used ones go (AOT_CACHE_SIZE_LIMIT).
    mode: readwrite | readonly (look up, never write) | refresh (compile and overwrite, never look up) (AOT_CACHE_MODE).
    assert_hit: a miss raises instead of compiling (AOT_CACHE_ASSERT_HIT).
    wait: seconds to wait for another process that compiles the same graph (AOT_CACHE_WAIT).
    verify: share of hits, 0 to 1, that are compiled afresh and compared (AOT_CACHE_VERIFY).
    frames: whether what Dynamo made of a frame is kept too, so that a warm start traces nothing (AOT_CACHE_FRAMES).
    cpu: native, or the level in CPU_LEVELS that kernels are compiled for instead of the CPU at hand (AOT_CACHE_CPU).
    """

    enabled: bool
    directory: Path
    size_limit: int
    mode: str
    assert_hit: bool
    wait: float
    verify: float
    frames: bool
    cpu: str

    @classmethod
    def resolve(cls, arguments: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings from `arguments` (by field name), then `environ`, then defaults.

        Raises:
            SettingError: a name is unknown or a value is not allowed; names the setting as the user spelled it.
        """
        arguments = dict(arguments or {})
        environ = os.environ if environ is None else environ
        values = {}
        for field in fields(cls):
            variable, parse, default = _SOURCES[field.name]
            if arguments.get(field.name) is not None:
                values[field.name] = parse(field.name, arguments.pop(field.name))
            elif environ.get(variable, "") != "":
                values[field.name] = parse(variable, environ[variable])
            else:
                values[field.name] = default() if callable(default) else default
            arguments.pop(field.name, None)
        if arguments:
            name, value = next(iter(arguments.items()))
            raise SettingError(name, value, f"one of {', '.join(f.name for f in fields(cls))}")
        _refuse_unavailable(environ)
        return cls(**values)


def unknown(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that look like ours and are not read, each with the one that may be meant ("" if none is alike)."""
    import difflib

    known = [variable for variable, _, _ in _SOURCES.values()] + list(_ELSEWHERE)
    strange = sorted(name for name in environ if name.startswith("AOT_CACHE") and name not in known)
    return {name: next(iter(difflib.get_close_matches(name, known, 1, cutoff=0.9)), "") for name in strange}


def _switch(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise SettingError(name, value, "0 or 1")


def _directory(name: str, value: Any) -> Path:
    try:
        path = Path(value).expanduser()
    except (TypeError, RuntimeError, ValueError):
        raise SettingError(name, value, "the path of a directory") from None
    if "\0" in str(path) or (path.exists() and not path.is_dir()):
        raise SettingError(name, value, "the path of a directory")
    return path.absolute()


def parse_size(name: str, value: Any) -> int:
    """Bytes from `10GB`, `500 MB`, `1.5GiB` or a plain number of bytes (at least 1)."""
    match = re.fullmatch(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([A-Za-z]*)\s*", str(value))
    unit = _UNITS.get(match[2].upper()) if match else None
    size = Decimal(match[1]) * unit if match and unit and not isinstance(value, bool) else 0
    if size < 1:
        raise SettingError(name, value, "a size such as 10GB, 500MB or a number of bytes, at least 1")
    return int(size)


def _mode(name: str, value: Any) -> str:
    if value not in _MODES:
        raise SettingError(name, value, f"one of {', '.join(_MODES)}")
    return value


def _cpu(name: str, value: Any) -> str:
    if value != NATIVE and value not in CPU_LEVELS:
        raise SettingError(name, value, f"one of {', '.join((NATIVE, *CPU_LEVELS))}")
    return value


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise SettingError(name, value, "a number of seconds, at least 0")
    return seconds


def _share(name: str, value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise SettingError(name, value, "a number from 0 (no hit) to 1 (every hit)")
    return share


def _refuse_unavailable(environ: Mapping[str, str]) -> None:
    # A switch that is accepted and does nothing would be worse than none.
    if environ.get("AOT_CACHE_REMOTE", "") != "":
        raise SettingError("AOT_CACHE_REMOTE", environ["AOT_CACHE_REMOTE"], "unset: this version does not have it yet")


# Read by the command line, by the report at the end of a process, and refused.
_ELSEWHERE = ("AOT_CACHE_DEBUG", "AOT_CACHE_REPORT", "AOT_CACHE_REMOTE")
_SOURCES: dict[str, tuple[str, Callable[[str, Any], Any], Any]] = {
    "enabled": ("AOT_CACHE", _switch, True),
    "directory": ("AOT_CACHE_DIR", _directory, _default_directory),
    "size_limit": ("AOT_CACHE_SIZE_LIMIT", parse_size, 10 * 10**9),
    "mode": ("AOT_CACHE_MODE", _mode, "readwrite"),
    "assert_hit": ("AOT_CACHE_ASSERT_HIT", _switch, False),
    "wait": ("AOT_CACHE_WAIT", _seconds, 600.0),
    "verify": ("AOT_CACHE_VERIFY", _share, 0.0),
    "frames": ("AOT_CACHE_FRAMES", _switch, True),
    "cpu": ("AOT_CACHE_CPU", _cpu, NATIVE),
}
