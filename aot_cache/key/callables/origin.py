"""Whose code a file or module is: an installed distribution's (name and version stand for it) or the user's.

User code is everything else: scripts, plain directories on the path, notebooks, generated code, and what was installed
from a directory (editable or not), because its version does not change with its code.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ..parts import digest


class Origin(NamedTuple):
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


PYTHON = Origin(sys.implementation.name, platform.python_version())
_COMPILED = (".so", ".pyd")
_STDLIB = {os.path.normcase(os.path.dirname(os.__file__)), os.path.normcase(sysconfig.get_path("stdlib"))}
_PACKAGE = Path(__file__).resolve().parents[2]
_SITE = re.compile(r"(.*[/\\](?:site|dist)-packages)[/\\](.+)", re.DOTALL)


@lru_cache(maxsize=None)
def of_file(path: str) -> Origin | None:
    """The distribution that installed the file, or None for user code."""
    if path.startswith("<frozen "):
        return PYTHON
    if not os.path.isabs(path):
        return None
    if Path(path).is_relative_to(_PACKAGE):
        return _this_package()
    if match := _SITE.fullmatch(path):
        return _owner(match[1], match[2].replace("\\", "/"))
    folded = os.path.normcase(path)
    return PYTHON if any(folded.startswith(root + os.sep) for root in _STDLIB) else None


@lru_cache(maxsize=None)
def _this_package() -> Origin:
    """This package, which may run from a checkout: its source stands for its version. Its state is not the user's."""
    sources = {source.relative_to(_PACKAGE).as_posix(): source.read_bytes() for source in _PACKAGE.rglob("*.py")}
    lines = [f"{digest(content)} {name}" for name, content in sorted(sources.items())]
    return Origin(_PACKAGE.name, digest("\n".join(lines).encode()))


def of_module(module: ModuleType) -> Origin | None:
    """The distribution that the module belongs to, or None for user code."""
    names = vars(module)
    file = file_of(module)
    if file is not None:
        return of_file(file)
    origin = getattr(names.get("__spec__"), "origin", None)
    if origin in ("built-in", "frozen"):
        return PYTHON
    paths = names.get("__path__")
    if paths is not None:  # a namespace package: whoever installed its first directory does not own the others
        return None
    # What a C extension made beside itself (torch._C._nn) belongs to the module above it.
    parent = str(names.get("__name__")).rpartition(".")[0]
    return of_module_named(parent) if parent else None


def of_module_named(name: str) -> Origin | None:
    """As of_module; None too if neither the module nor one above it is loaded."""
    while name:
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            return of_module(module)
        name = name.rpartition(".")[0]
    return None


def file_of(module: ModuleType) -> str | None:
    file = vars(module).get("__file__")
    return file if isinstance(file, str) else None


def library_digest(module: ModuleType) -> str | None:
    """Digest of the file of a user's extension module; None if it is not a compiled one."""
    file = file_of(module)
    if file is None or not file.endswith(_COMPILED):
        return None
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return _file_digest(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _file_digest(file: str, size: int, modified: int) -> str:
    with open(file, "rb") as stream:
        return digest(stream.read())


class _Installed(NamedTuple):
    origin: Origin | None
    record: str | None
    top_level: frozenset[str]

    def owns(self, relative: str, top: str) -> bool:
        # A line is `file,digest,size`; torch's has some 15,000 of them.
        return top in self.top_level if self.record is None else f"\n{relative}," in self.record


def _owner(site: str, relative: str) -> Origin | None:
    top = relative.split("/")[0].split(".")[0]
    # Nearly always the distribution is called as the package; reading the others' file lists takes some 50 ms.
    for name in (top, None):
        for installed in _installed(site, name):
            if installed.owns(relative, top):
                return installed.origin
    return None


@lru_cache(maxsize=None)
def _installed(site: str, name: str | None) -> tuple[_Installed, ...]:
    wanted = {"path": [site]} if name is None else {"path": [site], "name": name}
    return tuple(_describe(found) for found in importlib.metadata.distributions(**wanted))


def _describe(found: importlib.metadata.Distribution) -> _Installed:
    record = found.read_text("RECORD")
    top_level = frozenset((found.read_text("top_level.txt") or "").split())
    return _Installed(_origin(found), None if record is None else f"\n{record}", top_level)


def _origin(found: importlib.metadata.Distribution) -> Origin | None:
    facts = found.metadata  # parsed anew at each access
    name, version = re.sub(r"[-_.]+", "-", facts["Name"]).lower(), facts["Version"]
    text = found.read_text("direct_url.json")
    if text is None:
        return Origin(name, version)
    try:
        source = json.loads(text)
        if "vcs_info" in source:
            return Origin(name, f"{version} {source['vcs_info']['commit_id']}")
        archive = source["archive_info"]
        hashes = archive.get("hashes") or archive["hash"]
        return Origin(name, f"{version} {json.dumps(hashes, sort_keys=True)}")
    except (ValueError, KeyError, TypeError):
        return None
