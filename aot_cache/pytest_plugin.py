"""pytest plugin: `pytest --aot-cache` runs the tests with the cache on, and sums up in one line what came of it.

Off unless --aot-cache, --aot-cache-dir or `aot_cache = true` in pytest's ini file asks for it. Imports no torch, and
never breaks a run: what goes wrong here is said in the summary.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

import aot_cache

_ENDS = {"hit": "hits", "miss": "misses", "bypass": "bypasses"}
_OUTPUT = "aot_cache"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aot_cache", "cache of torch.compile")
    group.addoption("--aot-cache", action="store_true", help="cache what torch.compile compiles in the tests")
    group.addoption("--aot-cache-dir", metavar="PATH", help="the cache directory; implies --aot-cache")
    parser.addini("aot_cache", "as --aot-cache", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption("aot_cache_dir")
    if directory or config.getoption("aot_cache") or config.getini("aot_cache"):
        config.pluginmanager.register(Session(directory), "aot_cache_session")


class Session:
    """The cache during one test session: in this process, in the workers of pytest-xdist, and in what tests start."""

    def __init__(self, directory: str | None) -> None:
        self._before = _so_far()
        self._totals = dict.fromkeys(self._before, 0.0)
        self._trouble = ""
        self._undo = ExitStack()
        environment = pytest.MonkeyPatch()
        self._undo.callback(environment.undo)
        environment.setenv("AOT_CACHE", "1")
        if directory:
            environment.setenv("AOT_CACHE_DIR", os.path.abspath(directory))
        try:
            self._turn_on()
        except Exception as error:
            self._trouble = f"off: {error}"

    def _turn_on(self) -> None:
        if "torch" in sys.modules:
            self._undo.enter_context(aot_cache.enabled())
        else:
            # As if `import torch` had just called it: joins torch when something is compiled.
            aot_cache._autoload()
            self._undo.callback(aot_cache.disable)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        found = _so_far()
        self._add({name: found[name] - self._before[name] for name in found})
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = self._totals

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # A worker that crashed has no output.
        self._add(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"aot-cache: {self._trouble or self._said()}")

    def _said(self) -> str:
        graphs = f"{self._counts('graph')}, errors {self._totals['error']:.0f}"
        frames = f"; frames: {self._counts('frame')}" if any(self._totals[f"frame_{end}"] for end in _ENDS) else ""
        return f"{graphs}{frames}; {self._totals['saved']:.1f} s of compiling saved"

    def _counts(self, kind: str) -> str:
        return ", ".join(f"{text} {self._totals[f'{kind}_{end}']:.0f}" for end, text in _ENDS.items())

    def pytest_unconfigure(self) -> None:
        self._undo.close()

    def _add(self, found: Mapping[str, float]) -> None:
        for name, value in found.items():
            self._totals[name] += value


def _so_far() -> dict[str, float]:
    """What became of the graphs and frames of this process up to now, and the seconds that its hits saved."""
    counts = {name: float(count) for name, count in aot_cache.stats().items()}
    return {**counts, "saved": sum(getattr(event, "saved", 0.0) for event in aot_cache.events())}
