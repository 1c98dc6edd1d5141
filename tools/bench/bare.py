"""bare: the first step on a machine that has only an archive (empty directories), torch's portable archive against ours.

The seconds of torch hold `torch.compiler.load_cache_artifacts`, ours `aot-cache import`; both then a training step, from
the call of torch.compile to the end of backward().
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import child
import report
import start

CHILD = Path(__file__).resolve().with_name("bare_child.py")
MODELS = start.MODELS


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
    rows = [
        [model, *(report.spread(found[way]) for way in ("torch", "ours")), _ratio(found)]
        for model, found in raw.items()
    ]
    return report.table(["bare machine", "torch's archive, seconds", "ours, seconds", "torch / ours"], rows), raw


def _ratio(found: dict[str, list[float]]) -> str:
    return f"{report.ratio(found['torch'], found['ours']):.1f}"


def _measure(model: str, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"torch": [], "ours": []}
    top = Path(tempfile.mkdtemp(prefix="aot_cache-bench-"))
    try:
        archives = {way: _make(model, way, top) for way in found}
        for round_ in range(rounds):
            for way in found if round_ % 2 == 0 else reversed(found):
                found[way].append(_start(model, way, archives[way], top, f"{model} {way}, {round_ + 1} of {rounds}"))
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return found


def _make(model: str, way: str, top: Path) -> Path:
    """Compile once, cold, and put what was compiled into an archive."""
    home, archive = top / f"cold-{way}", top / f"archive-{way}"
    env = child.environment(home, AOT_CACHE="1" if way == "ours" else "0")
    child.run_json(
        [sys.executable, str(CHILD), model, "save" if way == "torch" else "step", str(archive)],
        f"{model} {way}, cold",
        env,
    )
    if way == "ours":
        _cli(["export", str(archive)], env)
    return archive


def _start(model: str, way: str, archive: Path, top: Path, label: str) -> float:
    home = top / "bare"
    env = child.environment(home, AOT_CACHE="1" if way == "ours" else "0", PYTHONHASHSEED="random")
    try:
        importing = _cli(["import", str(archive)], env) if way == "ours" else 0.0
        verb = "load" if way == "torch" else "step"
        result = child.run_json([sys.executable, str(CHILD), model, verb, str(archive)], label, env)
    finally:
        shutil.rmtree(home)
    counts = result["counts"]
    hits = counts["torch_hit"] if way == "torch" else counts["graph_hit"] + counts["frame_hit"]
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
