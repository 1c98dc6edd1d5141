"""import: what comes in, what is skipped and why, and that a bad archive changes nothing."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sample_graphs
from support import ROOT

from aot_cache.artifact import archive
from aot_cache.key import machine
from aot_cache.key.machine import here

from .conftest import Run
from .sample import Cache, Result, damaged

SHARED, OWN = sample_graphs.kernel(b"shared"), sample_graphs.kernel(b"own")
A, B = sample_graphs.graph("a", [SHARED, OWN]), sample_graphs.graph("b", [SHARED])
ALL = dict([A, B, SHARED, OWN])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def carried(file: Path) -> Path:
    """An archive of two graphs."""
    return pack(file, A, B, SHARED, OWN)


def pack(path: Path, *values: sample_graphs.Value) -> Path:
    with path.open("wb") as file:
        archive.write(file, dict(values), dict(values).get, None, lambda done: None)
    return path


def contents(cache: Cache) -> dict[str, bytes | None]:
    store = cache.store()
    return {entry.name: store.get(entry.name) for entry in store.entries()}


def results(result: Result) -> dict[str, tuple[str, str]]:
    """Result and reason by the graph's name."""
    return {row[2]: (row[4], row[5] if len(row) > 5 else "") for row in result.rows}


def test_all_of_it_comes_in_and_into_a_private_directory(empty: Cache, run: Run, carried: Path) -> None:
    result = run("import", str(carried))
    assert result.code == 0 and contents(empty) == ALL
    assert results(result) == {"Model.a": ("imported", ""), "Model.b": ("imported", "")}
    assert empty.directory.stat().st_mode & 0o777 == 0o700


def test_what_was_imported_is_exported_as_the_same_bytes(empty: Cache, run: Run, carried: Path, tmp_path: Path) -> None:
    run("import", str(carried))
    run("export", str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == carried.read_bytes()


def test_a_dry_run_says_the_same_and_changes_nothing(empty: Cache, run: Run, carried: Path) -> None:
    result = run("import", "--dry-run", str(carried))
    assert result.code == 0 and results(result) == dict.fromkeys(("Model.a", "Model.b"), ("would import", ""))
    assert not empty.directory.exists()


def test_json_says_the_same(empty: Cache, run: Run, carried: Path) -> None:
    empty.put(B, SHARED)
    result = run("import", "--json", str(carried))
    assert {one["name"]: (one["result"], one["reason"]) for one in result.json["graphs"]} == {
        "Model.a": ("imported", ""),
        "Model.b": ("skipped", "it is here already"),
    }
    assert result.json["kernels"] == {"count": 1, "bytes": len(OWN[1])} and result.json["dry_run"] is False


def test_a_second_import_stores_nothing(empty: Cache, run: Run, carried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("import", str(carried))
    monkeypatch.setattr("aot_cache.store.disk.DiskStore.put", lambda *_: pytest.fail("stored"))
    result = run("import", str(carried))
    assert result.code == 0
    assert set(results(result).values()) == {("skipped", "it is here already")}


FOREIGN = {
    "another torch": ("torch.torch", "2.12.0+cu130"),
    "another torch: ": ("torch.git", "0" * 40),
    "another CPU: only there: avx9": ("cpu.vector", here()["cpu.vector"] + " avx9"),
    "another CPU: x86-64-v9 is not known": ("cpu.level", "x86-64-v9"),
    "another Python": ("python", "cpython-39"),
    "another platform": ("machine", "Plan9 mips"),
    "another numpy": ("numpy", "0.1"),
}


@pytest.mark.parametrize("said", FOREIGN)
def test_what_could_not_hit_here_is_skipped_with_its_kernels_and_the_reason(
    empty: Cache, run: Run, file: Path, said: str
) -> None:
    name, value = FOREIGN[said]
    foreign = sample_graphs.graph("foreign", [OWN], environment={name: value})
    result = run("import", str(pack(file, foreign, B, SHARED, OWN)))
    assert result.code == 0 and contents(empty) == dict([B, SHARED])
    reason = results(result)["Model.foreign"]
    assert reason[0] == "skipped" and said in reason[1]
    assert value.split()[-1] in reason[1]


def test_where_there_is_no_torch_nothing_is_said_against_any(
    empty: Cache, run: Run, carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aot_cache.key.machine.torch_facts", dict)
    assert run("import", str(carried)).code == 0
    assert contents(empty) == ALL


def test_a_key_of_another_version_is_skipped(empty: Cache, run: Run, file: Path) -> None:
    result = run("import", str(pack(file, sample_graphs.graph("old", key="0" * 32))))
    assert results(result)["Model.old"] == ("skipped", "its key is of another version of aot_cache")
    assert not empty.directory.exists()


@pytest.mark.parametrize(("created", "taken"), [(1.6e9, False), (1.7e9, False), (1.8e9, True)])
def test_only_an_older_entry_is_replaced(empty: Cache, run: Run, file: Path, created: float, taken: bool) -> None:
    empty.put(A, SHARED, OWN)
    theirs = sample_graphs.graph("a", [SHARED], created=created, content=b"theirs")
    assert theirs[0] == A[0]
    result = run("import", str(pack(file, theirs, SHARED)))
    assert results(result)["Model.a"] == (("imported", "") if taken else ("skipped", "the one that is here is not older"))
    assert contents(empty)[A[0]] == (theirs if taken else A)[1]


def test_what_is_damaged_or_lost_here_is_replaced(empty: Cache, run: Run, carried: Path) -> None:
    empty.put((A[0], damaged(A[1])), B, (SHARED[0], damaged(SHARED[1])))
    assert run("import", str(carried)).code == 0
    assert contents(empty) == ALL
    assert run("verify").code == 0


def test_kernels_that_no_graph_needs_do_not_come_in(empty: Cache, run: Run, file: Path) -> None:
    run("import", str(pack(file, B, SHARED, OWN)))
    assert contents(empty) == dict([B, SHARED])


def test_kernels_come_before_the_graphs_that_need_them(
    empty: Cache, run: Run, carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr("aot_cache.store.disk.DiskStore.put", lambda store, name, data: order.append(name[0]))
    run("import", str(carried))
    assert order == ["k", "k", "g", "g"]


def bad(carried: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "cut": carried[:-1],
        "longer": carried + b"x",
        "header": carried[:40] + b"?" + carried[41:],
        "value": carried[:-9] + bytes([carried[-9] ^ 1]) + carried[-8:],
        "foreign": carried[:8] + b"\x63\0" + carried[10:],
        "entry": A[1],
    }


@pytest.mark.parametrize("kind", bad(b"x" * 99))
@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=str)
@pytest.mark.parametrize("there", [True, False])
def test_a_bad_archive_is_a_no_and_leaves_the_store_untouched(
    empty: Cache, run: Run, carried: Path, kind: str, options: tuple[str, ...], there: bool
) -> None:
    if there:
        empty.put(B, SHARED)
    before = snapshot(empty.directory)
    carried.write_bytes(bad(carried.read_bytes())[kind])
    result = run("import", *options, str(carried))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"aot-cache import: {carried}: ") and result.err.count("\n") == 1
    assert snapshot(empty.directory) == before


def test_a_bad_last_value_keeps_the_good_first_ones_out(empty: Cache, run: Run, file: Path) -> None:
    result = run("import", str(pack(file, A, B, OWN, (SHARED[0], damaged(SHARED[1])))))
    assert result.code == 1 and not empty.directory.exists()


def snapshot(directory: Path) -> dict[str, Any]:
    return {str(path): path.is_file() and path.read_bytes() for path in directory.rglob("*")}


def test_an_archive_beyond_the_size_limit_is_a_no(
    empty: Cache, run: Run, carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", str(sum(map(len, ALL.values()))))
    result = run("import", str(carried))
    assert result.code == 1 and "AOT_CACHE_SIZE_LIMIT" in result.err and not empty.directory.exists()


def test_a_file_that_cannot_be_read_is_usage(empty: Cache, run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        result = run("import", str(path))
        assert result.code == 2 and str(path) in result.err and not empty.directory.exists()


def test_where_the_mode_is_readonly_nothing_is_imported(
    empty: Cache, run: Run, carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOT_CACHE_MODE", "readonly")
    result = run("import", str(carried))
    assert result.code == 2 and "AOT_CACHE_MODE" in result.err and not empty.directory.exists()
    assert run("import", "--dry-run", str(carried)).code == 0


def test_stdin_is_an_archive_too(empty: Cache, carried: Path) -> None:
    for data, code in (carried.read_bytes(), 0), (carried.read_bytes()[:-1], 1):
        done = subprocess.run(
            [sys.executable, "-m", "aot_cache", "import", "-"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            input=data,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == code
    assert contents(empty) == ALL


def test_a_stream_without_end_is_not_copied_for_ever(
    empty: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"\0" * size

    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", "1MB")
    monkeypatch.setattr("aot_cache.cli.import_._OVERHEAD", 2**20)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Endless()}))
    result = run("import", "-")
    assert result.code == 1 and "AOT_CACHE_SIZE_LIMIT" in result.err and not empty.directory.exists()


def test_an_entry_for_a_cpu_level_is_taken_where_the_cpu_has_it_whatever_else_it_has(
    empty: Cache, run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    wide = machine.LEVELS["x86-64-v3"] | {"avx512f"}
    monkeypatch.setattr(machine, "cpu_flags", lambda: wide)
    common = sample_graphs.graph("common", [OWN], environment={"cpu.level": "x86-64-v3"})
    packed = str(pack(file, common, OWN))
    monkeypatch.setattr(machine, "cpu_flags", lambda: machine.LEVELS["x86-64-v2"])
    ((result, reason),) = results(run("import", packed)).values()
    assert result == "skipped" and reason.startswith("another CPU: for x86-64-v3, this one lacks abm avx avx2")
    monkeypatch.setattr(machine, "cpu_flags", lambda: wide)
    assert results(run("import", packed)) == {"Model.common": ("imported", "")}
