"""verify: what is damaged is found, and removed only when asked."""

from __future__ import annotations

import pytest

from aot_cache.key.parts import digest

from .conftest import Run
from .sample import KEYS, Cache, damaged, entry


@pytest.fixture
def bad(cache: Cache) -> dict[str, str]:
    """Four kinds of damage beside the good entries: name and what is said of it."""
    section_name, section_data = entry(KEYS[0])
    other_name = entry("dd" + "3" * 30)[0]
    kernel = "k-" + digest(b"another")
    wanted = {
        section_name: (damaged(section_data), "digest does not agree"),
        other_name: (entry(KEYS[1])[1], "not that of its name"),
        kernel: (b"not that", "digest is not its name"),
        "g-odd": (section_data, "not that of a graph"),
    }
    cache.put(*((name, data) for name, (data, _) in wanted.items()))
    return {name: text for name, (_, text) in wanted.items()}


def test_a_sound_cache_is_a_yes(cache: Cache, run: Run) -> None:
    result = run("verify")
    assert (result.code, result.out) == (0, "")
    assert "4 entries" in result.err


def test_every_kind_of_damage_is_a_no_and_named(cache: Cache, run: Run, bad: dict[str, str]) -> None:
    result = run("verify")
    assert result.code == 1
    said = {row[0]: row[1] for row in result.rows}
    assert said.keys() == bad.keys() and all(text in said[name] for name, text in bad.items())
    assert bad.keys() <= set(cache.names())


def test_fix_removes_the_damaged_and_only_those(cache: Cache, run: Run, bad: dict[str, str]) -> None:
    before = set(cache.names())
    result = run("verify", "--fix")
    assert result.code == 0
    assert {row[0] for row in result.rows} >= bad.keys()
    assert set(cache.names()) == before - bad.keys()
    assert run("verify").code == 0


def test_a_dry_run_of_fix_removes_nothing_and_counts_what_would_go(cache: Cache, run: Run, bad: dict[str, str]) -> None:
    size = sum(found.size for found in cache.store().entries() if found.name in bad)
    result = run("verify", "--fix", "--dry-run")
    assert result.code == 1 and ["would delete", "4", str(size)] in result.rows
    assert bad.keys() <= set(cache.names())
    fixed = run("verify", "--fix")
    assert ["deleted", "4", str(size)] in fixed.rows


def test_json_has_the_same_problems(cache: Cache, run: Run, bad: dict[str, str]) -> None:
    result = run("verify", "--json")
    assert result.code == 1
    assert {one["name"] for one in result.json["problems"]} == bad.keys()
    assert not any(one["fixed"] for one in result.json["problems"])
    assert all(one["fixed"] for one in run("verify", "--fix", "--json").json["problems"])


def test_checking_counts_no_hits(cache: Cache, run: Run) -> None:
    before = cache.hits()
    run("verify")
    run("verify", "--fix")
    assert cache.hits() == before


def test_what_the_store_finds_is_reported_and_fixed_too(cache: Cache, run: Run) -> None:
    big = b"k" * 100_000
    cache.put((f"k-{digest(big)}", big))
    (file,) = cache.directory.rglob("*.val")
    file.unlink()
    result = run("verify")
    assert result.code == 1 and [row[0] for row in result.rows] == [f"k-{digest(big)}"]
    assert run("verify", "--fix").code == 0
    assert run("verify").code == 0


def test_an_index_that_is_not_one_is_found_and_fixed(cache: Cache, run: Run) -> None:
    (cache.directory / "cache.db").write_bytes(b"not a database" * 100)
    assert run("verify").code == 1
    assert run("verify", "--fix").code == 0
    assert run("verify").code == 0


def test_fix_where_the_mode_is_readonly_is_usage(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_MODE", "readonly")
    assert run("verify", "--fix").code == 2
    assert run("verify").code == 0
