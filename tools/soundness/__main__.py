"""No false hit, no spurious miss, no silent bypass: `python3 tools/soundness [--frames] [--only NAME] [--json] [--keep]`.

Runs every change of the table in fresh processes on one cache directory, against runs without any cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent))

import changes  # noqa: E402
import child  # noqa: E402
import env  # noqa: E402
import runs  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="soundness", description="Try changes that a cache must see or must not mind."
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="changes whose name contains NAME; may be repeated"
    )
    parser.add_argument("--frames", action="store_true", help="keep whole frames as well (AOT_CACHE_FRAMES=1)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory and print its path")
    parser.add_argument("--torch", action="store_true", help="tell instead after which changes torch's caches go wrong")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    arguments = parser.parse_args()
    table = [c for c in changes.TABLE if not arguments.only or any(only in c.name for only in arguments.only)]
    if not table:
        parser.error(f"no change is called so; there are {', '.join(c.name for c in changes.TABLE)}")
    if arguments.list:
        print("\n".join(f"{c.expect.value:<10} {c.name:<44} {c.row}" for c in table))
        return 0
    env.enter("test")
    started, took = time.monotonic(), dict[str, float]()
    try:
        with child.directory("aot_cache-soundness-", arguments.keep) as home:
            if arguments.torch:
                return report_torch(runs.stale(table, home))
            verdicts = runs.run(table, home, frames=arguments.frames, took=took)
    except child.ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    code = report(verdicts, arguments.json)
    if arguments.frames and not arguments.json:
        print(frames_line(verdicts))
    child.say(f"{time.monotonic() - started:.0f} s; {stages_line(took)}")
    return code


def report_torch(stale: dict[str, bool]) -> int:
    for name in sorted(name for name, wrong in stale.items() if wrong):
        print(f"wrong values  {name}")
    print(f"torch's own caches: wrong values after {sum(stale.values())} of {len(stale)} changes")
    return 0


def report(verdicts: list[runs.Verdict], as_json: bool) -> int:
    wrong = [v for v in verdicts if v.problems]
    counts = {
        "sound": sum(not v.unsound for v in verdicts),
        "changes": len(verdicts),
        "spurious misses": sum(v.spurious for v in verdicts),
        "silent bypasses": sum(v.silent for v in verdicts),
        "other trouble": sum(not (v.unsound or v.spurious or v.silent) for v in wrong),
    }
    if as_json:
        rows = [dataclasses.asdict(v) | {"change": v.change.name, "expect": v.change.expect.value} for v in verdicts]
        print(json.dumps({**counts, "verdicts": rows}, indent=1))
        return 1 if wrong else 0
    for verdict in verdicts:
        mark = "WRONG" if verdict.problems else "ok"
        print(f"{mark:<6}{verdict.change.expect.value:<11}{verdict.change.name}")
        for problem in verdict.problems:
            print("      " + problem.rstrip().replace("\n", "\n      "))
    print(f"sound {counts['sound']}/{counts['changes']}, spurious misses {counts['spurious misses']}, ", end="")
    print(f"silent bypasses {counts['silent bypasses']}, other trouble {counts['other trouble']}")
    return 1 if wrong else 0


def stages_line(took: dict[str, float]) -> str:
    return "seconds of processes, two at a time: " + ", ".join(f"{stage} {took[stage]:.0f}" for stage in took)


def frames_line(verdicts: list[runs.Verdict]) -> str:
    """How many of the programs' second processes found their frames, and why others have none."""
    again = [v.seen["again"] for v in verdicts if "again" in v.seen]
    hits = sum({kind for kind, _, _ in seen["frames"]} == {"Hit"} for seen in again)
    reasons = Counter(reason for seen in again for kind, reason, _ in seen["frames"] if kind == "Bypass")
    why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return f"frames: {hits}/{len(again)} unchanged programs had nothing but hits; bypasses: {why or 'none'}"


if __name__ == "__main__":
    sys.exit(main())
