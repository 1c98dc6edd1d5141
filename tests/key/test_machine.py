"""What is known of a machine without torch is what the key says with it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from aot_cache.key import machine
from aot_cache.settings import CPU_LEVELS
from aot_cache.torch_compat import cpu


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


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes this a machine whose CPU has these flags; afterwards nothing is compiled for a level any more."""
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    yield lambda *found: monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(found))
    cpu.use("")


def test_a_cpu_has_a_level_if_it_has_all_of_it(flags: Callable[..., None]) -> None:
    flags(*machine.LEVELS["x86-64-v3"], "avx512f", "amx_tile")
    assert machine.lacking("x86-64-v2") == machine.lacking("x86-64-v3") == []
    assert machine.lacking("x86-64-v4") == ["avx512bw", "avx512cd", "avx512dq", "avx512vl"]
    flags(*machine.LEVELS["x86-64-v3"] - {"fma"})
    assert machine.lacking("x86-64-v3") == ["fma"]


def test_a_machine_that_says_nothing_or_is_of_another_kind_has_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine.lacking("x86-64-v2") == ["all of it: the machine is aarch64"]
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "cpu_flags", lambda: None)
    assert machine.lacking("x86-64-v2") == sorted(machine.LEVELS["x86-64-v2"])


def test_a_level_stands_in_the_key_in_place_of_the_cpu(
    flags: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from aot_cache.key import state

    def digests() -> dict[str, str]:
        found = {}
        for level in ("", *CPU_LEVELS):
            cpu.use(level)
            found[level] = state.environment_part().digest
        return found

    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    flags(*machine.LEVELS["x86-64-v4"], "amx_tile")
    wide = digests()
    flags(*machine.LEVELS["x86-64-v3"])
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    monkeypatch.setattr(state.state, "cpu_capability", lambda: "AVX2")
    narrow = digests()
    assert len(set(wide.values())) == len(wide) == 4
    assert {level for level in wide if wide[level] == narrow[level]} == set(CPU_LEVELS)
