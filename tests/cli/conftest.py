"""A cache directory with known entries, and the command line run in this process on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aot_cache.cli import main
from aot_cache.key.parts import digest

from .sample import KEYS, Cache, Result, entry

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AOT_CACHE")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    monkeypatch.setenv("AOT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def empty(tmp_path: Path) -> Cache:
    """Nothing there, not even the directory."""
    return Cache(tmp_path / "cache")


@pytest.fixture
def cache(empty: Cache) -> Cache:
    """Three graphs of three keys, the last one for inference and of another torch, and one kernel library."""
    kernel = b"\x7fELF" + b"k" * 300
    empty.put(
        entry(KEYS[0]), entry(KEYS[1], "s0 > 4"), entry(KEYS[2], kind="inference", torch="2.12.0+cpu"),
        (f"k-{digest(kernel)}", kernel),
    )  # fmt: skip
    return empty


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """stdout and stderr say that they are a terminal."""
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda stream: True)
