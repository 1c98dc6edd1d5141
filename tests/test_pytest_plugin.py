"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support import ROOT

# Outcomes as the hook's, without torch.
TESTS = """
import pytest
from aot_cache.outcome import LEDGER, Bypass, Hit, Miss, Reason

@pytest.mark.parametrize("saved", [5.0, 2.5])
def test_hit(saved): LEDGER.add(Hit("graph", "g-1", 0.1, saved))
def test_miss(): LEDGER.add(Miss("graph", "g-2", 0.1, Reason.ABSENT))
def test_bypass(): LEDGER.add(Bypass("graph", None, 0.1, Reason.BACKEND))
"""
WHERE = """
import os, sys
def test_where():
    print("at", os.environ.get("AOT_CACHE"), os.environ.get("AOT_CACHE_DIR"), "torch" in sys.modules)
"""
SUMMARY = "aot-cache: hits 2, misses 1, bypasses 1, errors 0; 7.5 s of compiling saved"


class Project:
    """A directory with tests, run by pytest in a process that has the plugin."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, tests: str, *options: str, code: int = 0, ini: str = "", **env: str) -> str:
        (self.directory / "test_it.py").write_text(tests)
        (self.directory / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AOT_CACHE", "PYTEST"))}
        # The entry point loads the plugin where the project is installed, as tools/test.py does.
        plugin = [] if entry_points(group="pytest11", name="aot_cache") else ["-p", "aot_cache.pytest_plugin"]
        argv = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", *options]
        kept |= {"PYTHONPATH": str(ROOT), "HOME": str(self.directory), **env}
        done = subprocess.run(argv, cwd=self.directory, env=kept, text=True, capture_output=True, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_it_is_off_unless_asked_for(project: Project) -> None:
    assert "aot-cache" not in project(TESTS)
    assert "at None None False" in project(WHERE, "-s")


@pytest.mark.parametrize("ask", [("--aot-cache",), ("--aot-cache-dir", "here"), ("-o", "aot_cache=true")], ids=str)
def test_asked_for_it_sums_up_in_one_line(project: Project, ask: tuple[str, ...]) -> None:
    assert [line for line in project(TESTS, *ask).splitlines() if line.startswith("aot-cache")] == [SUMMARY]


def test_frames_are_counted_apart_where_there_are_any(project: Project) -> None:
    frames = """
def test_frames():
    LEDGER.add(Hit("frame", "f-1", 0.1, 4.0))
    LEDGER.add(Bypass("frame", None, 0.1, Reason.FRAME_GUARD))
"""
    out = project(TESTS + frames, "--aot-cache")
    graphs = "aot-cache: hits 2, misses 1, bypasses 1, errors 0"
    assert f"{graphs}; frames: hits 1, misses 0, bypasses 1; 11.5 s of compiling saved" in out


def test_the_ini_file_asks_for_it_too(project: Project) -> None:
    assert SUMMARY in project(TESTS, ini="aot_cache = true")


def test_tests_and_what_they_start_find_the_cache_on_in_that_directory_and_no_torch(project: Project) -> None:
    out = project(WHERE, "-s", "--aot-cache-dir", "here", AOT_CACHE="0")
    assert f"at 1 {project.directory / 'here'} False" in out


def test_the_environment_is_put_back_at_the_end(project: Project) -> None:
    (project.directory / "conftest.py").write_text(
        "import atexit, os\n"
        "atexit.register(lambda: print('after', os.environ.get('AOT_CACHE'), os.environ.get('AOT_CACHE_DIR')))\n"
    )
    out = project(TESTS, "--aot-cache-dir", "here", AOT_CACHE_DIR="/elsewhere")
    assert "after None /elsewhere" in out


def test_workers_are_summed_up(project: Project) -> None:
    pytest.importorskip("xdist")
    out = project(TESTS, "--aot-cache", "-n", "2")
    assert SUMMARY in out and out.count("aot-cache:") == 1


def test_a_worker_that_crashes_breaks_nothing(project: Project) -> None:
    pytest.importorskip("xdist")
    out = project("import os\ndef test_it(): os.abort()\n", "--aot-cache", "-n", "1", code=1)
    assert "aot-cache: hits 0" in out


def test_trouble_is_said_and_does_not_break_the_run(project: Project) -> None:
    (project.directory / "conftest.py").write_text(
        "import aot_cache\ndef broken(): raise RuntimeError('no way')\naot_cache._autoload = broken\n"
    )
    assert "aot-cache: off: no way" in project(TESTS, "--aot-cache")
    assert "4 passed" in project(TESTS, "--aot-cache")


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import torch\n"], ids=["torch later", "torch first"])
def test_a_second_run_hits_what_the_first_compiled(project: Project, first: str) -> None:
    (project.directory / "conftest.py").write_text(first)
    tests = "def test_it():\n    import torch\n    torch.compile(lambda x: x.sin().sum())(torch.ones(3))\n"
    options = ("--aot-cache-dir", "cache")
    frames = "; frames: hits {}, misses {}, bypasses 0; "
    cold = f"aot-cache: hits 0, misses 1, bypasses 0, errors 0{frames.format(0, 1)}0.0 s"
    assert cold in project(tests, *options)
    warm = f"aot-cache: hits 1, misses 0, bypasses 0, errors 0{frames.format(1, 0)}(.*) s of"
    found = re.search(warm, project(tests, *options))
    assert found and float(found[1]) > 0
