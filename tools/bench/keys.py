"""keys: building the key of a graph, microseconds a node, and its share of a real model's warm start."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import child
import report

CHILD = Path(__file__).resolve().with_name("keys_child.py")
SIZES = (100, 1_000, 10_000)
MODEL = "gpt2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sizes = f"nodes of the graphs (default: {' '.join(map(str, SIZES))})"
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help=sizes)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="processes for each number (default: 3)")
    parser.add_argument("--no-model", action="store_true", help="leave out the real model, which takes a cold start")


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement.

    Raises:
        child.ChildFailed: a process failed, or did not do what it should.
    """
    with child.directory("aot_cache-bench-") as top:
        raw: dict[str, Any] = {str(nodes): _keys(top, nodes, arguments.rounds) for nodes in arguments.sizes}
        text = _keys_text(list(raw.values()))
        if not arguments.no_model:
            raw[MODEL] = _starts(top, arguments.rounds)
            text += "\n\n" + _starts_text(raw[MODEL])
        return text, raw


def _keys(top: Path, nodes: int, rounds: int) -> list[dict[str, Any]]:
    found = []
    for number in range(rounds):
        label = f"key of {nodes:,} nodes, {number + 1} of {rounds}"
        result = child.run_json([sys.executable, str(CHILD), str(nodes)], label, child.environment(top / "keys"))
        if not 0.8 * nodes - 10 <= result["nodes"] <= 1.2 * nodes + 10:
            raise child.ChildFailed(f"{label}: the graph has {result['nodes']} nodes")
        found.append(result)
    return found


def _starts(top: Path, rounds: int) -> list[dict[str, Any]]:
    """Warm starts of the model from its graph alone (a frame that hits needs no key of a graph), after a cold one."""
    found = []
    for number in range(1 + rounds):
        label = f"{MODEL} warm, {number} of {rounds}" if number else f"{MODEL} cold"
        env = child.environment(top / "start", AOT_CACHE_FRAMES="0")
        result = child.run_json([sys.executable, str(CHILD), MODEL], label, env)
        if result["counts"]["graph_hit" if number else "graph_miss"] != 1 or (number and len(result["keys"]) != 1):
            raise child.ChildFailed(f"{label}: not one graph with one key, see {result}")
        found.append(result)
    return found[1:]


def _keys_text(rows: list[list[dict[str, Any]]]) -> str:
    header = [
        "nodes",
        "inputs",
        "first key, ms",
        "again, ms",
        "again, us/node",
        "graph part, us/node",
        "inputs part, us/input",
    ]
    return report.table(header, [_keys_row(results) for results in rows])


def _keys_row(results: list[dict[str, Any]]) -> list[str]:
    nodes, inputs = results[0]["nodes"], results[0]["inputs"]
    columns = [[1e3 * r[name] for r in results] for name in ("first", "again")]
    columns += [[1e6 * r["again"] / nodes for r in results], [1e6 * r["parts"]["graph"] / nodes for r in results]]
    columns += [[1e6 * r["parts"]["inputs"] / inputs for r in results]]
    return [f"{nodes:,}", f"{inputs:,}", *map(report.spread, columns)]


def _starts_text(starts: list[dict[str, Any]]) -> str:
    share = statistics.median(sum(one["keys"]) / one["seconds"] for one in starts)
    rows = [
        ["warm start, s", report.spread([one["seconds"] for one in starts])],
        ["its key, ms", report.spread([1e3 * sum(one["keys"]) for one in starts])],
        ["share of the key", f"{share:.1%}"],
    ]
    return report.table([MODEL, "median (min-max, n)"], rows)
