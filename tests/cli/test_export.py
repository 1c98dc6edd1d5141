"""export: what is written, what is left out, and that FILE is either whole or as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sample_graphs
from support import ROOT

from aot_cache.artifact.archive import Archive
from aot_cache.cli import last_run

from .conftest import Run
from .sample import Cache, damaged
from .test_main import process

SHARED, OWN, STRAY = (sample_graphs.kernel(text) for text in (b"shared", b"own", b"stray"))
A, B = sample_graphs.graph("a", [SHARED, OWN]), sample_graphs.graph("b", [SHARED])
NOW = 1_800_000_000.0


@pytest.fixture
def stored(empty: Cache) -> Cache:
    """Two graphs that share a kernel, and a kernel that neither needs."""
    empty.put(A, B, SHARED, OWN, STRAY)
    return empty


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def names(path: Path) -> set[str]:
    with path.open("rb") as file:
        return set(Archive(file, 10**9).rows)


def test_everything_goes_with_each_kernel_once_and_no_other(stored: Cache, run: Run, file: Path) -> None:
    result = run("export", str(file))
    assert result.code == 0
    assert names(file) == {A[0], B[0], SHARED[0], OWN[0]}
    assert result.facts | {"bytes": ""} == {
        "file": str(file), "bytes": "", "graphs": "2", "graphs.bytes": str(len(A[1]) + len(B[1])),
        "kernels": "2", "kernels.bytes": str(len(SHARED[1]) + len(OWN[1])),
    }  # fmt: skip
    assert result.facts["bytes"] == str(file.stat().st_size)


def test_equal_entries_give_an_equal_file_wherever_they_are(stored: Cache, run: Run, file: Path, tmp_path: Path) -> None:
    other = Cache(tmp_path / "other")
    other.put(OWN, B, SHARED, A)
    other.store().get(B[0])
    run("export", str(file))
    run("export", str(file) + "2", "--dir", str(other.directory))
    assert file.read_bytes() == Path(str(file) + "2").read_bytes()


def test_exporting_marks_nothing_as_used(stored: Cache, run: Run, file: Path) -> None:
    before = [(entry.name, entry.hits, entry.used) for entry in stored.store().entries()]
    assert run("export", str(file)).code == 0
    assert [(entry.name, entry.hits, entry.used) for entry in stored.store().entries()] == before


@pytest.mark.parametrize("option", ["--since=2h", f"--since={time.strftime('%Y-%m-%dT%H:%M', time.localtime(NOW - 7200))}"])
def test_since_takes_what_was_used_since_then(
    empty: Cache, run: Run, file: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW - 86400)
    empty.put(A, B, SHARED, OWN)
    monkeypatch.setattr(time, "time", lambda: NOW - 3600)
    empty.store().get(B[0])
    monkeypatch.setattr(time, "time", lambda: NOW)
    assert run("export", option, str(file)).code == 0
    assert names(file) == {B[0], SHARED[0]}


def test_a_time_with_an_offset_is_taken_as_such(
    empty: Cache, run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_767_225_600.0)  # 2026-01-01T00:00Z
    empty.put(A, SHARED, OWN)
    assert run("export", "--since", "2026-01-01T00:00:00Z", str(file)).code == 0
    assert run("export", "--since", "2026-01-01T00:00:01Z", str(file)).code == 1
    assert run("export", "--since", "2026-01-01T02:00:00+02:00", str(file)).code == 0


@pytest.mark.parametrize("value", ["yesterday", "2 parsecs", "2026-13-01", ""])
def test_a_bad_time_is_usage_and_named(stored: Cache, run: Run, file: Path, value: str) -> None:
    result = run("export", f"--since={value}", str(file))
    assert result.code == 2 and f"--since={value!r}" in result.err and "2h" in result.err
    assert not file.exists()


def test_the_last_run_is_what_warm_recorded(stored: Cache, run: Run, file: Path) -> None:
    key = B[0].partition(".")[0]
    last_run.write(stored.store(), "python train.py", time.time() - 120, [key, "g-gone"])
    result = run("export", "--last-run", str(file))
    assert result.code == 0 and "`python train.py`" in result.err and "2 min ago" in result.err
    assert names(file) == {B[0], SHARED[0]}
    run("export", str(file))
    assert names(file) == {A[0], B[0], SHARED[0], OWN[0]}


@pytest.mark.parametrize("value", [None, b"junk", b"[]", b'{"command": "x", "ended": NaN, "used": []}'])
def test_without_a_run_on_record_the_answer_is_no(stored: Cache, run: Run, file: Path, value: bytes | None) -> None:
    if value is not None:
        stored.put(("r-last", value))
    result = run("export", "--last-run", str(file))
    assert result.code == 1 and "aot-cache warm" in result.err
    assert not file.exists()


def test_nothing_to_export_is_a_no_and_leaves_the_file(empty: Cache, run: Run, file: Path) -> None:
    file.write_text("old")
    assert run("export", str(file)).code == 1
    assert file.read_text() == "old" and not empty.directory.exists()


def test_damaged_entries_and_those_without_their_kernels_are_left_out_and_named(
    stored: Cache, run: Run, file: Path
) -> None:
    bad = sample_graphs.graph("bad")
    stored.put((bad[0], damaged(bad[1])))
    stored.store().delete(OWN[0])
    result = run("export", str(file))
    assert result.code == 0 and names(file) == {B[0], SHARED[0]}
    assert f"left out {bad[0]}" in result.err and f"left out {A[0]}" in result.err and "is gone" in result.err


def test_a_damaged_kernel_takes_its_graphs_along(stored: Cache, run: Run, file: Path) -> None:
    stored.put((SHARED[0], damaged(SHARED[1])))
    result = run("export", str(file))
    assert result.code == 1 and result.err.count("left out") == 2 and not file.exists()


def test_trouble_leaves_the_old_file_and_nothing_beside_it(
    stored: Cache, run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("old")
    before = set(file.parent.iterdir())

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aot_cache.artifact.archive.shutil.copyfileobj", full)
    result = run("export", str(file))
    assert result.code == 1 and "No space left" in result.err and str(file) in result.err
    assert file.read_text() == "old" and set(file.parent.iterdir()) == before


def test_who_reads_the_old_file_meanwhile_reads_it_to_the_end(stored: Cache, run: Run, file: Path) -> None:
    file.write_text("old")
    with file.open() as reader:
        assert run("export", str(file)).code == 0
        assert reader.read() == "old"
    assert names(file)


def test_a_link_stays_and_what_it_names_is_replaced(stored: Cache, run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    file.symlink_to(tmp_path / "real")
    assert run("export", str(file)).code == 0
    assert file.is_symlink() and names(tmp_path / "real")


def test_a_device_is_written_to_and_not_replaced(stored: Cache, run: Run) -> None:
    assert run("export", os.devnull).code == 0
    assert not os.path.isfile(os.devnull)


def test_stdout_gets_the_archive_alone(stored: Cache, run: Run, file: Path) -> None:
    run("export", str(file))
    done = subprocess.run(
        [sys.executable, "-m", "aot_cache", "export", "-"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout == file.read_bytes() and b"graphs" in done.stderr


def test_a_terminal_gets_no_archive(stored: Cache, run: Run, terminal: None) -> None:
    result = run("export", "-")
    assert result.code == 2 and result.out == ""


def test_since_and_last_run_exclude_each_other(stored: Cache, file: Path) -> None:
    assert process("export", "--since", "1h", "--last-run", str(file)).returncode == 2
