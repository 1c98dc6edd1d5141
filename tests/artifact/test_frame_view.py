"""What a stored frame says of itself without torch."""

from __future__ import annotations

import dataclasses

import pytest
import sample_graphs

from aot_cache.artifact import archive, frame_view
from aot_cache.artifact.envelope import Envelope, pack
from aot_cache.errors import EnvelopeError

GRAPH = sample_graphs.graph("g")
NAME, DATA = sample_graphs.frame("f", [GRAPH])


def test_a_view_comes_back_as_it_was_written() -> None:
    found = frame_view.read(Envelope(DATA))
    assert found.guards == sample_graphs.GUARDS and found.code == ("model.Block.forward", "numpy (numpy 2)")


@pytest.mark.parametrize("section", [b"[]", b"{}", b"no json", b'{"guards": [1], "unguarded": [], "code": []}'])
def test_what_is_no_view_is_said_to_be_none(section: bytes) -> None:
    with pytest.raises(EnvelopeError, match="view"):
        frame_view.read(Envelope(pack(Envelope(DATA).manifest, {frame_view.SECTION: section})))


@pytest.mark.parametrize("listed", [None, "g-1", [1], [""]])
def test_a_frame_must_list_its_graphs(listed: object) -> None:
    made = dataclasses.replace(Envelope(DATA).manifest, extra={"graphs": listed})
    with pytest.raises(EnvelopeError, match="graphs"):
        frame_view.graphs(made)


def test_code_is_named_once_by_module_and_name_or_by_distribution() -> None:
    places = [["code", "m", "f", "1"], ["code", "m", "f", "2"], ["distribution", "np.x", "numpy 2"], ["absent", "m", ["a"]]]
    assert frame_view.code_of(places) == ("m.f", "np.x (numpy 2)")


def test_a_carried_frame_says_which_graphs_it_needs() -> None:
    assert archive.entry(NAME, DATA).graphs == {GRAPH[0]}


def test_a_frame_under_another_name_is_no_entry() -> None:
    with pytest.raises(EnvelopeError, match="holds the entry"):
        archive.entry(NAME[:-1] + ("0" if NAME[-1] != "0" else "1"), DATA)


@pytest.mark.parametrize("graph", ["k-" + "0" * 32, "../g", "g-1"])
def test_a_frame_that_names_what_is_no_graph_is_refused(graph: str) -> None:
    name, data = sample_graphs.frame("f", extra={"graphs": [graph]})
    with pytest.raises(EnvelopeError, match="list its graphs"):
        archive.entry(name, data)
