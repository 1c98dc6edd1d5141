"""User modules from source text, without files."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from aot_cache.key.callables import identity

Load = Callable[..., ModuleType]


@pytest.fixture
def load() -> Iterator[Load]:
    """load(source, name="mylib", file=...): a module that looks as if it had been imported from `file`."""
    before = dict(sys.modules)

    def make(source: str, name: str = "mylib", file: str = "/somewhere/mylib.py", **names: Any) -> ModuleType:
        module = ModuleType(name)
        vars(module).update(names, __file__=file, __package__=name.rpartition(".")[0])
        sys.modules[name] = module
        exec(compile(textwrap.dedent(source), file, "exec"), vars(module))
        return module

    yield make
    for name in sys.modules.keys() - before.keys():
        if vars(sys.modules[name]).get("__file__", "").startswith("/somewhere"):
            del sys.modules[name]


def digest(obj: object) -> str:
    return identity(obj).digest
