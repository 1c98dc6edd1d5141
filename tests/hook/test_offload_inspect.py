"""What `aot-cache inspect --schedule` shows of an entry that the hook stored is the plan that was carried out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import FreshProcess

from aot_cache.offloading.schedule import parse

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    return FreshProcess(tmp_path_factory.mktemp("inspect"))


def test_the_plan_of_a_stored_graph_is_shown_and_drawn(fresh: FreshProcess) -> None:
    paths = {"PYTHONPATH": ":".join(map(str, (HERE.parent.parent, HERE)))}
    found = fresh(HERE / "offload_changes.py", "policy first", env=paths, timeout=600)

    def inspect(*arguments: str) -> str:
        argv = [sys.executable, "-m", "aot_cache", "inspect", *arguments]
        done = subprocess.run(argv, env=fresh.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (graph,) = json.loads(inspect("--json"))["graphs"]
    drawing = fresh.home / "plan.svg"
    shown = inspect(graph["key"], "--schedule", "--svg", str(drawing))
    assert [row.storage for row in parse(shown).rows] == found["changes"]["policy first"]["rows"] == ["mm"]
    (told,) = json.loads(inspect(graph["key"], "--schedule", "--json"))["schedules"]
    assert parse(told["record"]) == parse(shown)
    assert "<title>mm:" in drawing.read_text()
