"""Whatever is wrong with the cache, the step completes with the right numbers, one warning, and an outcome that says why."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

HERE = Path(__file__).parent
STEP = HERE / "step.py"
RIGHT = (36.0).hex()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    """A process whose directory holds the entry of the step, compiled once for this file."""
    process = FreshProcess(tmp_path_factory.mktemp("compiled"))
    cold = process(STEP)
    assert cold["graph_miss"] == 1 and cold["value"] == RIGHT
    return process


@pytest.fixture
def warm(compiled: FreshProcess, fresh_process: FreshProcess) -> FreshProcess:
    """A process with a copy of that directory, which does hit."""
    shutil.copytree(directory(compiled), directory(fresh_process), copy_function=shutil.copy2)
    assert fresh_process(STEP)["graph_hit"] == 1
    return fresh_process


def directory(process: FreshProcess) -> Path:
    return process.home / "aot_cache"


def entry_files(process: FreshProcess) -> list[Path]:
    return [path for path in (directory(process) / "values").rglob("*.val")]


def damage_entries(process: FreshProcess, change: Any) -> None:
    """Change the bytes of every stored entry, wherever the store keeps them."""
    with sqlite3.connect(directory(process) / "cache.db") as db:
        for rowid, value in db.execute("select rowid, value from Cache where value is not null and filename is null"):
            db.execute("update Cache set value = ?, size = ? where rowid = ?", (new := change(bytes(value)), len(new), rowid))
    for path in entry_files(process):
        path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="last byte flipped"),
        pytest.param(lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], id="manifest flipped"),
        pytest.param(lambda data: b"\x80\x04" + data[2:], id="another magic"),
        pytest.param(lambda data: data[:8] + b"\xff\x7f" + data[10:], id="another format"),
    ],
)
def test_a_damaged_entry_is_compiled_again_and_replaced(warm: FreshProcess, change: Any) -> None:
    damage_entries(warm, change)
    again = warm(STEP)
    assert again["value"] == RIGHT
    assert again["error"] == 1 and again["graph_miss"] == 1 and "Miss UNUSABLE" in again["reasons"]
    assert warm(STEP)["graph_hit"] == 1


def test_a_truncated_entry_is_never_unpickled(warm: FreshProcess) -> None:
    damage_entries(warm, lambda data: data[: len(data) // 2])
    again = warm(STEP)
    assert again["value"] == RIGHT and again["graph_miss"] == 1
    assert warm(STEP)["graph_hit"] == 1


def test_a_damaged_index_turns_the_cache_off_for_the_run(warm: FreshProcess) -> None:
    for path in directory(warm).glob("cache.db*"):
        path.write_bytes(b"not a database" * 1000)
    again = warm(STEP)
    assert again["value"] == RIGHT and not again["graph_hit"] and (again["error"] or again["graph_bypass"])


def test_a_directory_that_others_can_write_is_refused(warm: FreshProcess) -> None:
    directory(warm).chmod(0o777)
    again = warm(STEP)
    assert again["value"] == RIGHT and again["graph_hit"] == 0
    assert again["reasons"] == ["Refused DIRECTORY"]


def test_a_file_where_the_directory_should_be_is_a_bad_setting(fresh_process: FreshProcess, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    again = fresh_process(STEP, env={"AOT_CACHE_DIR": str(path)})
    assert again["value"] == RIGHT and again["reasons"] == ["Refused SETTING"]


def test_a_directory_that_cannot_be_made_is_refused(fresh_process: FreshProcess) -> None:
    again = fresh_process(STEP, env={"AOT_CACHE_DIR": "/proc/no/such/place"})
    assert again["value"] == RIGHT and again["reasons"] == ["Refused DIRECTORY"]


def test_a_missing_directory_is_made(fresh_process: FreshProcess, tmp_path: Path) -> None:
    env = {"AOT_CACHE_DIR": str(tmp_path / "a" / "b" / "c")}
    assert fresh_process(STEP, env=env)["graph_miss"] == 1
    assert fresh_process(STEP, env=env)["graph_hit"] == 1
    assert (tmp_path / "a" / "b" / "c").stat().st_mode & 0o777 == 0o700


FULL = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import torch, step
import torch._inductor.compile_fx  # with room for torch's own files
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
import torch._inductor.config
torch._inductor.config.cpp_cache_precompile_headers = False
import contextlib
from aot_cache.store.disk import DiskStore
step.report(step.step())
"""


def test_a_full_disk_is_an_outcome(fresh_process: FreshProcess) -> None:
    # No file may grow beyond 4 KiB: the store's database and values cannot be written.
    full = fresh_process(FULL, env={"TORCHINDUCTOR_CACHE_DIR": "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"})
    assert full["value"] == RIGHT and full["graph_hit"] == 0
    assert full["error"] or full["graph_bypass"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AOT_CACHE", "maybe"),
        ("AOT_CACHE_SIZE_LIMIT", "lots"),
        ("AOT_CACHE_MODE", "writeonly"),
        ("AOT_CACHE_WAIT", "-1"),
        ("AOT_CACHE_ASSERT_HIT", "2"),
    ],
)
def test_a_bad_setting_in_the_environment_is_one_warning_and_no_cache(warm: FreshProcess, name: str, value: str) -> None:
    environment = warm.environment(0, **{name: value})
    done = subprocess.run([sys.executable, STEP], env=environment, capture_output=True, text=True, cwd=warm.home)
    assert done.returncode == 0 and RIGHT in done.stdout and '"graph_hit": 0' in done.stdout
    warnings = [line for line in done.stderr.splitlines() if "aot_cache" in line]
    assert len(warnings) == 1 and name in warnings[0] and value in warnings[0] and "must be" in warnings[0]


def test_a_bad_setting_in_a_call_raises(fresh_process: FreshProcess) -> None:
    said = fresh_process(
        "import json, torch, aot_cache\n"
        "try: aot_cache.enable(size_limit='lots')\n"
        "except aot_cache.errors.SettingError as e: print(json.dumps(str(e)))\n"
    )
    assert "size_limit" in said and "lots" in said and "10GB" in said


def test_readonly_reads_and_never_writes(warm: FreshProcess) -> None:
    before = {p: p.read_bytes() for p in directory(warm).rglob("*.val")}
    assert warm(STEP, env={"AOT_CACHE_MODE": "readonly"})["graph_hit"] == 1
    other = warm(STEP, env={"AOT_CACHE_MODE": "readonly", "OMP_NUM_THREADS": "1"})
    if other["graph_miss"]:  # on one core the number of threads is the same
        assert warm(STEP, env={"AOT_CACHE_MODE": "readonly", "OMP_NUM_THREADS": "1"})["graph_miss"] == 1
    assert {p: p.read_bytes() for p in directory(warm).rglob("*.val")} == before


def test_refresh_compiles_and_overwrites(warm: FreshProcess) -> None:
    refreshed = warm(STEP, env={"AOT_CACHE_MODE": "refresh"})
    assert refreshed["graph_miss"] == 1 and refreshed["reasons"] == ["Miss REFRESH"]
    assert warm(STEP)["graph_hit"] == 1


def test_an_asserted_hit_passes_when_it_is_one_and_names_what_differs_when_not(warm: FreshProcess) -> None:
    assert warm(STEP, env={"AOT_CACHE_ASSERT_HIT": "1"})["graph_hit"] == 1
    changed = f"import sys, torch; sys.path.insert(0, {str(HERE)!r}); import step, torch._inductor.config\n"
    changed += "torch._inductor.config.max_autotune = True; step.report(step.step())"
    environment = warm.environment(0, AOT_CACHE_ASSERT_HIT="1")
    done = subprocess.run([sys.executable, "-c", changed], env=environment, capture_output=True, text=True, cwd=warm.home)
    assert done.returncode != 0
    assert "MissAsserted" in done.stderr and "config.inductor.max_autotune: False -> True" in done.stderr


def test_an_entry_of_another_user_is_refused(warm: FreshProcess) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(directory(warm), 12345, 12345)
    assert warm(STEP)["reasons"] == ["Refused DIRECTORY"]
