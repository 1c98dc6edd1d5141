"""The names that a graph's nodes carry from the user's program, as a pass that looks at nodes finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_STACKS = ("nn_module_stack", "fwd_nn_module_stack", "source_fn_stack", "fwd_source_fn_stack", "torch_fn")


def names(node: Any) -> Iterator[str]:
    """The name of an FX node, of the modules and functions that it came from, and its stack trace without places."""
    yield node.name
    for key in _STACKS:
        if key in node.meta:
            yield f"{key} {_text(node.meta[key])}"
    for line in (node.meta.get("stack_trace") or "").splitlines():
        # A pass may pick nodes by function or by source text; files and lines differ from one checkout to the next.
        yield line.rpartition(", in ")[2] if line.strip().startswith('File "') else line


def _text(value: Any) -> str:
    """Nested names; what stands for a module's number in this process is left out."""
    if isinstance(value, dict):
        return _text([item for item in value.values()])
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, str):
        return repr(value)
    named = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
