"""Executes the picture of the house: once on the package, and once on a bad package for each rule."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import layers
import pytest
from support import ROOT, FreshProcess

PACKAGE = ROOT / "aot_cache"
RULES = [
    layers.imports_up,
    layers.out_of_reach,
    layers.past_the_door,
    layers.foreign,
    layers.private_torch,
    layers.impure,
    layers.cycles,
]
Rule = Callable[[dict[str, layers.Module]], list[str]]


def package(tmp_path: Path, files: dict[str, str]) -> dict[str, layers.Module]:
    root = tmp_path / "aot_cache"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for room in path.relative_to(root).parents:
            (root / room / "__init__.py").touch()
    return layers.read(root)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    found = rule(layers.read(PACKAGE))
    assert not found, "\n".join(found)


BAD = [
    (layers.imports_up, {"key/a.py": "from ..artifact.b import c", "artifact/b.py": ""}, "key.a imports artifact.b"),
    (layers.imports_up, {"key/a.py": "from .. import store", "store/b.py": ""}, "key.a imports store"),
    (layers.imports_up, {"store/a.py": "import aot_cache.key.b", "key/b.py": ""}, "store.a imports key.b"),
    (layers.imports_up, {"hook/a.py": "def f():\n  from ..cli import b", "cli/b.py": ""}, "hook.a imports cli.b"),
    (layers.imports_up, {"hook/a.py": "from .. import stats"}, "hook.a imports __init__"),
    (layers.imports_up, {"errors.py": "from .offloading.b import c", "offloading/b.py": ""}, "errors imports offloading.b"),
    (layers.imports_up, {"helpers.py": ""}, "helpers: helpers is not in the picture"),
    (
        layers.out_of_reach,
        {"cli/a.py": "from ..store import b", "store/b.py": "import aot_cache.hook.c", "hook/c.py": ""},
        "cli.a reaches hook.c",
    ),
    (
        layers.out_of_reach,
        {"cli/a.py": "from ..key.b import x", "key/b.py": "", "key/__init__.py": "from ..offloading import passes"}
        | {"offloading/passes.py": ""},
        "cli.a reaches offloading.passes",
    ),
    (
        layers.past_the_door,
        {"pytest_plugin.py": "from .outcome import LEDGER", "outcome.py": ""},
        "pytest_plugin imports outcome",
    ),
    (layers.foreign, {"store/tiered.py": "import diskcache"}, "store.tiered uses diskcache"),
    (layers.foreign, {"store/disk.py": "from filelock import FileLock"}, "store.disk uses filelock.FileLock"),
    (layers.foreign, {"key/a.py": "def f():\n  import pickle"}, "key.a uses pickle"),
    (layers.private_torch, {"hook/a.py": "import torch._dynamo"}, "hook.a uses torch._dynamo"),
    (layers.private_torch, {"hook/a.py": "from torch.fx._x import y"}, "hook.a uses torch.fx._x.y"),
    (layers.private_torch, {"hook/a.py": "from torch.fx import _x"}, "hook.a uses torch.fx._x"),
    (layers.private_torch, {"key/a.py": "import torch\ntorch._C.f()"}, "key.a uses torch._C.f"),
    (layers.private_torch, {"key/a.py": "import torch.fx as fx\nfx.Graph._x"}, "key.a uses torch.fx.Graph._x"),
    (layers.private_torch, {"key/a.py": "sys.modules['torch._inductor.config']"}, "key.a uses torch._inductor.config"),
    (layers.impure, {"store/disk.py": "import torch"}, "store.disk reaches torch in store.disk"),
    (
        layers.impure,
        {"key/parts.py": "from .b import *", "key/b.py": "import torch"},
        "key.parts reaches torch in key.b",
    ),
    (layers.impure, {"key/parts.py": "", "key/__init__.py": "import torch.fx"}, "key.parts reaches torch in key"),
    (
        layers.cycles,
        {"key/a.py": "from . import b", "key/b.py": "from . import a"},
        "key.b imports itself by way of key.a",
    ),
]


@pytest.mark.parametrize(("rule", "files", "complaint"), BAD)
def test_a_breach_is_seen(tmp_path: Path, rule: Rule, files: dict[str, str], complaint: str) -> None:
    assert complaint in rule(package(tmp_path, files))


GOOD = {
    "store/disk.py": "import diskcache\nfrom .base import Entry\nfrom ..errors import StoreError",
    "store/base.py": "",
    "errors.py": "",
    "settings.py": "from .errors import SettingError",
    "artifact/codec.py": "import pickle, torch\nfrom ..key import parts\ntorch.ops.aten._softmax\n'see torch._x'",
    "artifact/native.py": "import torch\ntorch.__version__",
    "key/parts.py": "",
    "torch_compat/a.py": "import torch._dynamo\nfrom torch.fx import _x",
    "hook/install.py": "from ..torch_compat import a\nfrom ..store.disk import open",
    "cli/stats.py": "from ..store import disk",
    "pytest_plugin.py": "import aot_cache",
    "__init__.py": "def enable():\n  from .hook import install",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_package_that_keeps_the_rule_is_not_accused(tmp_path: Path, rule: Rule) -> None:
    assert rule(package(tmp_path, GOOD)) == []


def test_pure_modules_do_not_load_torch(fresh_process: FreshProcess) -> None:
    code = "import importlib, json, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "print(json.dumps('torch' in sys.modules))"
    names = [f"aot_cache.{name}" for name in layers.pure(layers.read(PACKAGE))]
    assert {"aot_cache.errors", "aot_cache.key.parts", "aot_cache.store.base"} <= set(names)
    assert fresh_process(code, *names) is False
    assert fresh_process(code, *names, "torch") is True


def test_files_and_functions_are_short() -> None:
    paths = [path for room in ("aot_cache", "tests", "tools") for path in (ROOT / room).rglob("*.py")]
    assert paths
    found = layers.too_long(paths)
    assert not found, "\n".join(found)


def test_a_long_file_and_a_long_function_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def f():\n" + "    1\n" * 38 + "\n" * 260)
    assert layers.too_long([path]) == []
    path.write_text("def f():\n" + "    1\n" * 39 + "\n" * 260)
    assert layers.too_long([path]) == [f"{path}: 300 lines", f"{path}: f has 40 lines"]


def test_the_top_level_holds_only_what_the_picture_lists() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.fail(f"needs a git checkout to know which files are the project's: {listed.stderr}")
    names = {name.partition("/")[0] for name in listed.stdout.split("\0") if name}
    assert {"aot_cache", "tests"} <= names
    assert layers.unlisted(names) == []


def test_a_stray_file_at_the_top_level_is_seen() -> None:
    assert layers.unlisted(["README.md", ".gitignore", "setup.py", "docs"]) == ["docs", "setup.py"]
