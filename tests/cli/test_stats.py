"""stats: totals, by kind and by torch."""

from __future__ import annotations

from .conftest import Run
from .sample import KEYS, Cache, entry


def test_totals_by_kind_and_torch_agree_with_the_store(cache: Cache, run: Run) -> None:
    store = cache.store()
    store.get(entry(KEYS[0])[0])
    store.get(entry(KEYS[2], kind="inference", torch="2.12.0+cpu")[0])
    sizes = {found.name: found.size for found in store.entries()}
    totals = run("stats", "--json").json
    assert totals["directory"] == str(cache.directory)
    assert (totals["entries"], totals["bytes"]) == (4, sum(sizes.values()))
    assert totals["graphs"]["count"] == 3 and totals["kernels"] == {"count": 1, "bytes": 304}
    assert totals["graphs"]["hits"] == 2 and totals["graphs"]["saved"] == 10.0
    assert {kind: total["count"] for kind, total in totals["kind"].items()} == {"inference": 1, "training": 2}
    assert {torch: total["saved"] for torch, total in totals["torch"].items()} == {"2.12.0+cpu": 5.0, "2.13.0+cpu": 5.0}
    assert totals["oldest"] == totals["newest"] == 1_700_000_000.0


def test_the_rows_are_the_same_totals_flat(cache: Cache, run: Run) -> None:
    facts = run("stats").facts
    assert facts["graphs.count"] == "3" and facts["kind.training.count"] == "2" and facts["limit"] == "10000000000"
    assert facts["newest"] == "2023-11-14T22:13:20Z"


def test_a_person_reads_a_table_with_every_total_once(cache: Cache, run: Run, terminal: None) -> None:
    lines = [line.split() for line in run("stats").out.splitlines()]
    assert "10.0 GB, 4 entries" in run("stats").out
    assert ["count", "size", "hits", "time", "saved"] in lines
    rows = {line[0]: line[1] for line in lines if line and line[0] != "torch"}
    assert {name: rows[name] for name in ("graphs", "training", "inference", "frames", "kernels")} == {
        "graphs": "3", "training": "2", "inference": "1", "frames": "0", "kernels": "1",
    }  # fmt: skip
    assert [line[1:3] for line in lines if line[:1] == ["torch"]] == [["2.12.0+cpu", "1"], ["2.13.0+cpu", "2"]]


def test_one_kind_and_one_torch_are_not_said_again(empty: Cache, run: Run, terminal: None) -> None:
    empty.put(entry(KEYS[0]))
    out = run("stats").out
    assert "training" not in out and out.count("2.13.0+cpu") == 1 and "1 entry" in out


def test_a_damaged_entry_is_counted_as_such_and_in_no_kind(cache: Cache, run: Run) -> None:
    name, data = entry(KEYS[0])
    cache.put((name, b"?" + data[1:]))
    totals = run("stats", "--json").json
    assert totals["damaged"] == 1 and totals["kind"]["training"]["count"] == 1
