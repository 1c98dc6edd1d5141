"""One process of the harness: runs programs one after the other and tells what each computed and what the cache did.

Run as `side.py FILE`; FILE lists [name, path] pairs as JSON. Prints JSON.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import aot_cache  # noqa: E402

aot_cache._autoload()  # as the installed package's entry point does at the end of `import torch`

import torch  # noqa: E402
import torch._inductor.config as inductor  # noqa: E402

# Every operation as a call of a library: no program needs the C++ compiler, and none is slow.
inductor.fallback_by_default = True


def main(path: str) -> None:
    torch.set_num_threads(1)
    results = {}
    for name, file in json.loads(Path(path).read_text()):
        results[name] = run(name, file)
    print(json.dumps(results))


def run(name: str, path: str) -> dict[str, Any]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.set_warn_always(False)  # one program turns it on
    # Programs with equal graphs must not meet each other's entries.
    torch.compiler.config.cache_key_tag = name
    before, ambient, started = len(aot_cache.events()), _ambient(), time.perf_counter()
    try:
        values = list(_load(name, path).run())
        error = (
            ""
            if _ambient() == ambient or "SOUNDNESS_PROCESS" in os.environ
            else "the program left a global setting changed"
        )
    except Exception:
        values, error = [], traceback.format_exc(limit=-3, chain=False)[-1500:]
    return {
        "values": digest(values),
        "shown": shown(values),
        "events": [_event(event) for event in aot_cache.events()[before:] if event.kind == "graph"],
        "frames": [_event(event) for event in aot_cache.events()[before:] if event.kind == "frame"],
        "error": error,
        "seconds": round(time.perf_counter() - started, 2),
    }


def _load(name: str, path: str) -> Any:
    module_name = f"program_{name}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


def _ambient() -> Any:
    from aot_cache.torch_compat import state

    return state.ambient()


def _event(event: Any) -> list[str]:
    """Kind, reason, the whole text."""
    reason = getattr(event, "reason", None)
    return [type(event).__name__, reason.name if reason else "", str(event) + str(getattr(event, "key", ""))]


def digest(values: Any) -> str:
    """All tensors in nested values, bit by bit."""
    parts = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            flat = value.detach().resolve_conj().resolve_neg().contiguous()
            parts.update(f"{tuple(value.shape)} {value.dtype} {value.requires_grad} {value.stride()};".encode())
            parts.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, (list, tuple)):
            parts.update(f"{len(value)}[".encode())
            for item in value:
                feed(item)
        else:
            parts.update(repr(value).encode())

    feed(values)
    return parts.hexdigest()[:16]


def shown(values: Any) -> str:
    """The beginning of the values, for a person."""
    flat = [v.detach().reshape(-1)[:4].tolist() if isinstance(v, torch.Tensor) else v for v in values]
    return repr(flat)[:200]


if __name__ == "__main__":
    main(sys.argv[1])
