"""Guards of a compiled frame as plain data, and torch's own guard manager built again from it and the live values."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import DuplicateInputs, Guard, GuardsSet, StorageOverlap

from ..errors import HookMismatch
from . import frames_sources
from .frames_sources import Table, UnknownSource

# Arguments of guards that hold the live value itself; it is put back from the live frame.
_LIVE = {"TENSOR_MATCH": ("value",), "NOT_NONE_MATCH": ("value",)}
# Arguments that only make messages.
_MESSAGES = ("recompile_hint",)


class UnknownGuard(Exception):
    """A guard cannot be written down; says which."""


@dataclass
class Seen:
    """What Dynamo gave to its guard builder for one frame; guards in the order in which they are built."""

    guards: list[Any]
    key_order: list[Any]
    sizes: dict[Any, Any]
    aliases: list[Any]
    builtins: str | None
    imports: dict[str, str]
    installed: list[str]
    graph: Any
    """Dynamo's output graph, to ask about what has no other place."""


@dataclass
class Plain:
    """`Seen` as plain data: rows of `Table`, guards as [row, kind, arguments], dimensions as numbers or None."""

    sources: list[list[Any]] = field(default_factory=list)
    guards: list[list[Any]] = field(default_factory=list)
    key_order: list[int] = field(default_factory=list)
    sizes: list[list[Any]] = field(default_factory=list)
    aliases: list[list[Any]] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)


def look(output_graph: Any) -> Seen:
    """Take down what the guard builder is about to be given; Dynamo clears it afterwards."""
    return Seen(
        guards=sorted(output_graph.guards, key=Guard.sort_key),
        key_order=list(output_graph.guard_on_key_order),
        sizes=dict(output_graph.input_source_to_sizes_strides),
        aliases=list(output_graph.aotautograd_guards),
        builtins=output_graph.name_of_builtins_dict_key_in_fglobals,
        imports=dict(getattr(output_graph, "import_sources", {})),
        installed=sorted(getattr(output_graph, "installed_globals", ())),
        graph=output_graph,
    )


def write(seen: Seen, shapes: Sequence[str]) -> Plain:
    """`seen` as plain data.

    Raises:
        UnknownGuard: a guard, or where it looks, is of no known kind.
    """
    table, plain = Table(), Plain(shapes=list(shapes))
    try:
        for guard in seen.guards:
            plain.guards.append([table.add(guard.originating_source), *_write(guard, table)])
        plain.key_order = [table.add(source) for source in seen.key_order]
        plain.sizes = [[table.add(source), _sizes(found)] for source, found in seen.sizes.items()]
        plain.aliases = [_alias(guard, table) for guard in seen.aliases]
    except UnknownSource as error:
        raise UnknownGuard(str(error)) from None
    plain.sources = table.rows
    return plain


def kind(guard: Any) -> str:
    return str(guard.create_fn_name())


def _write(guard: Any, table: Table) -> tuple[str, dict[str, Any]]:
    from torch._dynamo.guards import GuardBuilder

    create, name = guard.create_fn, kind(guard)
    given: dict[str, Any] = {}
    if isinstance(create, functools.partial):
        if create.args:
            raise UnknownGuard(f"{name} on {guard.name} with unnamed arguments")
        create, given = create.func, dict(create.keywords)
    if getattr(GuardBuilder, name, None) is not create:
        raise UnknownGuard(f"{name} on {guard.name}, which is not a method of GuardBuilder")
    given = {k: v for k, v in given.items() if k not in _LIVE.get(name, ()) and k not in _MESSAGES}
    return name, {k: _argument(v, guard, table) for k, v in given.items()}


def _argument(value: Any, guard: Any, table: Table) -> Any:
    if isinstance(value, torch._guards.Source):
        return {"source": table.add(value)}
    if type(value) in (type(None), bool, int, str):
        return value
    if isinstance(value, type) and _class(value.__module__, value.__qualname__) is value:
        return {"class": [value.__module__, value.__qualname__]}
    raise UnknownGuard(f"{kind(guard)} on {guard.name} with a {type(value).__name__}")


def _sizes(found: Mapping[str, Any]) -> dict[str, Any]:
    from torch._dynamo.guards import convert_to_concrete_values

    return {
        name: [None if n is None else int(n) for n in convert_to_concrete_values(dims)] for name, dims in found.items()
    }


def _alias(guard: Any, table: Table) -> list[Any]:
    if isinstance(guard, DuplicateInputs):
        return ["duplicate", table.add(guard.input_source_a), table.add(guard.input_source_b)]
    if isinstance(guard, StorageOverlap):
        return [
            "overlap",
            *([table.add(s) for s in g] for g in (guard.overlapping_sources, guard.non_overlapping_sources)),
        ]
    raise UnknownGuard(f"an alias guard of type {type(guard).__name__}")


def build(
    code: Any, plain: Plain, sources: Sequence[Any], scope: Mapping[str, Any], builtins: str, cache_entries: Any
) -> Any:
    """torch's guard manager for the live frame; `sources` are the rows of `plain.sources`, rebuilt.

    Raises:
        HookMismatch: this torch builds guards in another way.
        Exception: whatever torch raises for a frame that does not have what the guards look at.
    """
    from torch._dynamo.guards import CheckFunctionManager, ShapeCodeParts
    from torch._dynamo.output_graph import OutputGraphCommon, OutputGraphGuardsState
    from torch.fx.experimental.symbolic_shapes import _ShapeGuardsHelper

    values = {
        "local_scope": dict(scope["L"]),
        "global_scope": scope["G"],
        "torch_function_mode_stack": [],
        "guard_on_key_order": {sources[i] for i in plain.key_order},
        "input_source_to_sizes_strides": {sources[i]: sizes for i, sizes in plain.sizes},
        "dual_level": torch.autograd.forward_ad._current_level,
        "functorch_layers": [],
        "current_device": torch.utils._device.CURRENT_DEVICE,
        "global_state_guard": torch._C._dynamo.guards.GlobalStateGuard(),
        "_guards": GuardsSet(),
        "_aotautograd_guards": [_live_alias(row, sources) for row in plain.aliases],
        "name_of_builtins_dict_key_in_fglobals": builtins,
        "skip_guards_check": True,
    }
    known = {f.name for f in dataclasses.fields(OutputGraphGuardsState)}
    if not values.keys() <= known:
        raise HookMismatch(f"OutputGraphGuardsState has no {', '.join(sorted(values.keys() - known))}")
    state = OutputGraphGuardsState(**values)
    state._guards.inner.update(_live(plain.guards, sources, scope))
    shapes = _ShapeGuardsHelper(list(plain.shapes))
    parts = ShapeCodeParts(shapes, shapes, None, python_fallback=True, shape_env_sources=[])
    return CheckFunctionManager(code, OutputGraphCommon(state), cache_entries, shape_code_parts=parts).guard_manager


def _live(rows: Iterable[Sequence[Any]], sources: Sequence[Any], scope: Mapping[str, Any]) -> list[Any]:
    from torch._dynamo.guards import GuardBuilder
    from torch.utils.weak import TensorWeakRef

    made, cache = [], {}
    for row, name, arguments in rows:
        given = live_arguments(arguments, sources)
        if name in _LIVE:
            value = frames_sources.read(sources[row], scope, cache)
            given["value"] = TensorWeakRef(value)
        create = getattr(GuardBuilder, name)
        made.append(Guard(sources[row], functools.partial(create, **given) if given else create))
    return made


def live_arguments(arguments: Mapping[str, Any], sources: Sequence[Any]) -> dict[str, Any]:
    """A guard's arguments with their sources and classes in place."""
    given = {}
    for name, value in arguments.items():
        if isinstance(value, dict):
            value = sources[value["source"]] if "source" in value else _class(*value["class"])
        given[name] = value
    return given


def _class(module: str, qualname: str) -> Any:
    """The class that has this name now; None if there is none."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _live_alias(row: Sequence[Any], sources: Sequence[Any]) -> Any:
    name, first, second = row
    if name == "duplicate":
        return DuplicateInputs(sources[first], sources[second])
    return StorageOverlap([sources[i] for i in first], [sources[i] for i in second])
