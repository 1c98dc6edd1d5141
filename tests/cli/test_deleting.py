"""clear and prune: what goes, what is said, and that a dry run deletes nothing."""

from __future__ import annotations

import io
import sys
import time

import pytest

from aot_cache.store import quarantine

from .conftest import Run
from .sample import KEYS, Cache, entry


def _answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    stdin = io.StringIO(text)
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)


def _size(cache: Cache) -> int:
    return sum(found.size for found in cache.store().entries())


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None])
def test_clear_without_a_terminal_needs_yes_and_says_so(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, terminal: None, stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    result = run("clear")
    assert result.code == 2 and "--yes" in result.err and "--dry-run" in result.err
    assert len(cache.names()) == 4


def test_clear_yes_deletes_everything_and_prints_count_and_bytes(cache: Cache, run: Run) -> None:
    size = _size(cache)
    result = run("clear", "--yes")
    assert (result.code, result.rows) == (0, [["deleted", "4", str(size)]])
    assert cache.names() == []


@pytest.mark.parametrize(
    "verb", [("clear",), ("clear", "--yes"), ("prune", "--size", "1"), ("prune", "--older-than", "0s")], ids=" ".join
)
def test_a_dry_run_says_what_would_go_and_deletes_nothing(cache: Cache, run: Run, verb: tuple[str, ...]) -> None:
    result = run(*verb, "--dry-run")
    assert (result.code, result.rows) == (0, [["would delete", "4", str(_size(cache))]])
    assert len(cache.names()) == 4


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y\n", 0, 0), ("YES\n", 0, 0), ("n\n", 1, 4), ("\n", 1, 4), ("", 1, 4)]
)
def test_clear_asks_on_a_terminal(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int
) -> None:
    _answer(monkeypatch, answer)
    result = run("clear")
    assert result.code == code and len(cache.names()) == left
    assert "Delete 4 entries" in result.err and str(cache.directory) in result.err and "Delete" not in result.out


@pytest.mark.parametrize("verb", [("clear", "--yes"), ("prune", "--size", "1")])
def test_where_the_mode_is_readonly_nothing_is_deleted(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AOT_CACHE_MODE", "readonly")
    result = run(*verb)
    assert result.code == 2 and "AOT_CACHE_MODE='readonly'" in result.err
    assert run(*verb, "--dry-run").rows[0][1] == "4"
    assert len(cache.names()) == 4


def test_prune_within_the_limit_deletes_nothing(cache: Cache, run: Run) -> None:
    assert run("prune").rows == [["deleted", "0", "0"]]
    assert len(cache.names()) == 4


def test_prune_to_a_size_deletes_the_least_recently_used(cache: Cache, run: Run) -> None:
    store = cache.store()
    kept = entry(KEYS[1], "s0 > 4")
    store.get(kept[0])
    result = run("prune", "--size", str(len(kept[1])))
    assert result.code == 0 and result.rows[0][:2] == ["deleted", "3"]
    assert cache.names() == [kept[0]]


def test_prune_takes_the_limit_of_the_environment(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", "1")
    assert run("prune", "--dry-run").rows[0][1] == "4"


def test_prune_older_than_counts_from_the_last_use(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    assert run("prune", "--older-than", "1d").rows[0][1] == "0"
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86400)
    assert run("prune", "--older-than", "3d").rows[0][1] == "0"
    assert run("prune", "--older-than", "47h").rows[0][1] == "4"
    assert cache.names() == []


def test_prune_other_torch_leaves_this_torch_and_kernels(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aot_cache.cli.prune.metadata.version", lambda name: "2.13.0+cpu")
    before = cache.hits()
    assert run("prune", "--other-torch").rows[0][1] == "1"
    assert cache.hits() == {name: hits for name, hits in before.items() if KEYS[2] not in name}
    assert not any(KEYS[2] in name for name in cache.names()) and len(cache.names()) == 3


def test_other_torch_knows_a_distribution_without_the_local_part(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aot_cache.cli.prune.metadata.version", lambda name: "2.13.0")
    assert run("prune", "--other-torch", "--dry-run").rows[0][1] == "1"


@pytest.mark.parametrize(("option", "value"), [("--older-than", "soon"), ("--older-than", "3"), ("--size", "lots")])
def test_a_bad_value_is_usage_and_names_option_value_and_what_is_allowed(
    cache: Cache, run: Run, option: str, value: str
) -> None:
    result = run("prune", option, value)
    assert result.code == 2
    assert f"{option}={value!r}" in result.err and "must be" in result.err


def test_other_torch_goes_alone(cache: Cache, run: Run) -> None:
    assert run("prune", "--other-torch", "--size", "1").code == 2
    assert len(cache.names()) == 4


def test_other_torch_needs_an_installed_torch(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    result = run("prune", "--other-torch")
    assert result.code == 2 and "--other-torch" in result.err


def test_clear_takes_what_is_in_quarantine_too_and_does_not_count_it(cache: Cache, run: Run) -> None:
    size = _size(cache)
    path = quarantine.put(cache.directory, "g-bad", b"bad", {})
    assert "in quarantine: 2 files" in run("clear", "--dry-run").err and path.exists()
    result = run("clear", "--yes")
    assert result.rows == [["deleted", "4", str(size)]] and "in quarantine: 2 files" in result.err
    assert list(path.parent.iterdir()) == []
