"""Joint graphs in the store: counted, checked, pruned and shown when asked for, in no list and in no archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run
from .sample import KEYS, Cache, damaged, entry


def joint(torch: str = "2.13.0+cpu") -> tuple[str, bytes]:
    """Under the key of a graph that is in the cache, too, as the same graph outside of a block would be."""
    name, data = entry(KEYS[0], kind="joint", torch=torch)
    return name.replace("g-", "j-"), data


@pytest.fixture
def kept(cache: Cache) -> Cache:
    cache.put(joint())
    return cache


def test_lists_have_no_row_for_it_and_totals_count_it(kept: Cache, run: Run) -> None:
    result = run("inspect")
    assert (result.code, sorted(row[0] for row in result.rows)) == (0, KEYS)
    assert "joint graphs: 1 entry" in result.err
    size = len(joint()[1])
    assert run("inspect", "--json").json["joints"] == {"count": 1, "bytes": size}
    totals = run("stats", "--json").json
    assert totals["joints"] == {"count": 1, "bytes": size}
    assert (totals["entries"], totals["graphs"]["count"], totals["damaged"]) == (5, 3, 0)


def test_its_own_prefix_shows_it_and_the_key_alone_shows_the_graph(kept: Cache, run: Run) -> None:
    result = run("inspect", "j-" + KEYS[0][:8])
    assert (result.code, result.facts["kind"], result.facts["key"]) == (0, "joint", "j-" + KEYS[0])
    assert run("inspect", KEYS[0][:8]).facts["kind"] == "training"


def test_verify_finds_damage_in_it_and_fix_removes_it(kept: Cache, run: Run) -> None:
    assert run("verify").code == 0
    name, data = joint()
    kept.put((name, damaged(data)))
    result = run("verify")
    assert result.code == 1 and [row[0] for row in result.rows] == [name]
    assert run("verify", "--fix").code == 0
    assert name not in kept.names() and len(kept.names()) == 4


def test_prune_takes_one_of_another_torch(kept: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot_cache.cli.prune.metadata.version", lambda name: "2.13.0+cpu")
    kept.put(joint("2.12.0+cpu"))
    assert run("prune", "--other-torch").code == 0
    assert joint()[0] not in kept.names()


def test_archives_leave_it_out(kept: Cache, run: Run, tmp_path: Path) -> None:
    result = run("export", str(tmp_path / "archive"))
    assert (result.code, result.facts["graphs"]) == (0, "3")
    assert b"j-" + KEYS[0].encode() not in (tmp_path / "archive").read_bytes()
