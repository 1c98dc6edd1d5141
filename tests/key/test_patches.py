"""Code of others inside torch's compiler: monkey patches and patterns, and nothing of torch's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx as compile_fx
import torch._inductor.graph as graph
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

from aot_cache.key.build import identify
from aot_cache.key.patches import patches
from aot_cache.torch_compat import compilers, lowering

aten = torch.ops.aten


def test_nothing_of_torch_counts() -> None:
    joint_graph.lazy_init()
    post_grad.lazy_init()
    assert patches() == {}
    assert lowering.user_patterns() == {}
    assert len(lowering._pattern_passes()) > 20


def identified() -> dict[str, str]:
    return {place: identify(value) for place, value in patches().items()}


PATCHED = "patch of torch._inductor.compile_fx._recursive_post_grad_passes"


def test_a_patched_function_counts_until_it_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compile_fx._recursive_post_grad_passes
    monkeypatch.setattr(compile_fx, "_recursive_post_grad_passes", lambda *args: original(*args))
    found = identified()
    assert list(found) == [PATCHED]
    monkeypatch.setattr(compile_fx, "_recursive_post_grad_passes", lambda *args: None)
    assert identified().keys() == found.keys()
    assert identified() != found
    monkeypatch.undo()
    assert patches() == {}


@pytest.mark.parametrize("wrap", [lambda f: f, staticmethod, classmethod, property, partial])
def test_a_patched_method_counts(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]) -> None:
    monkeypatch.setattr(graph.GraphLowering, "run", wrap(lambda *args: None))
    assert list(patches()) == ["patch of torch._inductor.graph.GraphLowering.run"]


def test_what_a_patch_reads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def patch(factor: float, table: dict[str, int]) -> dict[str, str]:
        def helper() -> Any:
            return factor, table

        monkeypatch.setattr(compile_fx, "_recursive_post_grad_passes", lambda *args: helper())
        return identified()

    found = patch(2.0, {"a": 1})
    assert patch(2.0, {"a": 1}) == found
    assert patch(3.0, {"a": 1}) != found != patch(2.0, {"a": 2})


class Lowering(graph.GraphLowering):
    pass


@pytest.mark.parametrize("value", [Lowering, Lowering.__new__(Lowering)], ids=["class", "object"])
def test_a_class_or_object_in_the_place_of_a_class_counts(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    monkeypatch.setattr(compile_fx, "GraphLowering", value)
    assert patches() == {"patch of torch._inductor.compile_fx.GraphLowering": value}


@pytest.mark.parametrize(
    ("owner", "name"), [(torch.Tensor, "sin"), (torch.nn.Parameter, "__add__"), (torch.nn.functional, "avg_pool2d")]
)
def test_what_a_graph_calls_by_name_counts(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    monkeypatch.setattr(owner, name, lambda *args: None, raising=False)
    (found,) = patches()
    assert found.endswith(name)


def test_what_no_compile_calls_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "save", lambda *args: None)
    assert patches() == {}


def test_a_pattern_of_the_user_counts() -> None:
    passes: PatternMatcherPass = post_grad.pass_patterns[1]
    before = {key: list(entries) for key, entries in passes.patterns.items()}

    @register_graph_pattern(CallFunction(aten.tan.default, KeywordArg("x")), pass_dict=passes)
    def replace(match: Any, x: Any) -> None:
        pass

    try:
        (name,) = lowering.user_patterns()
        assert name.startswith("torch._inductor.fx_passes.post_grad.pass_patterns[1] call_function aten.tan.default 0 ")
        assert lowering.user_patterns()[name] is replace
    finally:
        passes.patterns.clear()
        passes.patterns.update(before)
    assert lowering.user_patterns() == {}


def test_callable_objects_in_a_closure_of_torch_are_found() -> None:
    class Mine:
        def __call__(self) -> None:
            pass

    mine = Mine()
    wrapped = torch._disable_dynamo(mine)
    assert list(compilers.foreign_callables(wrapped)) == [mine]


def patched(monkeypatch: pytest.MonkeyPatch, value: Any) -> dict[str, str]:
    with monkeypatch.context() as inner:
        inner.setattr(graph, "is_wordsize", value, raising=False)
        return identified()


def with_constant(constant: Any) -> Callable[..., Any]:
    return lambda *args: constant


class Callable_:
    def __init__(self, result: int = 1) -> None:
        self.result = result

    def __call__(self, *args: Any) -> int:
        return 1


class Other_(Callable_):
    def __call__(self, *args: Any) -> int:
        return 2


def helper() -> int:
    return 1


def calls_a_helper(*args: Any) -> int:
    return helper()


PATCHES: dict[str, Any] = {
    "closure": with_constant(2),
    "other closure": with_constant(3),
    "operator": with_constant(aten.sin.default),
    "other operator": with_constant((aten.cos.default,)),
    "dtype in a tuple": with_constant((torch.float32, aten.sin.default)),
    "partial": functools.partial(with_constant(2), 1),
    "partial of another": functools.partial(with_constant(3), 1),
    "partial with another argument": functools.partial(with_constant(3), 2),
    "object": Callable_(),
    "object of another class": Other_(),
    "class": Callable_,
    "another class": Other_,
    "method": Callable_().__call__,
    "function with a helper": calls_a_helper,
}


def test_all_kinds_of_callables_count_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [patched(monkeypatch, value) for value in PATCHES.values()]
    assert all(list(one) == ["patch of torch._inductor.graph.is_wordsize"] for one in found)
    assert all(found.count(one) == 1 for one in found)
    assert found == [patched(monkeypatch, value) for value in PATCHES.values()]
    assert patches() == {}


def test_what_a_patch_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = patched(monkeypatch, calls_a_helper)
    monkeypatch.setitem(globals(), "helper", lambda: 2)
    assert patched(monkeypatch, calls_a_helper) != before


def test_a_patch_from_an_installed_distribution_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patched(monkeypatch, pytest.approx) != {}
