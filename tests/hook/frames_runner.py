"""Runs the changes of `frames_changes` as modules in one process: `frames_runner.py before|after DIRECTORY [NAME...]`.

Prints JSON: by name, the values that the module's `case()` returns and what the cache counted meanwhile.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any


def write(directory: Path, which: str) -> dict[str, str]:
    """The modules in `directory`, by name of the change; written anew for this process."""
    from hook.frames_changes import CHANGES, PRELUDE

    directory.mkdir(parents=True, exist_ok=True)
    modules = {}
    for name, change in CHANGES.items():
        modules[name] = "case_" + re.sub(r"\W+", "_", name)
        text = PRELUDE + change.source.replace("@@", getattr(change, which))
        (directory / f"{modules[name]}.py").write_text(text)
    return modules


def plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return [str(value.dtype), value.requires_grad, value.detach().tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return repr(value)


def run(module: str) -> dict[str, Any]:
    import aot_cache
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    before, events = aot_cache.stats(), len(aot_cache.events())
    try:
        values = plain(importlib.import_module(module).case())
    except Exception as error:
        values = type(error).__name__
    counts = {name: count - before[name] for name, count in aot_cache.stats().items()}
    why = [f"{type(e).__name__} {e}" for e in aot_cache.events()[events:] if type(e).__name__ != "Hit" and e.kind == "frame"]
    return {"values": values, "traced": torch._dynamo.utils.counters["stats"]["unique_graphs"], "why": why, **counts}


def main(which: str, directory: str, *names: str) -> None:
    import os

    import torch

    import aot_cache

    torch.set_num_threads(1)
    if os.environ.get("AOT_CACHE") != "0":
        aot_cache.enable(frames=True)
    sys.dont_write_bytecode = True
    modules = write(Path(directory), which)
    sys.path.insert(0, directory)
    print(json.dumps({name: run(module) for name, module in modules.items() if not names or name in names}))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main(*sys.argv[1:])
