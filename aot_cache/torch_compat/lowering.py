"""What user code added to the pattern passes of torch's compiler.

Only modules that are imported already are looked at, since registering something imports its module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from .compilers import foreign_callables

# Callables and pattern entries that were looked through and found to be torch's; the objects are kept, so that their
# ids stay theirs.
_own: dict[int, Any] = {}
_passes: list[tuple[str, Any]] = []
_passes_of = 0


def user_patterns() -> dict[str, Any]:
    """Callables of others in torch's pattern passes, by the pattern and its place."""
    found: dict[str, Any] = {}
    for place, patterns in _pattern_passes():
        for (op, target), entries in list(patterns.items()):
            foreign = [(entry, functions) for entry in entries if (functions := _foreign_in_entry(entry))]
            for number, (entry, functions) in enumerate(foreign):
                shape = re.sub(r" at 0x[0-9a-f]+", "", repr(entry.pattern))
                for role, function in functions:
                    found[f"{place} {op} {target} {number} {shape} {role}"] = function
    return found


def _foreign_in_entry(entry: Any) -> list[tuple[str, Any]]:
    if id(entry) in _own:
        return []
    found = []
    for role in ("handler", "normalize_args", "extra_check"):
        found += [(f"{role} {n}", f) for n, f in enumerate(foreign_callables(getattr(entry, role, None)))]
    if not found:
        _own[id(entry)] = entry
    return found


def _pattern_passes() -> list[tuple[str, Any]]:
    """Name and patterns of every pass that a module of torch's holds."""
    global _passes_of
    matcher = sys.modules.get("torch._inductor.pattern_matcher")
    if matcher is None:
        return []
    modules = [(name, m) for name, m in list(sys.modules.items()) if name.startswith("torch._inductor.fx_passes.")]
    if len(modules) != _passes_of:
        _passes_of = len(modules)
        kind = matcher.PatternMatcherPass
        found = {id(p): (place, p.patterns) for name, m in modules for place, p in _held(name, m) if type(p) is kind}
        _passes[:] = sorted(found.values(), key=lambda item: item[0])
    return _passes


def _held(name: str, module: Any) -> Iterator[tuple[str, Any]]:
    for attribute, value in list(vars(module).items()):
        if isinstance(value, dict):
            yield from ((f"{name}.{attribute}[{key}]", item) for key, item in list(value.items()))
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{attribute}[{index}]", item) for index, item in enumerate(value))
        else:
            yield f"{name}.{attribute}", value
