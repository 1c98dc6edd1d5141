"""The demonstration: train GPT-2 in a fresh process, then in another: `python3 tools/demo.py [--steps N] [--keep]`.

The first run makes .venv. Both starts share their directories, as after a restart; the second must compile nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import child
import env

# Narrow enough for a laptop; as deep as the real one, since what compiling costs is depth.
MODEL = {"vocab_size": 256, "n_positions": 128, "n_embd": 256, "n_layer": 12, "n_head": 4}
BATCH = 4


def main() -> int:
    parser = argparse.ArgumentParser(description="Train GPT-2 twice in fresh processes: a cold start and a warm one.")
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="training steps in each process (default: 6)")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory and print its path")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    env.enter("demo")
    if arguments.child:
        print(json.dumps(train(arguments.steps)))
        return 0
    try:
        with child.directory("aot_cache-demo-", arguments.keep) as home:
            return demonstrate([sys.executable, __file__, "--child", "--steps", str(arguments.steps)], home)
    except child.ChildFailed as error:
        print(error, file=sys.stderr)
        return 1


def demonstrate(argv: list[str], home: Path) -> int:
    """Run the child `argv` twice with the directories under `home`, print what came of it; the exit code."""
    first = _start(argv, home, "first start (nothing cached)", hashseed="1")
    second = _start(argv, home, "second start", hashseed="2")
    print(table(first, second))
    found = complaints(first, second)
    for complaint in found:
        print(f"NOT AS IT SHOULD BE: {complaint}")
    return 1 if found else 0


def table(first: dict[str, Any], second: dict[str, Any]) -> str:
    rows = [
        ("", "first start", "second start", ""),
        (
            "seconds from torch.compile to the end of step 1",
            f"{first['seconds']:.2f}",
            f"{second['seconds']:.2f}",
            f"{first['seconds'] / second['seconds']:.1f}x",
        ),
        ("kernel libraries built", str(first["built"]), str(second["built"]), ""),
        *(
            (text, str(first["stats"][name]), str(second["stats"][name]), "")
            for name, text in (
                ("graph_miss", "graphs compiled"),
                ("graph_hit", "graphs from the cache"),
                ("frame_hit", "frames from the cache, not traced"),
            )
        ),
        ("loss of step 1", _loss(first, 0), _loss(second, 0), ""),
        (
            f"loss of step {len(first['losses'])}",
            _loss(first, -1),
            _loss(second, -1),
            "all bit-equal" if first["losses"] == second["losses"] else "DIFFERENT",
        ),
    ]
    return "\n".join(f"{a:<50}{b:>13}{c:>15}  {d}".rstrip() for a, b, c, d in rows)


def complaints(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """What keeps these two starts from being a cold one and a warm one with equal numbers."""
    found = []
    if _count(first, "hit") or not _count(first, "miss") or not first["built"]:
        found.append(f"the first start did not really compile: {first['stats']}, {first['built']} libraries built")
    if not second["stats"]["graph_hit"] or second["built"]:
        found.append(f"the second start compiled: {second['stats']}, {second['built']} libraries built")
    for name, run in (("first", first), ("second", second)):
        if _count(run, "bypass") or run["stats"]["error"]:
            found.append(f"the {name} start went past the cache: {run['stats']}; {run['reasons']}")
    if _count(second, "miss"):
        found.append(f"the second start missed: {second['stats']}; {second['reasons']}")
    if first["losses"] != second["losses"]:
        found.append(f"the losses differ: {first['losses']} and {second['losses']}")
    return found


def train(steps: int) -> dict[str, Any]:
    """In the child: the exact losses, the seconds from torch.compile to the end of step 1, the cache's counts."""
    # `test` and others beside this file have names of the standard library.
    sys.path.remove(str(Path(__file__).resolve().parent))
    import torch
    import transformers

    torch.manual_seed(0)
    # Else threads add up the gradient of the embedding in any order, and no two runs are bit-equal, cached or not.
    torch.use_deterministic_algorithms(True)
    config = transformers.GPT2Config(**MODEL, use_cache=False, bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # else transformers warns about it inside the graph, which breaks it
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.frombuffer(bytearray(_text()), dtype=torch.uint8)
    losses = []
    seconds = 0.0
    started = time.perf_counter()
    compiled = torch.compile(model)
    for _ in range(steps):
        starts = torch.randint(len(text) - MODEL["n_positions"], (BATCH,)).tolist()
        tokens = torch.stack([text[start : start + MODEL["n_positions"]] for start in starts]).long()
        loss = compiled(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        seconds = seconds or time.perf_counter() - started
    import aot_cache

    reasons = sorted({str(event) for event in aot_cache.events() if hasattr(event, "reason")})
    return {"losses": losses, "seconds": seconds, "stats": aot_cache.stats(), "reasons": reasons}


def _text() -> bytes:
    """The training text: what this repository says of itself, and its code."""
    paths = [env.ROOT / "README.md", *sorted((env.ROOT / "aot_cache").rglob("*.py"))]
    return b"\n".join(path.read_bytes() for path in paths if path.exists())


def _start(argv: list[str], home: Path, label: str, hashseed: str) -> dict[str, Any]:
    before = _libraries(home)
    result = child.run_json(argv, label, child.environment(home, PYTHONHASHSEED=hashseed))
    return {**result, "built": len(_libraries(home) - before)}


def _libraries(home: Path) -> set[Path]:
    """Shared libraries that torch built; those that the cache keeps are in its own directory."""
    return {path for path in home.rglob("*.so") if not path.is_relative_to(home / "aot_cache")}


def _count(run: dict[str, Any], what: str) -> int:
    stats: dict[str, int] = run["stats"]
    return stats[f"graph_{what}"] + stats[f"frame_{what}"]


def _loss(run: dict[str, Any], step: int) -> str:
    return f"{float.fromhex(run['losses'][step]):.4f}"


if __name__ == "__main__":
    sys.exit(main())
