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
IMPORT = "import torch._dynamo"
PLAIN_IMPORT = f"{IMPORT}, without the cache"
# In both, what is measured comes after `import torch` and before a model's library.
PLAIN = """
import json, time, torch
started = time.perf_counter()
import torch._dynamo
print(json.dumps(time.perf_counter() - started))
"""
REST = ("kernels and graphs", "an eager step")
"""What no cache can avoid besides the import."""


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
                plain = child.run_json([sys.executable, "-c", PLAIN], f"{label}, import", _without_cache(top))
                found.append(result["phases"] | {PLAIN_IMPORT: plain})
        return found


def _without_cache(top: Path) -> dict[str, str]:
    return child.environment(top, AOT_CACHE="0")


def _text(model: str, found: list[dict[str, float]]) -> str:
    rows = [[name, report.spread([phases[name] for phases in found])] for name in found[0]]
    for import_ in (PLAIN_IMPORT, IMPORT):
        names = (import_, *REST)
        needed = [sum(phases[name] for name in names) for phases in found]
        ratio = statistics.median(phases["all"] / least for phases, least in zip(found, needed))
        rows += [[f"needed ({'; '.join(names)})", report.spread(needed)], ["all / needed", f"{ratio:.2f}"]]
    return report.table([model, "seconds, median (min-max, n)"], rows)
