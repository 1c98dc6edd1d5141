"""The tables by which torch's compiler looks up its rules: what user code changed in them since torch filled them.

Each is compared with a copy made right after the import of its module, so that a rule that was removed, or replaced by
another one of torch's own, counts as one that somebody wrote. Only modules that are imported are looked at: to change a
table is to import its module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from .compilers import foreign_callables
from .late import AfterImport
from .patches import Patches

_GLOBAL, _INDUCTORS, _LOWERING = "torch._decomp", "torch._inductor.decomposition", "torch._inductor.lowering"
_TABLES = {
    _GLOBAL: ("global_decomposition_table",),
    _INDUCTORS: ("decompositions", "extra_random_decomps"),
    _LOWERING: (
        "lowerings user_lowerings _maybe_layout_constraints fallbacks needs_realized_inputs foreach_ops "
        "inplace_foreach_ops inplaceable_foreach_ops FALLBACK_ALLOW_LIST"
    ).split(),
    "torch._inductor.constant_folding": ("_dont_constant_fold",),
    "torch._inductor.fx_passes.post_grad": ("noop_registry",),
    "torch._inductor.fx_passes.reinplace": ("inplaceable_ops", "inplaceable_foreach_ops", "META_ONLY_OPS"),
}
_ABSENT = object()
_Table = dict[Any, Any]

# Per module: its tables as torch made them, by name; and as they were last looked through, and what was found.
_pristine: dict[str, dict[str, _Table]] = {}
_last: dict[str, tuple[Any, dict[str, _Table], dict[str, Any]]] = {}
_unseen: set[str] = set()
_at_import: dict[str, Any] = {}
"""How the global decompositions differed when Inductor took its own from them."""


def start_early() -> None:
    """Copy what `import torch` has filled; called at its end, before user code can change it."""
    if _GLOBAL in sys.modules and _GLOBAL not in _pristine:
        _copy(sys.modules[_GLOBAL])


def watch(patches: Patches) -> None:
    """Copy each table when its module is imported; one that was imported before may have been changed unseen."""
    for name in _TABLES:
        if name in _pristine or name in _unseen:
            continue
        if name in sys.modules and not _is_being_imported(name):
            _unseen.add(name)
            _copy(sys.modules[name])
        else:
            patches.on_undo(AfterImport(name, _copy).cancel)


def unseen() -> list[str]:
    """Modules of the compiler whose tables user code could change before they were looked at."""
    # Of the global table all that is not torch's own is found all the same.
    return sorted(_unseen - {_GLOBAL} | {name for name in _TABLES if name in sys.modules and name not in _pristine})


def changes() -> dict[str, Any]:
    """What differs from torch's own tables, by table and operator: a rule, or a text where there is none."""
    found: dict[str, Any] = {}
    for name in [name for name in _pristine if name not in (_GLOBAL, _INDUCTORS)]:  # a compile brings decompositions
        found |= _changes_in(name)
    now = _changes_in(_GLOBAL)
    if _INDUCTORS not in _pristine:
        return found | now
    # Inductor has taken what the global table held then; what else reads that table sees what it holds now.
    same = now.keys() == _at_import.keys() and all(rule is _at_import[name] for name, rule in now.items())
    return found | _at_import | ({} if same else {f"late {name}": rule for name, rule in now.items()})


def _changes_in(name: str) -> dict[str, Any]:
    if name not in _pristine:
        return {}
    module = sys.modules[name]
    now = {table: _read(module, table) for table in _pristine[name]}
    state = [_default_constraint(), *map(_ids, now.values())]
    last = _last.get(name)
    if last is None or last[0] != state:
        found: dict[str, Any] = {}
        explained = _implicit_fallbacks(module, _pristine[name]) if name == _LOWERING else frozenset()
        for table, old in _pristine[name].items():
            found.update(_differences(table, old, now[table], explained))
        # What was looked through is kept, so that its ids stay its own.
        last = _last[name] = (state, now, found)
    return last[2]


def _ids(table: _Table) -> list[int]:
    """Equal exactly for equal tables; hashing an operator costs a call of Python code."""
    return [*map(id, table), *map(id, table.values())]


def _default_constraint() -> str:
    import torch._functorch.config as config

    return str(getattr(config, "custom_op_default_layout_constraint", ""))


def decompositions(table: Mapping[Any, Any] | None) -> dict[str, Any]:
    """How the table that a compile was given differs from the one that Inductor takes; all of it if it is unlike that."""
    given = dict(table or {})
    if _INDUCTORS in _pristine:
        old = _pristine[_INDUCTORS]["decompositions"] | _random_ones()
        if _ids(old) == _ids(given):
            return {}
        if 2 * len(old.keys() & given.keys()) > len(old):
            return dict(_differences("decompositions", old, given, _popped_by_torch()))
    return {"decompositions": "not Inductor's"} | {f"decompositions {op}": rule for op, rule in given.items()}


def _copy(module: ModuleType) -> None:
    name = module.__name__
    if name in _pristine:
        return
    tables = {table: _read(module, table) for table in _names(module)}
    if name in _unseen:
        for table in tables.values():
            for key in [key for key, rule in table.items() if next(foreign_callables(rule), None) is not None]:
                del table[key]
    if name == _INDUCTORS:
        _at_import.update(_changes_in(_GLOBAL))
    _pristine[name] = tables


def _names(module: ModuleType) -> list[str]:
    if module.__name__ == _GLOBAL:
        return [f"decomposition {kind}" for kind in module.global_decomposition_table]
    return [table for table in _TABLES[module.__name__] if hasattr(module, table)]


def _read(module: ModuleType, table: str) -> _Table:
    """A copy of a table; of a set or list, its members."""
    if module.__name__ == _GLOBAL:
        value = module.global_decomposition_table[table.removeprefix("decomposition ")]
    else:
        value = getattr(module, table)
    return dict(value) if isinstance(value, dict) else dict.fromkeys(value, "member")


def _differences(table: str, old: _Table, new: _Table, explained: Any = frozenset()) -> Iterator[tuple[str, Any]]:
    if _ids(old) == _ids(new):
        return
    for key in [key for key, value in new.items() if old.get(key, _ABSENT) is not value]:
        if key not in explained:
            yield f"{table} {key}", new[key]
    for key in old.keys() - new.keys():
        if key not in explained:
            yield f"{table} {key}", "removed"


def _implicit_fallbacks(module: Any, tables: Mapping[str, _Table]) -> frozenset[Any]:
    """Operators without a rule, for which a compile in this process made the fallback that any compile makes."""
    old = tables["lowerings"]
    if _ids(old) == _ids(module.lowerings):
        return frozenset()
    new = [op for op in list(module.lowerings) if op not in old and op in module.fallbacks]
    return frozenset(op for op in new if _is_implicit(module, op))


def _is_implicit(module: Any, op: Any) -> bool:
    import torch
    from torch._library.utils import get_layout_constraint_tag, is_builtin

    if not isinstance(op, torch._ops.OpOverload) or next(foreign_callables(module.lowerings[op]), None) is not None:
        return False
    usual = module.tag_to_layout_constraint(get_layout_constraint_tag(op, with_default=True))
    constraint = module._maybe_layout_constraints.get(op)
    return constraint is usual or (is_builtin(op) and constraint is getattr(module, "require_contiguous", _ABSENT))


def _random_ones() -> _Table:
    """Decompositions that Inductor adds while its own random numbers are on."""
    import torch._inductor.config as config

    return {} if config.fallback_random else _pristine[_INDUCTORS].get("extra_random_decomps", {})


def _popped_by_torch() -> frozenset[Any]:
    import torch
    import torch._inductor.config as config

    if not getattr(config, "fallback_embedding_bag_byte_unpack", False):
        return frozenset()
    return frozenset({torch.ops.quantized.embedding_bag_byte_unpack.default})


def _is_being_imported(name: str) -> bool:
    return bool(getattr(sys.modules[name].__spec__, "_initializing", False))
