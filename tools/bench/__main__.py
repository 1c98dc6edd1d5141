"""Benchmarks: `python3 tools/bench NAME [options] [--json FILE]`. The first run makes .venv.

A benchmark is a file here, named in BENCHMARKS, with a docstring, `add_arguments(parser)` and `run(arguments)`, which
returns Markdown and the raw numbers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import child  # noqa: E402
import env  # noqa: E402
import report  # noqa: E402

BENCHMARKS = ("bare", "keys", "offload", "phases", "start")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/bench", description="Benchmarks; each prints a Markdown table.")
    verbs = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    modules = {name: importlib.import_module(name) for name in BENCHMARKS}
    for name, module in modules.items():
        verb = verbs.add_parser(name, help=module.__doc__, description=module.__doc__)
        verb.add_argument(
            "--json", type=Path, metavar="FILE", help="write all measurements and the machine's facts there"
        )
        module.add_arguments(verb)
    arguments = parser.parse_args()
    env.enter("demo")
    facts = report.machine()
    try:
        text, raw = modules[arguments.name].run(arguments)
    except child.ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    print("{cpu}, {cores} cores, torch {torch}, Python {python}, {date}".format(**facts), text, sep="\n\n")
    if arguments.json:
        record = {"benchmark": arguments.name, "machine": facts, "raw": raw}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
