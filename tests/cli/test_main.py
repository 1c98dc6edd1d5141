"""The manners all verbs share: exit codes, streams, pipes, and no torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aot_cache.cli import report, stats

from .conftest import Run
from .sample import KEYS, Cache, entry

ROOT = Path(__file__).parents[2]
READING = [("inspect",), ("stats",), ("verify",), ("explain",), ("inspect", "--json"), ("stats", "--json"), ("verify", "--json")]
DELETING = [("prune",), ("clear", "--yes"), ("verify", "--fix"), ("prune", "--dry-run"), ("clear", "--dry-run")]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "aot_cache", *arguments]


def process(*arguments: str, code: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", code] if code else command(*arguments)
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(argv, env=environ, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.mark.parametrize("verb", READING + DELETING, ids=" ".join)
def test_a_directory_that_is_not_there_is_an_empty_cache_and_is_not_made(
    empty: Cache, run: Run, verb: tuple[str, ...]
) -> None:
    assert run(*verb).code == 0
    assert not empty.directory.exists()


TELLING = [("explain", KEYS[1]) if verb == ("explain",) else verb for verb in READING]


@pytest.mark.parametrize("verb", TELLING + [("doctor",), ("prune", "--size", "1"), ("clear", "--yes")], ids=" ".join)
def test_dir_goes_over_the_environment(cache: Cache, run: Run, tmp_path: Path, verb: tuple[str, ...]) -> None:
    other = Cache(tmp_path / "other")
    other.put(entry(KEYS[0]))
    there = run(*verb, "--dir", str(other.directory))
    assert len(cache.names()) == 4
    here = run(*verb)
    assert (there.out, there.err) != (here.out, here.err)


@pytest.mark.parametrize("arguments", [(), ("explode",), ("stats", "--nonsense"), ("inspect", "a", "b")])
def test_bad_usage_is_2_with_nothing_on_stdout(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "") and "usage: aot-cache" in result.err


def test_help_is_a_yes_on_stdout(run: Run) -> None:
    result = run("--help")
    assert result.code == 0 and "doctor" in result.out and "130" in result.out


@pytest.mark.parametrize("verb", READING + DELETING, ids=" ".join)
def test_a_bad_setting_is_2_and_named(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", "lots")
    result = run(*verb)
    assert (result.code, result.out) == (2, "")
    assert "AOT_CACHE_SIZE_LIMIT='lots'" in result.err and "10GB" in result.err


@pytest.mark.parametrize("value", ["", " ", "FILE"])
def test_a_bad_dir_is_2_and_named_as_the_user_spelled_it(cache: Cache, run: Run, tmp_path: Path, value: str) -> None:
    if value == "FILE":
        value = str(tmp_path / "file")
        Path(value).touch()
    result = run("clear", "--yes", "--dir", value)
    assert result.code == 2 and f"--dir={value!r}" in result.err


def test_the_unexpected_is_3_in_one_line_and_the_traceback_is_one_variable_away(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(arguments: object) -> int:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(stats, "run", broken)
    result = run("stats")
    assert (result.code, result.out) == (3, "")
    assert result.err == "aot-cache: RuntimeError: two\\nlines (AOT_CACHE_DEBUG=1 shows where)\n"
    monkeypatch.setenv("AOT_CACHE_DEBUG", "1")
    result = run("stats")
    assert result.code == 3 and "Traceback" in result.err and "in broken" in result.err


def test_interrupted_is_130_and_quiet(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(stats, "run", interrupted)
    result = run("stats")
    assert (result.code, result.out, result.err) == (130, "", "")


def test_an_unsafe_directory_is_refused_in_one_line(cache: Cache, run: Run) -> None:
    cache.directory.chmod(0o777)
    for verb in ("inspect", "stats"):
        result = run(verb)
        assert (result.code, result.out) == (1, "") and f"chmod 700 {cache.directory}" in result.err


def test_a_file_that_cannot_be_written_is_a_no_with_its_reason(cache: Cache, run: Run) -> None:
    result = run("export", "/nonexistent/x")
    assert (result.code, result.out) == (1, "") and "/nonexistent/x" in result.err and "No such file" in result.err


def test_the_version_is_that_of_what_is_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", {"aot_cache": "7.8"}.__getitem__)
    result = run("--version")
    assert (result.code, result.out) == (0, "aot-cache 7.8\n")


@pytest.mark.parametrize("verb", [
    "inspect", "stats", "verify", "prune", "export FILE", "import /nothing", "warm -- true", "clear --yes", "doctor",
])  # fmt: skip
def test_no_verb_imports_torch(cache: Cache, verb: str) -> None:
    arguments = verb.replace("FILE", str(cache.directory.parent / "archive")).split()
    code = (
        f"import sys; from aot_cache.cli import main; code = main({arguments!r}); "
        "print(sorted({'torch', 'aot_cache.hook', 'aot_cache.torch_compat'} & set(sys.modules)), file=sys.stderr)"
    )
    assert process(code=code).stderr.splitlines()[-1] == "[]"


def test_the_module_runs_and_gives_its_exit_code(cache: Cache) -> None:
    assert process("stats").returncode == 0
    unknown = process("inspect", "ffff")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert process("clear").returncode == 2
    assert process("stats", AOT_CACHE_MODE="fast").returncode == 2


def test_a_reader_that_goes_away_is_quiet_and_does_not_change_the_answer(cache: Cache) -> None:
    cache.put(*(entry(f"{number:032x}") for number in range(150)))
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    read, write = os.pipe()
    os.close(read)
    for verb, code in (["inspect"], 0), (["inspect", "--json"], 0), (["--help"], 0), (["inspect", "ffff"], 1):
        done = subprocess.run(command(*verb), env=environ, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == code and not re.search("Traceback|Error|ignored", done.stderr), (verb, done.stderr)
    both = subprocess.run(command("clear", "--yes"), env=environ, stdout=write, stderr=write, timeout=60)
    os.close(write)
    assert both.returncode == 0 and cache.names() == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_unexpected(cache: Cache) -> None:
    with open("/dev/full", "w") as full:
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command("stats"), env=environ, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3 and "No space left" in done.stderr


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (99_950, "100 kB"), (999_600, "1.0 MB"),
     (10**10, "10.0 GB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_sizes_for_a_person(size: int, shown: str) -> None:
    assert report.human_size(size) == shown


@pytest.mark.parametrize(
    ("seconds", "age", "duration"),
    [(0, "just now", "0.0 s"), (59.9, "just now", "59.9 s"), (120, "2 min ago", "2 min"),
     (7200, "2 h ago", "2 h 00 min"), (3 * 86400, "3 d ago", "72 h 00 min"), (-5, "just now", "-5.0 s")],
)  # fmt: skip
def test_ages_and_durations_for_a_person(seconds: float, age: str, duration: str) -> None:
    assert (report.human_age(seconds), report.human_seconds(seconds)) == (age, duration)


def test_a_time_that_is_none_is_shown_as_the_number_it_is() -> None:
    assert report.show(1e300, "time", person=False) == "1e+300"


def test_progress_is_for_terminals_only(cache: Cache, run: Run) -> None:
    assert "\r" not in run("inspect").err


def test_progress_on_a_terminal_is_wiped_at_the_end(
    capsys: pytest.CaptureFixture[str], terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_PAUSE", 0)
    with report.progress("reading") as step:
        step(7)
    err = capsys.readouterr().err
    assert err.startswith("\rreading 7") and err.endswith("\r\x1b[K")


def test_a_verb_imports_no_other_verb() -> None:
    code = (
        "import sys; from aot_cache.cli import main; main(['stats', '--help']); "
        "print([name for name in sys.modules if name in ('aot_cache.cli.explain', 'aot_cache.cli.stats')])"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)
    assert said.splitlines()[-1] == "['aot_cache.cli.stats']"
