"""What a person is told when the cache cannot be used: once, in words, and not that the program has changed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.errors import DamagedValue, StoreError, told
from aot_cache.outcome import Reason

PROGRAM = """
import json, torch, aot_cache
aot_cache.enable()
torch.compile(lambda a, b: a @ b)(torch.ones(3, 4), torch.ones(4, 2))
events = [e for e in aot_cache.events() if type(e).__name__ != "Hit"]
print(json.dumps([[type(e).__name__, e.kind, e.reason.name, e.detail] for e in events]))
"""


def outcomes(process: FreshProcess, **env: str) -> tuple[list[list[str]], list[str]]:
    """What was no hit, and the warnings."""
    environment = process.environment(0, AOT_CACHE_FRAMES="1", **env)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, cwd=process.home, check=True
    )
    warnings = [line for line in done.stderr.splitlines() if "aot_cache" in line]
    return json.loads(done.stdout.splitlines()[-1]), warnings


def truncate(directory: Path, prefix: str) -> None:
    """Cut the values of entries short; those in files behind the index's back."""
    with sqlite3.connect(directory / "cache.db") as db:
        rows: list[Any] = db.execute("select rowid, key, value, filename from Cache").fetchall()
        for rowid, key, value, filename in rows:
            if str(key).startswith(prefix) and filename:
                path = directory / filename
                path.write_bytes(path.read_bytes()[:50])
            elif str(key).startswith(prefix):
                db.execute("update Cache set value = ?, size = 50 where rowid = ?", (bytes(value)[:50], rowid))


def test_a_directory_that_cannot_be_used_is_one_warning(fresh_process: FreshProcess) -> None:
    found, warnings = outcomes(fresh_process, AOT_CACHE_DIR="/proc/no/such/place")
    assert len(warnings) == 1 and "the cache is off: cannot use /proc/no/such/place" in warnings[0]
    assert ["Refused", "graph", "DIRECTORY"] in [outcome[:3] for outcome in found]
    assert "StoreError" not in json.dumps([found, warnings])


def test_an_unsafe_directory_is_one_warning(fresh_process: FreshProcess) -> None:
    directory = fresh_process.home / "aot_cache"
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    _, warnings = outcomes(fresh_process)
    assert len(warnings) == 1 and "chmod 700" in warnings[0] and "UnsafeDirectory" not in warnings[0]


@pytest.mark.parametrize("prefix", ["g-", "f-"])
def test_a_truncated_value_is_damaged_and_the_frame_has_not_changed(fresh_process: FreshProcess, prefix: str) -> None:
    outcomes(fresh_process)
    truncate(fresh_process.home / "aot_cache", prefix)
    found, warnings = outcomes(fresh_process)
    reasons = [outcome[:3] for outcome in found]
    assert ["Failed", "graph" if prefix == "g-" else "frame", "DAMAGED"] in reasons
    assert not {"CHANGED", "DIRECTORY", "INTERNAL"} & {reason for _, _, reason in reasons}
    assert len(warnings) == 1 and "the entry is damaged" in warnings[0] and "DamagedValue" not in warnings[0]
    if prefix == "g-":
        assert any(o[:3] == ["Miss", "frame", "UNUSABLE"] and "cannot be read" in o[3] for o in found)
    assert outcomes(fresh_process) == ([], [])


def test_our_errors_are_told_as_they_are_and_others_with_their_type() -> None:
    assert told(StoreError("no room")) == told(DamagedValue("no room")) == "no room"
    assert (told(KeyError("x")), told(MemoryError())) == ("KeyError: 'x'", "MemoryError")


def test_a_damaged_value_is_no_fault_of_the_directory() -> None:
    from aot_cache.hook.graph_entries import why_unusable

    assert why_unusable(DamagedValue("cut short")) is Reason.DAMAGED
    assert why_unusable(StoreError("permission denied")) is Reason.DIRECTORY


def test_a_misspelt_variable_is_one_warning(fresh_process: FreshProcess) -> None:
    _, warnings = outcomes(fresh_process, AOT_CACHE_VERFY="1")
    assert warnings == ["aot_cache: AOT_CACHE_VERFY is set, and not read; is AOT_CACHE_VERIFY meant?"]
