"""Code of others inside torch's compiler: monkey patches and patterns, and nothing of torch's own."""

from __future__ import annotations

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
