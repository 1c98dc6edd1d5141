"""What is known of a machine without torch is what the key says with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from aot_cache.key import machine


def test_what_is_known_without_torch_is_what_the_key_says_with_it() -> None:
    from aot_cache.key.state import environment_part

    here = machine.here()
    assert {"torch.torch", "torch.git", "torch.cuda", "torch.hip", "python", "machine", "cpu.vector"} <= here.keys()
    summary = environment_part().summary
    assert here == {name: summary.get(name) for name in here}


def test_where_there_is_no_torch_nothing_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert machine.torch_facts() == {}
    assert "python" in machine.here()


@pytest.mark.parametrize("text", [None, "what = (", "version = 7\ncuda: str = other()\n"])
def test_a_torch_that_says_nothing_readable_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "version.py").write_text(text)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    assert machine.torch_facts() == {}
