"""The tools' own virtual environment, .venv in the repository: made once, remembered by a stamp. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import child

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"


def enter(extra: str) -> None:
    """Return inside .venv with the project and `extra` installed; from any other python, start this program again there."""
    python = ensure(ROOT, extra)
    # By the executable, not sys.prefix: PYTHONHOME would make that differ for ever.
    if Path(sys.executable).parent.resolve() != python.parent:
        os.execv(python, [str(python), *sys.orig_argv[1:]])


def ensure(root: Path, extra: str) -> Path:
    """The python of root/.venv, after everything that pyproject.toml and `extra` ask for is installed there."""
    if sys.version_info < (3, 10):
        _stop(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}")
    venv = root / ".venv"
    python = venv / "bin" / "python"
    stamp, wanted = venv / f"stamp-{extra}", _digest(root, extra)
    if _read(stamp) == wanted:
        return python
    with _lock(root):
        if _read(stamp) != wanted:
            _install(root, venv, python, extra)
            # Last, and in one piece: a stamp says that all before it was done.
            fresh = stamp.with_suffix(".new")
            fresh.write_text(wanted)
            fresh.replace(stamp)
    return python


def _install(root: Path, venv: Path, python: Path, extra: str) -> None:
    """Install into `venv`, which is made anew if it is missing or an earlier run was killed while it installed."""
    unfinished = venv / "unfinished"
    if unfinished.exists() or not python.exists():
        shutil.rmtree(venv, ignore_errors=True)
        venv.mkdir()
        unfinished.touch()
        # This program may run on the very python that was just removed.
        base = getattr(sys, "_base_executable", sys.executable)
        _step("making .venv", [base, "-m", "venv", str(venv)], root)
    unfinished.touch()
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    try:
        if not _has_torch(root, python):
            _step(f"installing {TORCH}", [*pip, TORCH], root)
        _step(f"installing aot_cache[{extra}]", [*pip, "-e", f".[{extra}]"], root)
    except SystemExit:
        # pip failed and put back what it had changed: what is installed is whole.
        unfinished.unlink()
        raise
    unfinished.unlink()


def _step(label: str, argv: list[str], root: Path) -> None:
    finished = child.run(argv, label, cwd=root)
    if finished.code != 0:
        _stop(f"{finished.tail()}\n{label} failed with exit code {finished.code}")


def _has_torch(root: Path, python: Path) -> bool:
    """Whether that python imports a torch of the range in pyproject.toml, say one with CUDA that the user chose."""
    bounds = re.search(r'"torch>=(\d+)\.(\d+),<(\d+)\.(\d+)"', (root / "pyproject.toml").read_text())
    found = subprocess.run([str(python), "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    version = re.match(r"(\d+)\.(\d+)", found.stdout)
    if found.returncode != 0 or not bounds or not version:
        return False
    low, high = (bounds[1], bounds[2]), (bounds[3], bounds[4])
    return _numbers(low) <= _numbers(version.groups()) < _numbers(high)


def _numbers(texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(text) for text in texts)


def _digest(root: Path, extra: str) -> str:
    # The root is part of it: an editable install names the directory, and a checkout may be moved.
    text = "\n".join((str(root), extra, TORCH, (root / "pyproject.toml").read_text()))
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


@contextlib.contextmanager
def _lock(root: Path) -> Iterator[None]:
    """One installer at a time; the lock goes with the process that holds it."""
    directory = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            child.say("waiting for another run that installs into .venv")
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _stop(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(1)
