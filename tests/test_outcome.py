"""Outcomes: what is counted, what is said, what is written down."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import Any

import pytest

from aot_cache.outcome import Bypass, Failed, Hit, Ledger, Miss, Outcome, Reason, Refused, to_json

NAMES = {"graph_hit", "graph_miss", "graph_bypass", "frame_hit", "frame_miss", "frame_bypass", "error"}
WITH_REASON = (Miss, Bypass, Refused, Failed)


def outcome(kind: type[Any], what: Any = "graph") -> Outcome:
    return Hit(what, "k", 0.5) if kind is Hit else kind(what, "k", 0.5, Reason.ABSENT)


def test_nothing_counts_nothing_but_has_every_name() -> None:
    assert Ledger().stats() == dict.fromkeys(NAMES, 0)


@pytest.mark.parametrize("what", ["graph", "frame"])
@pytest.mark.parametrize(
    ("kind", "counted"), [(Hit, "hit"), (Miss, "miss"), (Bypass, "bypass"), (Refused, "bypass"), (Failed, None)]
)
def test_each_outcome_counts_once_under_its_kind(what: str, kind: type[Any], counted: str | None) -> None:
    ledger = Ledger()
    ledger.add(outcome(kind, what))
    name = f"{what}_{counted}" if counted else "error"
    assert ledger.stats() == dict.fromkeys(NAMES, 0) | {name: 1}


def test_events_come_in_order_and_the_list_is_a_copy() -> None:
    ledger = Ledger()
    events = [outcome(kind) for kind in (Miss, Hit, Failed)]
    for event in events:
        ledger.add(event)
    assert ledger.events() == events
    ledger.events().clear()
    assert ledger.events() == events
    ledger.clear()
    assert ledger.events() == [] and not any(ledger.stats().values())


def test_no_event_of_several_threads_is_lost() -> None:
    ledger = Ledger()
    threads = [threading.Thread(target=lambda: [ledger.add(outcome(Hit)) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.stats()["graph_hit"] == 800


def test_no_two_reasons_read_the_same() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason)


@pytest.mark.parametrize("kind", WITH_REASON)
def test_the_text_says_what_why_and_what_to_do(kind: type[Any]) -> None:
    name = f"{kind.__name__.lower()} of a graph"
    assert str(kind("graph", None, 0.0, Reason.LOAD)) == f"{name}: {Reason.LOAD.value}"
    assert str(kind("graph", None, 0.0, Reason.LOAD, "d")) == f"{name}: {Reason.LOAD.value}: d"
    assert str(kind("graph", None, 0.0, Reason.LOAD, "d", "r")) == f"{name}: {Reason.LOAD.value}: d (r)"
    assert str(kind("graph", None, 0.0, Reason.LOAD, remedy="r")) == f"{name}: {Reason.LOAD.value} (r)"
    assert str(kind("frame", None, 0.0, Reason.LOAD)).startswith(f"{kind.__name__.lower()} of a frame: ")


@pytest.mark.parametrize("kind", [Hit, *WITH_REASON])
def test_every_outcome_is_written_down_with_the_same_names(kind: type[Any]) -> None:
    written = to_json(outcome(kind))
    assert list(written) == ["outcome", "kind", "key", "seconds", "reason", "detail", "remedy"]
    assert (written["outcome"], written["key"], written["seconds"]) == (kind.__name__.lower(), "k", 0.5)
    assert written["reason"] == (None if kind is Hit else Reason.ABSENT.value)
    assert json.loads(json.dumps(written)) == written


def test_what_is_written_down_has_detail_and_remedy() -> None:
    written = to_json(Bypass("frame", None, 0.0, Reason.BACKEND, "d", "r"))
    assert (written["kind"], written["key"], written["detail"], written["remedy"]) == ("frame", None, "d", "r")


@pytest.mark.parametrize("kind", [Hit, *WITH_REASON])
def test_an_outcome_cannot_change(kind: type[Any]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome(kind).key = "other"  # type: ignore[misc]


def test_outcomes_of_different_kinds_are_different() -> None:
    assert Miss("graph", "k", 0.5, Reason.ABSENT) != Bypass("graph", "k", 0.5, Reason.ABSENT)
