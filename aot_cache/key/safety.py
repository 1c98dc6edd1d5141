"""Whether a graph's operators are known to be covered by the key; a doubt is a CannotKey with source line and remedy."""

from __future__ import annotations

from typing import Any

from ..outcome import Reason
from ..torch_compat import targets, tensors
from .encode import CannotKey


def check(node: Any) -> None:
    """Raises CannotKey unless `node` (an FX node) does only what the key can see."""
    if node.op == "call_function":
        _check_function(node)
    elif node.op == "call_method":
        _check_method(node)
    elif node.op not in ("placeholder", "get_attr", "output"):
        raise _refusal(node, Reason.UNKNOWN_OBJECT, f"{node.op} {node.target}")


def _check_function(node: Any) -> None:
    kind = targets.kind(node.target)
    if kind is targets.Kind.HIGHER_ORDER and not targets.is_cacheable(node.target):
        raise _refusal(
            node,
            Reason.UNCACHEABLE_OP,
            f"{node.target.name()}",
            "torch does not mark this operator as cacheable",
        )


def _check_method(node: Any) -> None:
    owner = node.args[0] if node.args else None
    example = getattr(owner, "meta", {}).get("example_value")
    if not (tensors.is_tensor(example) or tensors.is_symbolic(example)):
        raise _refusal(node, Reason.UNKNOWN_CALLABLE, f"method {node.target} of {type(example).__name__}")


def _refusal(node: Any, reason: Reason, what: str, remedy: str = "") -> CannotKey:
    place = source_line(node)
    return CannotKey(reason, f"{what}, at {place}" if place else what, remedy)


def source_line(node: Any) -> str:
    """`file:line in function` of the user's code that made this node, or ''."""
    frames = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line for line in frames if line.startswith('File "')]
    if not frames:
        return ""
    path, line, function = (frames[-1].split(", ") + ["", ""])[:3]
    return f"{path[6:-1]}:{line.removeprefix('line ')} {function}".strip()
