"""Rehearse the CI recipe: compile on one clean machine, start warm on another: `python3 tools/ci_rehearsal.py [--keep]`.

The first run makes .venv. Both machines are directories of their own (HOME, TMPDIR, caches); the second has no compiler
on its PATH. Only the archive goes from one to the other, by the commands of tools/ci_workflow.yml.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import child
import env

STEPS = 3
_STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compile on one clean machine, start warm on another without compiler."
    )
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory and print its path")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(train()))
        return 0
    env.enter("demo")
    try:
        with child.directory("aot_cache-ci-", arguments.keep) as home:
            return rehearse([sys.executable, str(Path(__file__).resolve()), "--child"], home)
    except child.ChildFailed as error:
        print(error, file=sys.stderr)
        return 1


def rehearse(argv: list[str], home: Path, **more: str) -> int:
    """Both machines with their directories under `home` run the step `argv`; prints what came of it; the exit code.

    more: variables that both have besides.
    """
    archive = str(home / "carried" / "aot-cache.archive")
    Path(archive).parent.mkdir(parents=True)
    first = _machine(home / "first", PYTHONHASHSEED="1", **more)
    cold = _result(_cache("first machine: compile", first, "warm", "--", *argv))
    _cache("first machine: export", first, "export", "--last-run", archive)
    second = _machine(home / "second", PYTHONHASHSEED="2", PATH=str(home / "second" / "no-compiler"), **more)
    _cache("second machine: import", second, "import", archive)
    warm = _result(_cache("second machine: start", second, "warm", "--max-misses", "0", "--", *argv, allowed=(0, 1)))
    warm["written"] += left(home / "second", Path(second["AOT_CACHE_DIR"]))
    print(table(cold, warm, os.path.getsize(archive)))
    found = complaints(cold, warm)
    for complaint in found:
        print(f"NOT AS IT SHOULD BE: {complaint}")
    return 1 if found else 0


def table(cold: dict[str, Any], warm: dict[str, Any], size: int) -> str:
    rows = [
        ("", "first machine", "second machine", ""),
        (
            "seconds from torch.compile to the end of step 1",
            f"{cold['seconds']:.2f}",
            f"{warm['seconds']:.2f}",
            f"{cold['seconds'] / warm['seconds']:.1f}x",
        ),
        *((f"cache {what}", str(_count(cold, key)), str(_count(warm, key)), "") for what, key in _COUNTS.items()),
        ("processes started", str(len(cold["processes"])), str(len(warm["processes"])), ""),
        ("files written outside of the cache", str(len(cold["written"])), str(len(warm["written"])), ""),
        (
            f"loss of step {STEPS}",
            f"{float.fromhex(cold['losses'][-1]):.4f}",
            f"{float.fromhex(warm['losses'][-1]):.4f}",
            "all bit-equal" if cold["losses"] == warm["losses"] else "DIFFERENT",
        ),
        ("kilobytes carried", f"{size / 1000:.0f}", "", ""),
    ]
    return "\n".join(f"{a:<50}{b:>14}{c:>16}  {d}".rstrip() for a, b, c, d in rows)


def complaints(cold: dict[str, Any], warm: dict[str, Any]) -> list[str]:
    """What keeps the second machine from having started warm, with equal numbers, from the archive alone."""
    found = []
    if not _count(cold, "miss") or not cold["processes"]:
        found.append(f"the first machine did not really compile: {cold['stats']}, processes {cold['processes']}")
    if not _count(warm, "hit") or _count(warm, "miss") or _count(warm, "bypass") or warm["stats"]["error"]:
        found.append(f"the second machine compiled: {warm['stats']}; {warm['reasons']}")
    if warm["processes"]:
        found.append(f"the second machine started processes: {warm['processes']}")
    if warm["written"]:
        found.append(f"the second machine wrote outside of the cache: {warm['written']}")
    if cold["losses"] != warm["losses"]:
        found.append(f"the losses differ: {cold['losses']} and {warm['losses']}")
    return found


def left(machine: Path, cache: Path) -> list[str]:
    """Files below `machine` that are not the cache's."""
    return [str(path) for path in machine.rglob("*") if not path.is_dir() and not path.is_relative_to(cache)]


def train() -> dict[str, Any]:
    """In the child: some steps of a small model, with every process it starts and every file it writes elsewhere."""
    processes, written = _watch()
    # `test` and others beside this file have names of the standard library.
    sys.path.remove(str(Path(__file__).resolve().parent))
    import torch

    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, labels = torch.randn(16, 32), torch.randint(8, (16,))
    losses = []
    seconds = 0.0
    started = time.perf_counter()
    compiled = torch.compile(model)
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(compiled(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        seconds = seconds or time.perf_counter() - started
    import aot_cache

    reasons = sorted({str(event) for event in aot_cache.events() if hasattr(event, "reason")})
    found = {"losses": losses, "seconds": seconds, "stats": aot_cache.stats(), "reasons": reasons}
    return {**found, "processes": processes, "written": written}


def _watch() -> tuple[list[str], list[str]]:
    """Lists that grow with every process that this one starts, and every file it opens to write outside of the cache."""
    processes: list[str] = []
    written: list[str] = []
    own = (os.environ["AOT_CACHE_DIR"] + os.sep, os.environ["AOT_CACHE_REPORT"], os.devnull)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS:
            processes.append(f"{event} {args[0]}")
        elif event == "open" and isinstance(args[2], int) and args[2] & _WRITES:
            if not str(args[0]).startswith(own):
                written.append(str(args[0]))

    # Python writes a file to find out whether a directory can be written; torch asks for its name when it is imported.
    tempfile.tempdir = os.environ["TMPDIR"]
    sys.addaudithook(watch)
    return processes, written


_COUNTS = {"hits": "hit", "misses": "miss", "bypasses": "bypass"}


def _count(run: dict[str, Any], what: str) -> int:
    stats: dict[str, int] = run["stats"]
    return stats[f"graph_{what}"] + stats[f"frame_{what}"]


def _machine(home: Path, **more: str) -> dict[str, str]:
    found = child.environment(home, PYTHONDONTWRITEBYTECODE="1", **more)
    # A compiler that is named would be found without a PATH.
    return {name: value for name, value in found.items() if name not in ("CC", "CXX")}


def _cache(label: str, environment: dict[str, str], *arguments: str, allowed: tuple[int, ...] = (0,)) -> child.Finished:
    finished = child.run([sys.executable, "-m", "aot_cache", *arguments], label, environment)
    if finished.code not in allowed:
        raise child.ChildFailed(f"{label}: exit code {finished.code}\n{finished.tail()}")
    return finished


def _result(finished: child.Finished) -> dict[str, Any]:
    """What `train` gave: the last line that the step wrote."""
    try:
        found: dict[str, Any] = json.loads(finished.out.rstrip().rpartition("\n")[2])
    except ValueError:
        raise child.ChildFailed(f"the step printed no result\n{finished.tail()}") from None
    return found


if __name__ == "__main__":
    sys.exit(main())
