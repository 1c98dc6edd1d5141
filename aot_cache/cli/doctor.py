"""Find out why a compile might not be cached: installation, settings, directory and disk, each with its remedy."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..errors import AotCacheError, SettingError
from ..key.machine import lacking
from ..settings import _SOURCES, NATIVE, Settings, unknown
from ..store.opening import check_directory
from . import report
from .entries import reading, resolve

HELP = "check the installation, the settings and the directory"

# As in pyproject.toml: from the first, below the second.
TORCH = ((2, 11), (2, 16))
# SQLite's locks, and so the index, cannot be trusted on these.
_REMOTE = re.compile(r"nfs|cifs|smb|9p|lustre|ceph|gpfs|beegfs|afs|glusterfs|ncpfs|pvfs|orangefs|virtiofs|fuse(\..*)?$")
_VARIABLES = {name: source[0] for name, source in _SOURCES.items()}
_REFUSED = ("AOT_CACHE_VERIFY", "AOT_CACHE_REMOTE")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. remedy: what to do, unless all is well."""

    status: Literal["ok", "warn", "fail"]
    check: str
    detail: str
    remedy: str = ""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    findings = list(examine(arguments, os.environ))
    if arguments.json:
        report.as_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _print(findings: Sequence[Finding]) -> None:
    person = report.on_terminal()
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        cells = [report.printable(text) for text in (finding.status, finding.check, finding.detail, finding.remedy)]
        if not person:
            report.say("\t".join(cells))
            continue
        report.say(f"{cells[0]:<4}  {cells[1]:<{width}}  {cells[2]}")
        if finding.remedy:
            report.say(f"{'':<{width + 8}}-> {cells[3]}")


def examine(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every check, in the order in which a compile depends on them."""
    yield Finding("ok", "python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    yield _torch()
    yield _entry_point()
    yield _autoload(environ)
    wrong = dict(_wrong_settings(environ))
    yield from wrong.values()
    settings = resolve(arguments, {name: value for name, value in environ.items() if name not in wrong})
    yield from (finding for finding in _settings(settings, arguments, environ) if finding.check not in wrong)
    for name, meant in unknown(environ).items():
        yield Finding("warn", name, "set, and not read", f"unset it, or set {meant}" if meant else "unset it")
    if arguments.dir is not None or _VARIABLES["directory"] not in wrong:
        yield from _place(settings)


def _torch() -> Finding:
    wanted = "torch>={}.{},<{}.{}".format(*TORCH[0], *TORCH[1])
    remedy = f"pip install '{wanted}'"
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("fail", "torch", "not installed for this Python", remedy)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and TORCH[0] <= (int(numbers[1]), int(numbers[2])) < TORCH[1]:
        return Finding("ok", "torch", version)
    return Finding("fail", "torch", f"{version} is outside the supported range", remedy)


def _entry_point() -> Finding:
    for point in metadata.entry_points(group="torch.backends"):
        if point.name == "aot_cache":
            return Finding("ok", "entry point", f"torch.backends: {point.value}")
    detail = "aot_cache is not registered in torch.backends, so importing torch does not install it"
    return Finding("fail", "entry point", detail, "pip install aot_cache with this Python, or call aot_cache.enable()")


def _autoload(environ: Mapping[str, str]) -> Finding:
    # As torch reads it: anything but "1" turns it off.
    value = environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    if value == "1":
        return Finding("ok", "autoload", "torch loads registered backends")
    detail = f"TORCH_DEVICE_BACKEND_AUTOLOAD={value}: torch loads no registered backends"
    return Finding("warn", "autoload", detail, "unset TORCH_DEVICE_BACKEND_AUTOLOAD, or call aot_cache.enable()")


def _wrong_settings(environ: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    for variable in (*_VARIABLES.values(), *_REFUSED):
        try:
            Settings.resolve(environ={variable: environ.get(variable, "")})
        except SettingError as error:
            yield variable, Finding("fail", variable, str(error), f"set {variable} to {error.allowed}")


def _settings(settings: Settings, arguments: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, variable in _VARIABLES.items():
        value = getattr(settings, name)
        origin = "environment" if environ.get(variable, "") != "" else "default"
        if name == "directory" and arguments.dir is not None:
            origin = "--dir"
        if name == "enabled" and not value:
            yield Finding("warn", variable, f"0 ({origin}): nothing is cached", f"unset {variable}")
            continue
        if name == "cpu" and value != NATIVE and (missing := lacking(value)):
            detail = f"{value} ({origin}): this CPU lacks {' '.join(missing)}, so kernels are for this CPU alone"
            yield Finding("warn", variable, detail, "choose a level that every machine has")
            continue
        shown = report.human_size(value) if name == "size_limit" else int(value) if isinstance(value, bool) else value
        yield Finding("ok", variable, f"{shown} ({origin})")


def _place(settings: Settings) -> Iterator[Finding]:
    """The directory, or where it will be made, and the disk below it."""
    directory = there = settings.directory
    while not os.path.exists(there):  # unlike Path.exists, also False where it may not look
        there = there.parent
    elsewhere = "set AOT_CACHE_DIR to a directory of yours on a local disk"
    problem = "" if settings.mode == "readonly" else _obstacle(there)
    makes = settings.mode != "readonly" and not problem
    absent = "not there yet: the first compile makes it" if makes else "not there yet"
    try:
        check_directory(directory, readonly=there != directory or settings.mode == "readonly")
        safe = Finding("ok", "directory", "safe: nobody else can write it" if there == directory else absent)
    except AotCacheError as error:
        safe = Finding("fail", "directory", str(error), elsewhere)
    yield safe
    if settings.mode == "readonly":
        yield Finding("ok", "writable", "not needed: the mode is readonly")
    elif problem:
        detail = f"{there} cannot be written: {problem}"
        yield Finding("fail", "writable", detail, f"{elsewhere}, or AOT_CACHE_MODE=readonly")
    else:
        yield Finding("ok", "writable", "yes")
    yield _file_system(there, elsewhere)
    # What somebody else could have written is not opened.
    if safe.status == "ok":
        yield from _contents(settings, there)


def _obstacle(there: Path) -> str:
    """Why no directory can be made in `there`, which permissions alone do not tell; '' if one was made, and removed."""
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".aot-cache-doctor-", dir=there))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _file_system(there: Path, elsewhere: str) -> Finding:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return Finding("ok", "file system", "not known on this platform")
    kind = mounted_as(there.resolve(), mounts)
    if _REMOTE.match(kind):
        return Finding("warn", "file system", f"{kind}: the index needs the locks of a local disk", elsewhere)
    return Finding("ok", "file system", f"{kind} (local)")


def mounted_as(path: Path, mounts: str) -> str:
    """The type of the file system that holds `path`, from the text of Linux's mountinfo; "" if none does."""
    kind, depth = "", -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, types = left.split(" "), right.split(" ")
        if len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two mounts on one point the later one is seen.
        if len(point.parts) >= depth and path.is_relative_to(point):
            kind, depth = types[0], len(point.parts)
    return kind


def _contents(settings: Settings, there: Path) -> Iterator[Finding]:
    """A quick look at the index, and whether the disk can hold what the limit allows."""
    try:
        sizes = [entry.size for entry in reading(settings).entries()]
        yield Finding("ok", "index", report.entries(sizes))
    except AotCacheError as error:
        sizes = []
        yield Finding("fail", "index", str(error), "aot-cache verify --fix, or aot-cache clear")
    free, limit = shutil.disk_usage(there).free, settings.size_limit
    detail = f"{report.human_size(free)} free, the limit is {report.human_size(limit)}"
    if limit <= free + sum(sizes):
        yield Finding("ok", "space", detail)
    else:
        yield Finding("warn", "space", detail, "set AOT_CACHE_SIZE_LIMIT to less than what is free")
