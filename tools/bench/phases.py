"""phases: where the time of a start from stored frames goes, against what no cache can avoid."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import child
import report
import start

CHILD = Path(__file__).resolve().with_name("phases_child.py")
NEEDED = ("import torch._dynamo", "kernels and graphs", "an eager step")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", nargs="+", choices=start.MODELS, default=["gpt2", "llama"], help="default: gpt2 llama"
    )
    parser.add_argument("--rounds", type=start.positive, default=3, metavar="N", help="processes of each (default: 3)")


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement.

    Raises:
        child.ChildFailed: a process failed, or traced something.
    """
    raw = {model: _measure(model, arguments.rounds) for model in arguments.models}
    return "\n\n".join(_text(model, found) for model, found in raw.items()), raw


def _measure(model: str, rounds: int) -> list[dict[str, float]]:
    found = []
    with child.directory("aot_cache-bench-") as top:
        for number in range(1 + rounds):
            label = f"{model} frames, {number} of {rounds}" if number else f"{model} cold"
            env = child.environment(top, AOT_CACHE="1", AOT_CACHE_FRAMES="1")
            result = child.run_json([sys.executable, str(CHILD), model], label, env)
            if number:
                if not result["counts"]["frame_hit"] or result["counts"]["graphs"]:
                    raise child.ChildFailed(f"{label}: it was not warm: {result['counts']}")
                found.append(result["phases"])
        return found


def _text(model: str, found: list[dict[str, float]]) -> str:
    rows = [[name, report.spread([phases[name] for phases in found])] for name in found[0]]
    needed = [sum(phases[name] for name in NEEDED) for phases in found]
    rows.append(["needed (" + ", ".join(NEEDED) + ")", report.spread(needed)])
    ratio = statistics.median(phases["all"] / least for phases, least in zip(found, needed))
    rows.append(["all / needed", f"{ratio:.2f}"])
    return report.table([model, "seconds, median (min-max, n)"], rows)
