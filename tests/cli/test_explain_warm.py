"""explain: a last run that was warm, and runs that leave no report."""

from __future__ import annotations

import pytest

from aot_cache.outcome import Hit
from aot_cache.store import runs

from .conftest import Run
from .reports import miss, parts, report, values
from .sample import Cache


def hit(cache: Cache, pid: int) -> None:
    report(cache, Hit("graph", "g-1", 0.1), at=pid, pid=pid)


def test_a_warm_last_run_is_said_and_what_was_before_is_explained(empty: Cache, run: Run) -> None:
    hit(empty, pid=3)
    result = run("explain")
    assert result.out == "" and "the last run was warm: train.py (process 3," in result.err
    missed = miss(empty, parts(), at=2, pid=2)
    result = run("explain")
    assert values(result.out, "key") == [missed]
    assert "the last run was warm: train.py (process 3," in result.err and "before it, train.py (process 2," in result.err
    answer = run("explain", "--json").json
    assert (answer["warm"]["pid"], answer["process"]["pid"]) == (3, 2)


def test_a_run_that_hit_and_missed_was_not_warm(empty: Cache, run: Run) -> None:
    hit(empty, pid=3)
    missed = miss(empty, parts(), at=3, pid=3)
    result = run("explain")
    assert values(result.out, "key") == [missed] and "warm" not in result.err and "miss: 1" in result.err


def test_warm_runs_push_out_no_other_report(empty: Cache, run: Run) -> None:
    missed = miss(empty, parts(), at=1, pid=1)
    for pid in range(2, runs.KEPT + 4):
        hit(empty, pid)
    assert values(run("explain").out, "key") == [missed]
    assert len(runs.runs(empty.directory)) == runs.KEPT + 1


def test_in_mode_readonly_it_is_said_that_such_runs_leave_no_report(
    empty: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "readonly" not in run("explain").err
    monkeypatch.setenv("AOT_CACHE_MODE", "readonly")
    assert "mode readonly leaves no report" in run("explain").err
