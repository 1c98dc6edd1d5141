"""What every verb says of frames, and that they are carried and deleted with what they need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sample_graphs
from support import ROOT

from aot_cache.artifact.archive import Archive
from aot_cache.cli import last_run
from aot_cache.key.parts import CacheKey, KeyPart
from aot_cache.outcome import Miss, Reason, to_json
from aot_cache.store import runs

from .conftest import Run
from .sample import Cache, damaged

KERNEL = sample_graphs.kernel(b"kernel")
GRAPH = sample_graphs.graph("old", [KERNEL])
FRAME = sample_graphs.frame("old", [GRAPH])
KEY, GRAPH_KEY = (name.removeprefix("g-").partition(".")[0] for name in (FRAME[0], GRAPH[0]))
CHANGED = "guard `L['self'].config.n_layer`: 12 -> 6"


@pytest.fixture
def stored(empty: Cache, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A frame, its graph, and the graph's kernel."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")
    empty.put(GRAPH, KERNEL, FRAME)
    return empty


def titled(out: str, title: str) -> list[str]:
    return [line.partition("\t")[2] for line in out.splitlines() if line.partition("\t")[0] == title]


# -- inspect, stats, verify --------------------------------------------------------------------------------------------


def test_the_list_has_frames_with_how_many_guards_and_graphs_they_have(stored: Cache, run: Run) -> None:
    result = run("inspect")
    rows = {row[0]: row for row in result.rows}
    assert result.code == 0 and set(rows) == {KEY, GRAPH_KEY} and KEY.startswith("f-")
    assert (rows[KEY][3:5], rows[KEY][9:11]) == (["frame", "forward"], ["2", "1"])
    assert rows[GRAPH_KEY][9:11] == ["", ""] and "frames: 1 entry" in result.err
    listed = run("inspect", "--json").json
    assert [one["graphs"] for one in listed["frames"]] == [[GRAPH[0]]] and len(listed["graphs"]) == 1


def test_a_terminal_sees_the_columns_of_frames_only_with_frames(stored: Cache, run: Run, terminal: None) -> None:
    assert run("inspect").out.splitlines()[0].split()[-2:] == ["guards", "graphs"]
    stored.store().delete(FRAME[0])
    assert run("inspect").out.splitlines()[0].split()[-1] == "used"


@pytest.mark.parametrize("spelling", [KEY[2:12], KEY, KEY[:8].upper(), FRAME[0]])
def test_a_frame_shows_its_guards_its_code_and_the_keys_of_its_graphs(stored: Cache, run: Run, spelling: str) -> None:
    result = run("inspect", spelling)
    assert result.code == 0 and result.facts["kind"] == "frame" and result.facts["key"] == KEY
    assert titled(result.out, "guard")[0] == "L['self'].config.n_layer  EQUALS_MATCH  int 12"
    assert titled(result.out, "code") == ["model.Block.forward", "numpy (numpy 2)"]
    assert titled(result.out, "unguarded") == ["G['os'].sep  str '/'"]
    assert titled(result.out, "graph") == [GRAPH_KEY]
    (one,) = run("inspect", spelling, "--json").json["frames"]
    assert one["frame"]["guards"][1] == {"source": "G['K']", "kind": "CONSTANT_MATCH", "fingerprint": "int 2"}


def test_a_graph_that_is_gone_is_said(stored: Cache, run: Run) -> None:
    stored.store().delete(GRAPH[0])
    assert titled(run("inspect", KEY).out, "graph") == [f"{GRAPH_KEY} (gone)"]


def test_a_damaged_frame_is_a_no_for_inspect_and_verify(stored: Cache, run: Run) -> None:
    stored.put((FRAME[0], damaged(FRAME[1])))
    assert run("inspect", KEY).code == 1
    result = run("verify")
    assert result.code == 1 and [row[0] for row in result.rows] == [FRAME[0]]


def test_stats_counts_graphs_and_frames_apart(stored: Cache, run: Run) -> None:
    for name in (GRAPH[0], FRAME[0], FRAME[0]):
        stored.store().get(name)
    totals = run("stats", "--json").json
    assert {what: totals["graphs"][what] for what in ("count", "hits", "saved")} == {"count": 1, "hits": 1, "saved": 5.0}
    assert {what: totals["frames"][what] for what in ("count", "hits", "saved")} == {"count": 1, "hits": 2, "saved": 3.0}
    assert totals["kind"]["frame"]["count"] == 1


# -- explain -----------------------------------------------------------------------------------------------------------


def report(cache: Cache, reason: Reason, detail: str = "", parts: tuple[KeyPart, ...] = ()) -> str:
    key = f"f-{CacheKey(parts).digest}" if parts else KEY
    event = {"time": 1_800_000_000.0, **to_json(Miss("frame", key, 0.1, reason, detail)), "name": "forward"}
    event |= {"program": "train.py", "parts": [part.to_json() for part in parts]}
    runs.append(cache.directory, 1_800_000_000.0, 7, event)
    return key


def test_explain_says_which_guard_of_a_frame_saw_another_value(stored: Cache, run: Run) -> None:
    report(stored, Reason.CHANGED, CHANGED)
    result = run("explain")
    assert (result.facts["key"], result.facts["name"], result.facts["detail"]) == (KEY, "forward", CHANGED)


def test_explain_compares_a_frame_with_frames_only_and_names_its_code(stored: Cache, run: Run) -> None:
    other, _ = sample_graphs.frame("new"), report
    parts = sample_parts("new")
    missed = report(stored, Reason.ABSENT, parts=parts)
    assert other[0].startswith(missed)
    for result in (run("explain"), run("explain", missed[:10])):
        assert (result.facts["nearest"], result.facts["nearest.same"]) == (KEY, "name")
        assert titled(result.out, "differs") == ["code of `forward` changed"]
    assert run("explain", KEY, missed).out == "differs\tcode of `forward` changed\n"


def sample_parts(frame: str) -> tuple[KeyPart, ...]:
    from aot_cache.artifact.envelope import Envelope

    return Envelope(sample_graphs.frame(frame)[1]).manifest.parts


# -- warm --------------------------------------------------------------------------------------------------------------

STEP = f"""
from aot_cache.hook import report
from aot_cache.outcome import LEDGER, Bypass, Failed, Hit, Miss, Reason
report.attach(LEDGER)
frame, graph = {KEY!r}, 'g-' + {GRAPH_KEY!r}
"""
HIT = 'LEDGER.add(Hit("frame", frame, 0.1, 7.0))\n'
MISS = f'LEDGER.add(Miss("frame", frame, 0.1, Reason.CHANGED, {CHANGED!r}))\n'
BYPASS = 'LEDGER.add(Bypass("frame", None, 0.1, Reason.FRAME_GUARD, "a weak reference"))\n'
GRAPH_HIT = 'LEDGER.add(Hit("graph", graph, 0.1, 5.0))\n'
GRAPH_MISS = 'LEDGER.add(Miss("graph", "g-0", 0.1, Reason.ABSENT))\n'


def step(*what: str) -> list[str]:
    return ["--", sys.executable, "-c", STEP + "".join(what)]


def test_warm_counts_frames_apart_with_reasons(stored: Cache, run: Run) -> None:
    found = run("warm", "--json", *step(HIT, HIT, MISS, BYPASS, GRAPH_HIT)).json
    assert found["hit"]["count"] == 1 and found["bypassed"] == []
    frames = found["frames"]
    assert frames["hit"] == {"count": 2, "bytes": len(FRAME[1]), "seconds": 14.0}
    assert [(one["detail"], one["count"]) for one in frames["missed"]] == [(CHANGED, 1)]
    assert [one["detail"] for one in frames["bypassed"]] == ["a weak reference"]
    said = run("warm", *step(HIT, MISS, BYPASS)).err
    assert "frames" in said and CHANGED in said and "7.0 s of tracing saved" in said


def test_a_person_hears_nothing_of_frames_where_there_are_none(stored: Cache, run: Run) -> None:
    assert "frames" not in run("warm", *step(GRAPH_HIT)).err


@pytest.mark.parametrize(("what", "code"), [((HIT,), 0), ((MISS, GRAPH_HIT), 0), ((BYPASS,), 0), ((MISS, GRAPH_MISS), 1)])
def test_graphs_decide_whether_too_much_was_missed(stored: Cache, run: Run, what: tuple[str, ...], code: int) -> None:
    result = run("warm", "--max-misses", "0", *step(*what))
    assert result.code == code and ("1 graph (and 1 frame) missed" in result.err) == bool(code)


# -- export, import, prune ---------------------------------------------------------------------------------------------


def names(path: Path) -> set[str]:
    with path.open("rb") as file:
        return set(Archive(file, 10**9).rows)


def test_the_last_run_takes_the_graphs_of_frames_that_hit(stored: Cache, run: Run, tmp_path: Path) -> None:
    stored.put(sample_graphs.graph("unused"))
    run("warm", *step(HIT))
    last = last_run.read(stored.store())
    assert last is not None and last.used == {KEY, GRAPH[0]}
    result = run("export", "--last-run", str(tmp_path / "archive"))
    assert names(tmp_path / "archive") == {GRAPH[0], KERNEL[0], FRAME[0]}
    assert (result.facts["graphs"], result.facts["frames"], result.facts["kernels"]) == ("1", "1", "1")


@pytest.mark.parametrize("gone", [GRAPH[0], KERNEL[0]])
def test_a_frame_whose_graph_is_not_whole_is_left_out(stored: Cache, run: Run, tmp_path: Path, gone: str) -> None:
    stored.put(sample_graphs.graph("other"))
    stored.store().delete(gone)
    result = run("export", str(tmp_path / "archive"))
    assert FRAME[0] not in names(tmp_path / "archive") and f"left out {FRAME[0]}" in result.err


def test_an_archive_with_frames_comes_in_whole(stored: Cache, run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "archive")
    run("export", file)
    there = str(tmp_path / "there")
    result = run("import", file, "--dir", there)
    assert result.code == 0 and {row[0] for row in result.rows} == {KEY, GRAPH_KEY}
    assert "frames: 1 entry" in result.err and set(Cache(Path(there)).names()) == {GRAPH[0], KERNEL[0], FRAME[0]}
    again = run("import", file, "--dir", there, "--json").json
    assert [one["reason"] for one in again["frames"]] == ["it is here already"]


def test_a_frame_of_another_torch_is_skipped_with_its_graph(empty: Cache, run: Run, tmp_path: Path) -> None:
    other = {"torch.torch": "1.0"}
    graph = sample_graphs.graph("g", environment=other)
    empty.put(graph, sample_graphs.frame("f", [graph], environment=other))
    run("export", str(tmp_path / "archive"))
    result = run("import", str(tmp_path / "archive"), "--dir", str(tmp_path / "there"))
    assert [row[4] for row in result.rows] == ["skipped", "skipped"] and not (tmp_path / "there").exists()


def test_prune_other_torch_takes_frames_too(stored: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot_cache.cli.prune.metadata.version", lambda name: "9.9")
    assert run("prune", "--other-torch").rows[0][1] == "2" and stored.names() == [KERNEL[0]]
