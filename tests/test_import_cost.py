from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ROOT, FreshProcess

# Each of these costs more than the cache may add to `import torch`.
HEAVY = ("torch._dynamo", "torch._inductor", "torch._functorch", "diskcache", "sqlite3", "filelock", "platformdirs")

ADDED = """
import json, sys
import torch
before = set(sys.modules)
import aot_cache
{call}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
AUTOLOADED = "import json, sys, torch; print(json.dumps(sorted(sys.modules)))"
# Else an installed aot_cache would be imported by `import torch` and not count as added.
ALONE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def heavy(modules: list[str]) -> set[str]:
    return {root for root in HEAVY for name in modules if name == root or name.startswith(root + ".")}


@pytest.mark.parametrize("call", ["", "aot_cache._autoload()"], ids=["import", "autoload"])
def test_the_package_adds_nothing_heavy_to_a_process_with_torch(fresh_process: FreshProcess, call: str) -> None:
    added = fresh_process(ADDED.format(call=call), env=ALONE)
    assert "aot_cache" in added
    assert heavy(added) == set()


def test_the_check_sees_a_heavy_import(fresh_process: FreshProcess) -> None:
    added = fresh_process(ADDED.format(call="import torch._dynamo, diskcache"), env=ALONE)
    assert {"torch._dynamo", "diskcache", "sqlite3"} <= heavy(added)


def test_import_torch_loads_the_package_by_its_entry_point(fresh_process: FreshProcess, tmp_path: Path) -> None:
    declared = re.search(r'^\[project\.entry-points\."torch\.backends"]\n(.+)$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert declared
    info = tmp_path / "site" / "aot_cache-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aot_cache\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\n" + declared[1].replace('"', "") + "\n")
    modules = fresh_process(AUTOLOADED, env={"PYTHONPATH": f"{info.parent}:{ROOT}"})
    assert "aot_cache" in modules
    assert heavy(modules) & {"torch._dynamo", "torch._inductor"} == set()
