"""Child processes of the tools: an exact environment, and a sign of life on stderr. Standard library only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

# What a child inherits; everything else that could steer torch or the cache stays outside.
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CC", "CXX")
_KEPT_PREFIXES = ("OPENBLAS_", "OMP_", "MKL_")
_TAIL_LINES = 25


class ChildFailed(Exception):
    """A child exited with another code than 0; the text holds the tail of what it said."""


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    seconds: float

    def tail(self) -> str:
        """The last lines of its output, for a person."""
        return "\n".join((self.out + self.err).rstrip().splitlines()[-_TAIL_LINES:])


@contextmanager
def directory(prefix: str, keep: bool = False) -> Iterator[Path]:
    """A new temporary directory, which afterwards is removed, or, with `keep`, named on stderr."""
    home = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield home
    finally:
        if keep:
            print(f"kept: {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Variables for a child that finds all its directories, made here, under `home`; `more` is added last."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
    owned = {
        "HOME": home / "home",
        "TMPDIR": home / "tmp",
        "TORCHINDUCTOR_CACHE_DIR": home / "inductor",
        "AOT_CACHE_DIR": home / "aot_cache",
    }
    # The cache makes its own directory, with its own permissions.
    for name in ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR"):
        owned[name].mkdir(parents=True, exist_ok=True)
    return {**kept, **{name: str(path) for name, path in owned.items()}, "HF_HUB_OFFLINE": "1", **more}


def run(argv: Sequence[str], label: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Finished:
    """Run to the end, telling on stderr that `label` is under way and for how many seconds."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd)
        try:
            _watch(process, label, started)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Finished(process.returncode, _text(out), _text(err), time.monotonic() - started)


def run_json(argv: Sequence[str], label: str, env: Mapping[str, str] | None = None) -> Any:
    """What the child printed as JSON on its last line of stdout.

    Raises:
        ChildFailed: it exited with another code than 0, or its last line is not JSON.
    """
    finished = run(argv, label, env)
    if finished.code != 0:
        raise ChildFailed(f"{label}: exit code {finished.code}\n{finished.tail()}")
    try:
        return json.loads(finished.out.rstrip().rpartition("\n")[2])
    except ValueError:
        raise ChildFailed(f"{label}: the last line of its output is not JSON\n{finished.tail()}") from None


def say(text: str, end: str = "\n") -> None:
    """One line of progress on stderr."""
    print(f"  {text}", end=end, file=sys.stderr, flush=True)


def _watch(process: subprocess.Popen[bytes], label: str, started: float) -> None:
    terminal = sys.stderr.isatty()
    step = 1.0 if terminal else 10.0
    while True:
        try:
            process.wait(timeout=step)
        except subprocess.TimeoutExpired:
            say(f"{label} ... {time.monotonic() - started:.0f} s", end="\r" if terminal else "\n")
        else:
            word = "" if process.returncode == 0 else f", exit code {process.returncode}"
            say(f"{label}: {time.monotonic() - started:.1f} s{word}      ")
            return


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
