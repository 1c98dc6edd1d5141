"""The child of the benchmark `phases`: `phases_child.py MODEL` does one training step and prints JSON last.

The phases are seconds of one start: importing torch._dynamo, which a model's library may do before, and then from the
call of torch.compile to the end of backward().
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

HERE = sys.path.pop(0)

import torch  # noqa: E402

import aot_cache  # noqa: E402

sys.path[:] = ["", *sys.path, HERE]  # start_child takes the first away, as it does when it runs by itself

import start_child  # noqa: E402

PHASES: dict[str, float] = {}


@contextmanager
def phase(name: str) -> Any:
    started = time.perf_counter()
    try:
        yield
    finally:
        PHASES[name] = PHASES.get(name, 0.0) + time.perf_counter() - started


def timed(owner: Any, method: str, name: str) -> None:
    """Have the seconds of every call of `owner.method` counted for a phase."""
    original: Callable[..., Any] = getattr(owner, method)

    def call(*args: Any, **kwargs: Any) -> Any:
        with phase(name):
            return original(*args, **kwargs)

    setattr(owner, method, call)


class TimedEntry:
    """A context manager whose entry counts for a phase."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name

    def __enter__(self) -> Any:
        with phase(self._name):
            return self._inner.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._inner.__exit__(*error)


def watch() -> None:
    from aot_cache.hook import frames, frames_record

    compare = frames_record.compare
    timed(frames, "frame_key", "key")
    timed(frames.FrameCache, "_candidates", "reading entries")
    timed(frames.artifact, "load", "reading entries")
    frames_record.compare = lambda frame, call: TimedEntry(compare(frame, call), "fingerprints")
    timed(frames.FrameCache, "_graph", "kernels and graphs")
    timed(frames_record, "install", "guards")


def main(name: str) -> None:
    started = time.perf_counter()
    with phase("import aot_cache"):
        aot_cache.enable()
    with phase("import torch._dynamo"):
        importlib.import_module("torch._dynamo")
    imported = time.perf_counter() - started
    watch()
    torch.manual_seed(0)
    model, inputs = start_child.MODELS[name]()
    model.train()
    started = time.perf_counter()
    with phase("the call of torch.compile"):
        step = torch.compile(model)
    with phase("forward, all of it"):
        loss = step(**inputs)[0]
    with phase("backward"):
        loss.backward()
    PHASES["all"] = imported + time.perf_counter() - started
    parts = ("key", "reading entries", "fingerprints", "kernels and graphs", "guards")
    PHASES["the rest of forward"] = PHASES["forward, all of it"] - sum(PHASES.get(part, 0.0) for part in parts)
    with phase("an eager step"):
        model(**inputs)[0].backward()
    print(json.dumps({"phases": PHASES, "counts": start_child.counts()}))


if __name__ == "__main__":
    main(sys.argv[1])
