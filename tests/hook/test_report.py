"""The report that `aot-cache warm` reads: one line an outcome, at once, from every process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.hook import report
from aot_cache.outcome import Bypass, Hit, Ledger, Miss, Reason

HIT = Hit("graph", "g-1", 0.1, 5.0)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "report.jsonl"
    path.touch()
    monkeypatch.setenv("AOT_CACHE_REPORT", str(path))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_outcome_is_a_line_at_once_after_one_that_says_who_is_there(path: Path) -> None:
    ledger = Ledger()
    report.attach(ledger)
    assert lines(path) == [{"pid": os.getpid()}]
    ledger.add(HIT)
    assert lines(path)[1:] == [
        {"pid": os.getpid(), "outcome": "hit", "kind": "graph", "key": "g-1", "seconds": 0.1, "saved": 5.0, "entry": ""}
    ]
    ledger.add(Miss("graph", "g-2", 0.2, Reason.ABSENT))
    ledger.add(Bypass("graph", None, 0.3, Reason.BACKEND, "two\nlines", "do this"))
    assert [line["outcome"] for line in lines(path)[1:]] == ["hit", "miss", "bypass"]
    assert lines(path)[3] | {"pid": 0} == {
        "pid": 0, "outcome": "bypass", "kind": "graph", "key": None, "seconds": 0.3,
        "reason": Reason.BACKEND.value, "detail": "two\nlines", "remedy": "do this",
    }  # fmt: skip


def test_without_the_variable_nothing_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOT_CACHE_REPORT")
    ledger = Ledger()
    report.attach(ledger)
    ledger.add(HIT)
    assert lines(path) == []


def test_a_report_that_is_gone_is_not_made_again_and_disturbs_nobody(path: Path) -> None:
    ledger = Ledger()
    report.attach(ledger)
    path.unlink()
    ledger.add(HIT)
    assert ledger.events() == [HIT] and not path.exists()


def test_a_forked_process_reports_as_itself(path: Path) -> None:
    ledger = Ledger()
    report.attach(ledger)
    child = os.fork()
    if child == 0:
        ledger.add(HIT)
        os._exit(0)
    os.waitpid(child, 0)
    ledger.add(HIT)
    assert [line["pid"] for line in lines(path)] == [os.getpid(), child, os.getpid()]


def test_a_process_that_crashes_has_told_what_happened_before(path: Path, fresh_process: FreshProcess) -> None:
    code = """
import os, sys
from aot_cache.hook import report
from aot_cache.outcome import LEDGER, Hit
report.attach(LEDGER)
LEDGER.add(Hit("graph", "g-1", 0.1, 5.0))
os.abort()
"""
    with pytest.raises(AssertionError, match="exited with -6"):
        fresh_process(code, env={"AOT_CACHE_REPORT": str(path)})
    assert [line.get("outcome") for line in lines(path)] == [None, "hit"]
