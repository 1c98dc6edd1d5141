"""The benchmark of keys, with a child that only pretends, and its child on a small graph."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support import TOOLS, FreshProcess

sys.path.append(str(TOOLS / "bench"))

import child  # noqa: E402
import keys  # noqa: E402

# Pretends to key a graph of FACTOR times the nodes asked for, and to hit from the second start on unless LIE.
FAKE = """
import json, os, pathlib, sys
home = pathlib.Path(os.environ["AOT_CACHE_DIR"])
if sys.argv[1].isdecimal():
    nodes = int(int(sys.argv[1]) * FACTOR)
    print(json.dumps({"nodes": nodes, "inputs": 10, "first": 0.002, "again": nodes * 1e-5,
                      "parts": {"graph": nodes * 5e-6, "inputs": 1e-4}}))
else:
    warm = home.exists() and not LIE
    home.mkdir(exist_ok=True)
    print(json.dumps({"seconds": 2.0, "keys": [0.02], "counts": {"graph_hit": int(warm), "graph_miss": int(not warm)}}))
"""


def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float = 1, lie: bool = False) -> Any:
    path = tmp_path / "fake.py"
    path.write_text(FAKE.replace("FACTOR", repr(factor)).replace("LIE", repr(lie)))
    monkeypatch.setattr(keys, "CHILD", path)
    return keys.run(argparse.Namespace(sizes=[100, 1000], rounds=2, no_model=False))


def test_each_size_and_the_warm_start_are_measured_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, raw = bench(tmp_path, monkeypatch)
    assert {name: len(results) for name, results in raw.items()} == {"100": 2, "1000": 2, "gpt2": 2}
    assert "| 1,000 | 10 | 2.00 (2.00-2.00, n=2) | 10.00 (10.00-10.00, n=2) | 10.00 (10.00-10.00, n=2) |" in text
    assert "| share of the key | 1.0% |" in text
    json.dumps(raw)


@pytest.mark.parametrize("lie", [{"factor": 2}, {"factor": 0.5}, {"lie": True}], ids=str)
def test_another_graph_or_a_cold_start_is_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: dict[str, Any]
) -> None:
    with pytest.raises(child.ChildFailed):
        bench(tmp_path, monkeypatch, **lie)


def test_the_child_keys_a_real_graph_and_compiles_nothing(fresh_process: FreshProcess) -> None:
    found = fresh_process(TOOLS / "bench" / "keys_child.py", "60")
    assert 50 <= found["nodes"] <= 70 and found["inputs"] == 11
    assert min(found["first"], found["again"], *found["parts"].values()) > 0
    assert list((fresh_process.home / "inductor").rglob("*.so")) == []
