"""The child of the benchmark `bare`: `bare_child.py MODEL step|save|load ARCHIVE`, prints JSON last."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path

# Modules beside this file must not be found instead of others of the same name.
sys.path.pop(0)

import torch  # noqa: E402

_spec = importlib.util.spec_from_file_location("start_child", Path(__file__).with_name("start_child.py"))
start_child = importlib.util.module_from_spec(_spec)
sys.path.insert(0, "")  # which start_child takes away, as it does when it runs by itself
_spec.loader.exec_module(start_child)


def main(name: str, verb: str, archive: str) -> None:
    torch.manual_seed(0)
    model, inputs = start_child.MODELS[name]()
    model.train()
    started = time.perf_counter()
    if verb == "load":
        torch.compiler.load_cache_artifacts(Path(archive).read_bytes())
    loss = torch.compile(model)(**inputs)[0]
    loss.backward()
    seconds = time.perf_counter() - started
    if verb == "save":
        Path(archive).write_bytes(torch.compiler.save_cache_artifacts()[0])
    print(json.dumps({"seconds": seconds, "loss": loss.item().hex(), "counts": start_child.counts()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
