"""Actions before and after an import; none runs while the interpreter holds the import lock that all threads share."""

from __future__ import annotations

import _imp
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support import FreshProcess

from aot_cache.torch_compat.late import AfterImport, BeforeImport

NAME = "imported_for_the_test_of_late"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / f"{NAME}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield NAME
    sys.modules.pop(NAME, None)
    assert sys.meta_path == before


def test_no_action_holds_the_import_lock_of_all_threads(module: str) -> None:
    # With it, an action that imports waits for ever for a thread that imports the same.
    held = []
    BeforeImport([module], lambda: held.append(_imp.lock_held()))
    AfterImport(module, lambda _: held.append(_imp.lock_held()))
    __import__(module)
    assert held == [False, False]


def test_one_acts_before_the_module_is_executed_and_one_after(module: str) -> None:
    seen: list[object] = []
    AfterImport(module, lambda loaded: seen.append(loaded.value))
    BeforeImport([module], lambda: seen.append(hasattr(sys.modules[module], "value")))
    __import__(module)
    assert seen == [False, 1]


def test_what_is_asked_for_right_before_the_execution_still_comes_after_it(module: str) -> None:
    seen: list[object] = []

    def ask() -> None:
        AfterImport(module, lambda loaded: seen.append(loaded.value))

    BeforeImport([module], ask)
    __import__(module)
    assert seen == [1]


def test_what_is_cancelled_between_the_search_and_the_execution_does_not_act(module: str) -> None:
    seen: list[str] = []
    action = BeforeImport([module], lambda: seen.append("acted"))
    spec = action.find_spec(module, None)
    action.cancel()
    assert spec is not None and spec.loader is not None
    loaded = ModuleType(module)
    spec.loader.exec_module(loaded)
    assert loaded.value == 1 and seen == []


def test_the_cache_turned_on_by_the_import_of_its_own_seam_is_on(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        "import json, torch, torch._functorch._aot_autograd.autograd_cache, aot_cache\n"
        "with torch.no_grad(): torch.compile(lambda a: a @ a)(torch.ones(2, 2))\n"
        "print(json.dumps(aot_cache.stats()))"
    )
    assert done["graph_miss"] == 1


def test_turning_it_off_imports_no_compiler(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        "import json, sys, torch, aot_cache\n"
        "aot_cache.enable(); aot_cache.disable()\n"
        "print(json.dumps('torch._dynamo' in sys.modules))"
    )
    assert done is False


def test_asking_whether_the_module_exists_is_no_import(module: str) -> None:
    seen: list[str] = []
    AfterImport(module, lambda _: seen.append("after"))
    BeforeImport([module], lambda: seen.append("before"))
    assert importlib.util.find_spec(module) is not None
    assert seen == []
    __import__(module)
    assert seen == ["before", "after"]


def test_an_import_that_fails_is_none(module: str, tmp_path: Path) -> None:
    seen: list[str] = []
    path = tmp_path / f"{module}.py"
    path.write_text("raise RuntimeError")
    AfterImport(module, lambda _: seen.append("after"))
    with pytest.raises(RuntimeError):
        __import__(module)
    path.write_text("value = 'longer than before'\n")
    __import__(module)
    assert seen == ["after"]
