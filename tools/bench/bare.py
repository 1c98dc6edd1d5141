"""bare: the first step on a machine that has only an archive (empty directories), torch's portable archive against ours.

The seconds of torch hold `torch.compiler.load_cache_artifacts`, ours `aot-cache import`; both then a training step, from
the call of torch.compile to the end of backward(). With graphs alone Dynamo still traces.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import child
import report
import start

CHILD = Path(__file__).resolve().with_name("bare_child.py")
MODELS = start.MODELS
TORCH, OURS, GRAPHS = "torch's archive", "ours", "ours, graphs alone"
WAYS = {TORCH: "torch", OURS: "ours", GRAPHS: "graphs"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--rounds", type=start.positive, default=3, metavar="N", help="processes of each (default: 3)")


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement.

    Raises:
        child.ChildFailed: a process failed, or was not what it is measured as.
    """
    raw: dict[str, Any] = {}
    for model in arguments.models:
        raw[model] = _measure(model, arguments.rounds)
    rows = [[model, *_row(found)] for model, found in raw.items()]
    header = ["bare machine", *(f"{way}, seconds" for way in WAYS), "torch / ours", "torch / graphs alone"]
    return report.table(header, rows), raw


def _row(found: dict[str, list[float]]) -> list[str]:
    ratios = (report.ratio(found[TORCH], found[ours]) for ours in (OURS, GRAPHS))
    return [*(report.spread(found[way]) for way in WAYS), *(f"{ratio:.1f}" for ratio in ratios)]


def _measure(model: str, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with child.directory("aot_cache-bench-") as top:
        torchs, ours = _make(model, TORCH, top), _make(model, OURS, top)
        for round_ in range(rounds):
            for way in WAYS if round_ % 2 == 0 else reversed(WAYS):
                label = f"{model}, {way}, {round_ + 1} of {rounds}"
                found[way].append(_start(model, way, torchs if way == TORCH else ours, top, label))
    return found


def _make(model: str, way: str, top: Path) -> Path:
    """Compile once, cold, and put what was compiled into an archive."""
    name = WAYS[way]
    home, archive = top / f"cold-{name}", top / f"archive-{name}"
    env = child.environment(home, AOT_CACHE="0" if way == TORCH else "1")
    verb = "save" if way == TORCH else "step"
    child.run_json([sys.executable, str(CHILD), model, verb, str(archive)], f"{model}, {way}, cold", env)
    if way == OURS:
        _cli(["export", str(archive)], env)
    return archive


def _start(model: str, way: str, archive: Path, top: Path, label: str) -> float:
    home = top / "bare"
    switches = {"AOT_CACHE": "0" if way == TORCH else "1", "AOT_CACHE_FRAMES": "0" if way == GRAPHS else "1"}
    env = child.environment(home, PYTHONHASHSEED="random", **switches)
    try:
        importing = 0.0 if way == TORCH else _cli(["import", str(archive)], env)
        verb = "load" if way == TORCH else "step"
        result = child.run_json([sys.executable, str(CHILD), model, verb, str(archive)], label, env)
    finally:
        shutil.rmtree(home)
    counts = result["counts"]
    hits = counts[{TORCH: "torch_hit", OURS: "frame_hit", GRAPHS: "graph_hit"}[way]]
    misses = counts["torch_miss"] + counts["graph_miss"] + counts["graph_bypass"] + counts["error"]
    if not hits or misses:
        raise child.ChildFailed(f"{label}: it was not warm: {counts}")
    return importing + result["seconds"]


def _cli(arguments: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    finished = child.run([sys.executable, "-m", "aot_cache", *arguments], f"aot-cache {arguments[0]}", env)
    if finished.code != 0:
        raise child.ChildFailed(f"aot-cache {arguments[0]}: exit code {finished.code}\n{finished.tail()}")
    return time.perf_counter() - started
