"""A wrapper placed in memory is read and compiled as torch does it, or not compiled at all if its bytecode is there."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from aot_cache.torch_compat import generated

SOURCE = "def call(args):\n    return args[0] / 2\n"


@pytest.fixture
def path() -> str:
    return generated.place(SOURCE)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The sources that Python compiled."""
    asked: list[str] = []
    real = compile

    def note(source: str, *args: Any, **kwargs: Any) -> CodeType:
        asked.append(source)
        return real(source, *args, **kwargs)

    monkeypatch.setattr(generated.builtins, "compile", note)
    yield asked


def run(path: str, source: str = SOURCE) -> Any:
    found: dict[str, Any] = {}
    exec(generated.compile_(source, path, "exec", dont_inherit=True), found)
    return found


def test_a_placed_wrapper_is_read_back_and_shown_in_tracebacks(path: str) -> None:
    with generated.open_(path) as file:
        assert file.read() == SOURCE
    assert linecache.getline(path, 2) == "    return args[0] / 2\n"


def test_any_other_file_is_opened_and_compiled_as_ever(tmp_path: Any, compiled: list[str]) -> None:
    (tmp_path / "code.py").write_text("x = 7")
    with generated.open_(tmp_path / "code.py") as file:
        assert run(str(tmp_path / "code.py"), file.read())["x"] == 7
    assert compiled == ["x = 7"]


def test_offered_bytecode_is_what_compiling_gives(path: str, compiled: list[str]) -> None:
    data = generated.bytecode([SOURCE])
    compiled.clear()
    with generated.offered(data):
        code = generated.compile_(SOURCE, path, "exec", dont_inherit=True)
    assert compiled == []
    # The path too, which is what tracebacks say.
    assert code == compile(SOURCE, path, "exec", dont_inherit=True) and code.co_filename == path


def test_it_is_offered_in_the_block_only(path: str, compiled: list[str]) -> None:
    data = generated.bytecode([SOURCE])
    with generated.offered(data):
        pass
    compiled.clear()
    assert run(path)["call"]([4]) == 2.0
    assert compiled == [SOURCE]


@pytest.mark.parametrize("spoil", ["other python", "optimized", "nothing"])
def test_bytecode_of_another_python_is_left_alone(
    path: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    data = generated.bytecode([SOURCE])
    if spoil == "other python":
        data = b"\0" + data[1:]
    elif spoil == "optimized":
        monkeypatch.setattr(generated, "_FORMAT", generated._FORMAT[:-1] + bytes((sys.flags.optimize + 1,)))
    else:
        data = b""
    compiled.clear()
    with generated.offered(data):
        assert run(path)["call"]([4]) == 2.0
    assert compiled == [SOURCE]


def test_bytecode_is_used_for_its_source_alone(path: str, compiled: list[str]) -> None:
    data = generated.bytecode([SOURCE])
    compiled.clear()
    with generated.offered(data):
        assert run(path, "def call(args):\n    return 5\n")["call"]([4]) == 5
    assert len(compiled) == 1
