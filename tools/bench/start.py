"""start: one training step in a fresh process, seconds from the call of torch.compile to the end of backward()."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import child
import report

CHILD = Path(__file__).resolve().with_name("start_child.py")
MODELS = ("gpt2", "llama", "mlp")
OURS = ("hit", "miss", "trouble")


@dataclass(frozen=True)
class Variant:
    """One way to start.

    cache: AOT_CACHE. backend: torch.compile's, or "none". some, none: the counts that must be positive, and 0.
    directory: the variant whose first round left the directories to start from; None for empty ones each time. frames:
    AOT_CACHE_FRAMES; a first start with it, which is not measured, adds the frames to the graphs.
    """

    cache: str
    backend: str
    some: tuple[str, ...]
    none: tuple[str, ...]
    directory: str | None = None
    frames: str = "0"


VARIANTS = {
    "cold": Variant("0", "inductor", some=("torch_miss", "built"), none=("torch_hit", *OURS)),
    "cold-ours": Variant("1", "inductor", some=("miss", "built"), none=("hit", "trouble")),
    "torch-warm": Variant("0", "inductor", some=("torch_hit",), none=("torch_miss", "built", *OURS), directory="cold"),
    "ours-graphs": Variant(
        "1", "inductor", some=("graph_hit",), none=("miss", "trouble", "built"), directory="cold-ours"
    ),
    "ours-frames": Variant(
        "1", "inductor", ("frame_hit",), ("graphs", "miss", "trouble", "built"), "cold-ours", frames="1"
    ),
    "dynamo": Variant("0", "eager", some=("graphs",), none=("built", *OURS)),
    "eager": Variant("0", "none", some=(), none=("graphs", "built", *OURS)),
}
COLD = ("cold", "cold-ours")
WARM = ("torch-warm", "ours-graphs", "ours-frames", "dynamo", "eager")
RATIOS = (
    ("torch-warm", "ours-frames"),
    ("torch-warm", "ours-graphs"),
    ("ours-graphs", "dynamo"),
    ("cold-ours", "cold"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    for name, default, kind in (("--rounds", 5, "warm"), ("--cold-rounds", 2, "cold")):
        text = f"processes of each {kind} variant (default: {default})"
        parser.add_argument(name, type=positive, default=default, metavar="N", help=text)


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement.

    Raises:
        child.ChildFailed: a process failed, or did not do what its variant says.
    """
    raw: dict[str, Any] = {}
    parts = []
    for model in arguments.models:
        raw[model] = _measure(model, arguments.cold_rounds, arguments.rounds)
        seconds = {name: [r["seconds"] for r in results] for name, results in raw[model].items()}
        parts.append(_text(model, seconds))
    return "\n\n".join(parts), raw


def _measure(model: str, cold_rounds: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    with child.directory("aot_cache-bench-") as top:
        for names, count in ((COLD, cold_rounds), (WARM, rounds)):
            if names is WARM:
                _start(model, VARIANTS["ours-frames"], top / "cold-ours", f"{model}, storing its frames")
            for round_ in range(count):
                # Every other round backwards: a machine that slows down slows all alike.
                for name in names if round_ % 2 == 0 else names[::-1]:
                    label = f"{model} {name}, {round_ + 1} of {count}"
                    found[name].append(_process(model, name, top, label, keep=name in COLD and round_ == 0))
    _same_numbers(model, found)
    return found


def _process(model: str, name: str, top: Path, label: str, keep: bool) -> dict[str, Any]:
    variant = VARIANTS[name]
    home = top / (variant.directory or (name if keep else f"{name}-again"))
    before = _libraries(home)
    result = _start(model, variant, home, label)
    counts = _counts(result["counts"], len(_libraries(home) - before))
    if not variant.directory and not keep:
        shutil.rmtree(home)
    wrong = [k for k in variant.some if not counts[k]] + [k for k in variant.none if counts[k]]
    if wrong:
        raise child.ChildFailed(f"{label}: not what this variant is, see {', '.join(wrong)} in {counts}")
    return {**result, "counts": counts}


def _start(model: str, variant: Variant, home: Path, label: str) -> dict[str, Any]:
    env = {"PYTHONHASHSEED": "random", "AOT_CACHE": variant.cache, "AOT_CACHE_FRAMES": variant.frames}
    command = [sys.executable, str(CHILD), model, variant.backend]
    return child.run_json(command, label, child.environment(home, **env))


def _counts(counts: dict[str, int], built: int) -> dict[str, int]:
    hit, miss, bypass = (counts[f"graph_{what}"] + counts[f"frame_{what}"] for what in ("hit", "miss", "bypass"))
    return {**counts, "hit": hit, "miss": miss, "trouble": bypass + counts["error"], "built": built}


def _libraries(home: Path) -> set[Path]:
    """Shared libraries that torch built; those that the cache keeps are in its own directory."""
    return {path for path in home.rglob("*.so") if not path.is_relative_to(home / "aot_cache")}


def _same_numbers(model: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """Refuse compiled variants that disagree: in one bit of the loss, or in the gradient beyond the order of its sums."""
    compiled = [result for name in found if VARIANTS[name].backend == "inductor" for result in found[name]]
    gradients = [float.fromhex(result["gradient"]) for result in compiled]
    if len({result["loss"] for result in compiled}) > 1 or not math.isclose(
        min(gradients), max(gradients), rel_tol=1e-6
    ):
        numbers = {name: [(result["loss"], result["gradient"]) for result in found[name]] for name in found}
        raise child.ChildFailed(f"{model}: loss or gradient differ between the compiled variants: {numbers}")


def _text(model: str, seconds: dict[str, list[float]]) -> str:
    rows = [[name, report.spread(values)] for name, values in seconds.items() if values]
    ratios = [
        [f"{a} / {b}", f"{report.ratio(seconds[a], seconds[b]):.2f}"] for a, b in RATIOS if seconds[a] and seconds[b]
    ]
    return (
        report.table([model, "seconds, median (min-max, n)"], rows)
        + "\n\n"
        + report.table([model, "ratio of the medians"], ratios)
    )
