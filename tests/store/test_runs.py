"""What processes reported: appended, bounded, and readable whatever a crash left."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from aot_cache.errors import StoreError
from aot_cache.store import runs
from aot_cache.store.disk import DiskStore

START = 1_700_000_000.25


def append(directory: Path, *events: dict[str, Any], started: float = START, pid: int = 7) -> Path:
    for event in events:
        runs.append(directory, started, pid, event)
    return max((directory / "runs").iterdir())


def test_events_come_back_in_order_with_start_and_process(tmp_path: Path) -> None:
    append(tmp_path, {"a": 1}, {"b": ["é", None]})
    assert runs.runs(tmp_path) == [runs.Run(START, 7, ({"a": 1}, {"b": ["é", None]}))]


def test_the_latest_start_comes_first(tmp_path: Path) -> None:
    for started, pid in ((START, 1), (START + 2, 2), (START + 1, 3)):
        append(tmp_path, {}, started=started, pid=pid)
    assert [run.pid for run in runs.runs(tmp_path)] == [2, 3, 1]


def test_nothing_is_there_before_the_first_event(tmp_path: Path) -> None:
    assert runs.runs(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_files_are_for_this_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = append(tmp_path, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    count = runs.KEPT + 5
    for number in range(count):
        append(tmp_path, {"n": number}, started=START + number)
    assert [run.events[0]["n"] for run in runs.runs(tmp_path)] == list(range(count))[: -runs.KEPT - 1 : -1]


def test_a_file_that_is_not_ours_stays(tmp_path: Path) -> None:
    append(tmp_path, {})
    other = tmp_path / "runs" / "0000 notes.txt"
    other.touch()
    for number in range(runs.KEPT + 2):
        append(tmp_path, {}, started=START + number)
    assert other.exists() and len(runs.runs(tmp_path)) == runs.KEPT


def test_a_process_that_says_too_much_is_cut_off_between_two_events(tmp_path: Path) -> None:
    event = {"text": "x" * (runs.FILE_LIMIT // 3)}
    path = append(tmp_path, event, event, event, event)
    assert len(runs.runs(tmp_path)[0].events) == 2
    assert path.stat().st_size <= runs.FILE_LIMIT


def test_a_line_that_was_cut_short_and_one_that_is_no_object_are_left_out(tmp_path: Path) -> None:
    path = append(tmp_path, {"a": 1})
    with path.open("ab") as file:
        file.write(b'7\n\xff\xfe\n{"b": 2}\n{"c"')
    assert runs.runs(tmp_path)[0].events == ({"a": 1}, {"b": 2})


def test_a_name_that_is_no_time_is_left_out(tmp_path: Path) -> None:
    append(tmp_path, {})
    (tmp_path / "runs" / "20269931T000000.000000Z-1.jsonl").write_text("{}\n")
    assert [run.pid for run in runs.runs(tmp_path)] == [7]


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    def work(number: int) -> None:
        append(tmp_path, *({"n": number, "x": "y" * 5000} for _ in range(20)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (run,) = runs.runs(tmp_path)
    assert sorted(event["n"] for event in run.events) == sorted([*range(4)] * 20)


def test_a_link_in_the_file_s_place_is_not_followed(tmp_path: Path) -> None:
    path = append(tmp_path, {})
    path.unlink()
    target = tmp_path / "target"
    path.symlink_to(target)
    with pytest.raises(StoreError, match="cannot write"):
        append(tmp_path, {})
    assert not target.exists()


def test_what_cannot_be_written_or_read_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(StoreError, match="cannot write"):
        append(tmp_path, {})
    with pytest.raises(StoreError, match="cannot read"):
        runs.runs(tmp_path)


def test_reports_are_no_entries_and_no_problem_of_the_store(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, 10**6)
    store.put("g-a", b"1")
    append(tmp_path, {"a": 1})
    assert [entry.name for entry in store.entries()] == ["g-a"]
    assert store.verify(fix=True) == []
    store.clear()
    assert runs.runs(tmp_path)[0].events == ({"a": 1},)
