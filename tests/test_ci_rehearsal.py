"""The CI recipe, rehearsed: with machines that only pretend, and once in earnest."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, TOOLS

import ci_rehearsal  # isort: skip
import child  # isort: skip

# Reports to `warm` as the hook does, and prints what the real step would; LIE spoils it on the second machine.
STEP = """
import json, os, pathlib, time
import sample_graphs
from aot_cache.hook import report
from aot_cache.outcome import LEDGER, Hit, Miss, Reason
from aot_cache.store.disk import DiskStore
cache = pathlib.Path(os.environ["AOT_CACHE_DIR"])
store = DiskStore(cache, 10**9)
kernel = sample_graphs.kernel(b"kernel")
names = [entry.name for entry in store.entries("g-")]
report.attach(LEDGER)
if names:
    LEDGER.add(Hit("graph", names[0].partition(".")[0], 0.1, 5.0))
else:
    graph = sample_graphs.graph("graph", [kernel])
    store.put(*kernel)
    store.put(*graph)
    LEDGER.add(Miss("graph", graph[0].partition(".")[0], 0.1, Reason.ABSENT))
found = {"losses": [(1.5).hex()], "seconds": 1.0 if names else 10.0, "stats": LEDGER.stats(), "reasons": [],
         "processes": [] if names else ["c++"], "written": [] if names else ["kernel.so"]}
lie = LIE
if lie == "left" and names:
    pathlib.Path(os.environ["TMPDIR"], "left").touch()
elif lie == "misses" and names:
    LEDGER.add(Miss("graph", "g-other", 0.1, Reason.ABSENT))
    found["stats"] = LEDGER.stats()
elif lie == "a compiler" and names:
    import shutil
    assert shutil.which("cc") or shutil.which("c++") or shutil.which("g++") or shutil.which("gcc"), "none, as it should be"
elif lie == "no compile" and not names:
    found["processes"] = []
elif isinstance(lie, dict) and names:
    found.update(lie)
print(json.dumps(found))
"""
LIES: list[Any] = ["left", "misses", "no compile", {"losses": [(1.25).hex()]}, {"processes": ["c++"]}]
LIES += [{"written": ["/etc/passwd"]}]


def rehearse(tmp_path: Path, lie: Any = None) -> int:
    step = tmp_path / "step.py"
    step.write_text(STEP.replace("LIE", repr(lie)))
    return ci_rehearsal.rehearse([sys.executable, str(step)], tmp_path / "home", PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")


def test_it_is_content_with_a_second_machine_that_starts_warm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearse(tmp_path) == 0
    out = capsys.readouterr().out
    assert "10.0x" in out and "all bit-equal" in out and "NOT" not in out


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_it_fails_when_the_second_machine_did_more_than_start_warm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lie: Any
) -> None:
    assert rehearse(tmp_path, lie) == 1
    assert "NOT AS IT SHOULD BE" in capsys.readouterr().out


def test_there_is_no_compiler_on_the_second_machine(tmp_path: Path) -> None:
    with pytest.raises(child.ChildFailed, match="none, as it should be"):
        rehearse(tmp_path, "a compiler")


def test_the_machines_share_nothing_but_the_archive(tmp_path: Path) -> None:
    rehearse(tmp_path)
    stores = [tmp_path / "home" / name / "aot_cache" / "cache.db" for name in ("first", "second")]
    assert all(store.exists() for store in stores)
    assert [path.name for path in (tmp_path / "home" / "carried").iterdir()] == ["aot-cache.archive"]


@pytest.mark.slow
def test_in_earnest_the_second_machine_compiles_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # `import torch` has to find the entry point, as where the package is installed.
    info = tmp_path / "site" / "aot_cache-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aot_cache\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\naot_cache = aot_cache:_autoload\n")
    step = [sys.executable, str(TOOLS / "ci_rehearsal.py"), "--child"]
    code = ci_rehearsal.rehearse(step, tmp_path / "home", PYTHONPATH=f"{info.parent}:{ROOT}")
    assert code == 0, capsys.readouterr().out


def test_the_workflow_runs_the_commands_that_are_rehearsed() -> None:
    text = (TOOLS / "ci_workflow.yml").read_text()
    commands = re.findall(r"aot-cache (warm|export|import)\b([^\n]*)", text)
    said = [f"{verb}{rest}" for verb, rest in commands]
    assert any(one.startswith("warm -- ") for one in said)
    assert any(one.startswith("warm --max-misses 0 -- ") for one in said)
    assert any(one.startswith("export --last-run ") for one in said)
    assert any(one.startswith("import ") for one in said)
