"""Torch's tables of rules: what user code changes in them counts, what torch itself does to them does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support import FreshProcess

from aot_cache.key.build import identify
from aot_cache.torch_compat import registries
from aot_cache.torch_compat.patches import Patches

WATCHED = Patches()
registries.watch(WATCHED)

import torch._inductor.decomposition as torch_decomposition  # noqa: E402
import torch._inductor.lowering as torch_lowering  # noqa: E402
from torch._inductor import constant_folding  # noqa: E402
from torch._inductor.fx_passes import joint_graph, post_grad  # noqa: E402

aten = torch.ops.aten


@contextmanager
def kept() -> Iterator[None]:
    """Puts back, in place, what is changed in the tables meanwhile."""
    tables = [
        getattr(module, name)
        for module in (torch_lowering, torch_decomposition, constant_folding)
        for name in registries._TABLES[module.__name__]
    ]
    before = [type(table)(table) for table in tables]
    try:
        yield
    finally:
        for table, old in zip(tables, before):
            table.clear()
            table.extend(old) if isinstance(table, list) else table.update(old)


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    with kept():
        yield


def mine(*args: Any) -> Any:
    return args[0]


def reads_contiguous(fx_node: Any, *args: Any, **kwargs: Any) -> Any:
    return args, kwargs


CHANGES: dict[str, tuple[Callable[[], object], set[str]]] = {
    "fallback of an operator that has a rule": (
        lambda: torch_lowering.make_fallback(aten.sin.default, warn=False, override_decomp=True),
        {"lowerings aten.sin.default", "fallbacks aten.sin.default", "needs_realized_inputs aten.sin.default"},
    ),
    "layout constraint of torch's own": (
        lambda: torch_lowering.add_layout_constraint(aten.mm.default, torch_lowering.constrain_to_fx_strides),
        {"_maybe_layout_constraints aten.mm.default"},
    ),
    "layout constraint of the user's": (
        lambda: torch_lowering.add_layout_constraint(aten.mm.default, reads_contiguous),
        {"_maybe_layout_constraints aten.mm.default"},
    ),
    "inputs that must be realized": (
        lambda: torch_lowering.add_needs_realized_inputs(aten.sin.default),
        {"needs_realized_inputs aten.sin.default"},
    ),
    "inputs that need not be": (
        lambda: torch_lowering.needs_realized_inputs.discard(aten.mm),
        {"needs_realized_inputs aten.mm"},
    ),
    "removed lowering": (lambda: torch_lowering.lowerings.pop(aten.sin.default), {"lowerings aten.sin.default"}),
    "lowering of another operator": (
        lambda: torch_lowering.lowerings.update({aten.sin.default: torch_lowering.lowerings[aten.cos.default]}),
        {"lowerings aten.sin.default"},
    ),
    "lowering of the user's": (
        lambda: torch_lowering.lowerings.update({aten.sin.default: mine}),
        {"lowerings aten.sin.default"},
    ),
    "operator that is not folded": (
        lambda: constant_folding.add_dont_constant_fold(aten.sin.default),
        {"_dont_constant_fold aten.sin.default"},
    ),
}


def test_what_torch_does_itself_does_not_count() -> None:
    joint_graph.lazy_init()
    post_grad.lazy_init()
    assert registries.changes() == {}
    assert registries.decompositions(torch_decomposition.select_decomp_table()) == {}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_counts_and_has_an_identity(name: str) -> None:
    change, expected = CHANGES[name]
    change()
    assert set(registries.changes()) == expected
    assert all(identify(value) for value in registries.changes().values())


def test_no_two_changes_are_alike() -> None:
    found = []
    for change, _ in CHANGES.values():
        with kept():
            change()
            found.append({key: identify(value) for key, value in registries.changes().items()})
    assert all(found.count(one) == 1 for one in found)


def test_a_fallback_that_a_compile_makes_by_itself_does_not_count() -> None:
    op = torch.library.custom_op(
        "registries_tests::own", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    overload = op._opoverload
    usual = torch._library.utils.get_layout_constraint_tag(overload)
    torch_lowering.make_fallback(overload, torch_lowering.tag_to_layout_constraint(usual), warn=False)
    assert registries.changes() == {}
    torch_lowering.add_layout_constraint(overload, torch_lowering.require_contiguous_strides)
    assert "_maybe_layout_constraints registries_tests.own.default" in registries.changes()


def test_a_table_of_decompositions_is_how_it_differs_from_inductors() -> None:
    usual = torch_decomposition.select_decomp_table()
    less = {op: rule for op, rule in usual.items() if op is not aten.gelu.default}
    assert registries.decompositions(less) == {"decompositions aten.gelu.default": "removed"}
    assert registries.decompositions(usual | {aten.gelu.default: mine}) == {"decompositions aten.gelu.default": mine}
    other = usual[aten.elu.default]
    assert registries.decompositions(usual | {aten.gelu.default: other}) == {"decompositions aten.gelu.default": other}


def test_a_small_table_is_itself_and_none_is_not_inductors() -> None:
    small = registries.decompositions({aten.gelu.default: mine})
    assert small == {"decompositions": "not Inductor's", "decompositions aten.gelu.default": mine}
    assert registries.decompositions(None) == registries.decompositions({}) == {"decompositions": "not Inductor's"}


GLOBAL = """
import json, sys, torch
from aot_cache.torch_compat import registries
from aot_cache.torch_compat.patches import Patches
registries.start_early()
registries.watch(Patches())
table, gelu = torch._decomp.global_decomposition_table["post_autograd"], torch.ops.aten.gelu.default
steps = [sorted(registries.changes().items())]
if sys.argv[1] == "before":
    del table[gelu]
steps.append(sorted(registries.changes().items()))
import torch._inductor.decomposition
steps.append(sorted(registries.changes().items()))
if sys.argv[1] == "after":
    del table[gelu]
steps.append(sorted(registries.changes().items()))
print(json.dumps(steps))
"""


def test_a_change_of_the_global_decompositions_counts_by_whether_inductor_has_taken_them(
    fresh_process: FreshProcess,
) -> None:
    removed = ["decomposition post_autograd aten.gelu.default", "removed"]
    assert fresh_process(GLOBAL, "before") == [[], [removed], [removed], [removed]]
    assert fresh_process(GLOBAL, "after") == [[], [], [], [[f"late {removed[0]}", "removed"]]]


# The cache does not start with torch.
BY_HAND = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
UNSEEN = """
import json, sys, torch
import torch._inductor.lowering as lowering
if sys.argv[1] == "mine":
    torch._decomp.global_decomposition_table["post_autograd"][torch.ops.aten.gelu.default] = lambda x: x
from aot_cache.torch_compat import registries
from aot_cache.torch_compat.patches import Patches
registries.watch(Patches())
print(json.dumps([registries.unseen(), sorted(registries.changes())]))
"""


def test_tables_that_were_open_before_the_cache_was_on_are_not_trusted(fresh_process: FreshProcess) -> None:
    unseen, found = fresh_process(UNSEEN, "nothing", env=BY_HAND)
    assert "torch._inductor.lowering" in unseen and found == []


def test_a_rule_of_the_users_is_found_in_a_table_that_was_not_watched(fresh_process: FreshProcess) -> None:
    _, found = fresh_process(UNSEEN, "mine", env=BY_HAND)
    assert [name for name in found if "aten.gelu.default" in name]
