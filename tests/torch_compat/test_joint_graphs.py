"""Joint graphs as plain data: what comes back is what was taken, node for node, and the rest is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from aot_cache.errors import EnvelopeError, NotSerializable
from aot_cache.torch_compat import joint_graphs

SOURCE = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))


def traced(function: Callable[..., Any], *shapes: tuple[int, ...], mode: FakeTensorMode | None = None) -> GraphModule:
    with mode or FakeTensorMode():
        return make_fx(function)(*(torch.empty(shape) for shape in shapes))


def there_and_back(joint: GraphModule, source: GraphModule = SOURCE) -> GraphModule:
    plain = json.loads(json.dumps(joint_graphs.take(joint, source)))
    return joint_graphs.rebuild(plain, source, FakeTensorMode())


def chunks(x, y):  # type: ignore[no-untyped-def]
    first, second = x.transpose(0, 1).chunk(2)
    return torch.cat([first, second * 2.5 + float("inf")], dim=-1), y.to(torch.float64)[1:, ::2].sum((0,), True)


def everything(joint: GraphModule) -> str:
    return json.dumps(joint_graphs.take(joint, SOURCE))


def test_nodes_arguments_and_annotations_come_back() -> None:
    joint = traced(chunks, (4, 6), (8, 8))
    next(node for node in joint.graph.nodes if node.op == "call_function").meta["custom"] = {
        "aot_cache.offload": "must"
    }
    back = there_and_back(joint)
    assert everything(back) == everything(joint)
    assert str(back.graph) == str(joint.graph)
    x, y = torch.randn(4, 6), torch.randn(8, 8)
    assert all(map(torch.equal, back(x, y), joint(x, y)))


def test_values_share_storages_as_they_did() -> None:
    back = there_and_back(traced(lambda x: (x.t(), x.relu().view(-1)), (4, 6)))
    values = [node.meta["val"] for node in back.graph.nodes if node.op != "output"]
    by_name = {node.name: node.meta["val"] for node in back.graph.nodes if node.op != "output"}
    assert len({value.untyped_storage()._cdata for value in values}) == 2
    assert by_name["t"].stride() == (1, 6)
    assert by_name["t"].untyped_storage()._cdata == by_name["x_1"].untyped_storage()._cdata
    assert by_name["view"].untyped_storage()._cdata == by_name["relu"].untyped_storage()._cdata


def test_what_names_the_users_code_is_that_of_the_graph_at_hand() -> None:
    def source(name: str) -> GraphModule:
        module = torch.fx.symbolic_trace(torch.nn.ReLU())
        for node in module.graph.nodes:
            node.meta["nn_module_stack"] = {"1": (name, type(name, (), {}))}
        return module

    old, new = source("Old"), source("New")
    joint = traced(torch.relu, (4,))
    (relu,) = (node for node in joint.graph.nodes if node.op == "call_function")
    relu.meta["nn_module_stack"] = dict(next(iter(old.graph.nodes)).meta["nn_module_stack"])
    plain = joint_graphs.take(joint, old)
    back = joint_graphs.rebuild(plain, new, FakeTensorMode())
    (node,) = (node for node in back.graph.nodes if node.op == "call_function")
    assert node.meta["nn_module_stack"] == next(iter(new.graph.nodes)).meta["nn_module_stack"]
    with pytest.raises(EnvelopeError):
        joint_graphs.rebuild(plain, SOURCE, FakeTensorMode())


def _symbolic() -> GraphModule:
    return make_fx(lambda x: x.view(-1) * 2, tracing_mode="symbolic")(torch.randn(3, 4))


def _constant() -> GraphModule:
    return make_fx(lambda x: x + torch.tensor([1.0, 2.0]))(torch.randn(2))


def _nested() -> GraphModule:
    return make_fx(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))(torch.randn(2))


def _real() -> GraphModule:
    joint = traced(torch.relu, (4,))
    next(iter(joint.graph.nodes)).meta["val"] = torch.randn(4)
    return joint


def _annotated() -> GraphModule:
    joint = traced(torch.relu, (4,))
    next(iter(joint.graph.nodes)).meta["custom"] = {"mine": object()}
    return joint


def _function() -> GraphModule:
    joint = traced(torch.relu, (4,))
    next(node for node in joint.graph.nodes if node.op == "call_function").target = torch.relu
    return joint


@pytest.mark.parametrize("make", [_symbolic, _constant, _nested, _real, _annotated, _function])
def test_what_might_not_come_back_exactly_is_refused(make: Callable[[], GraphModule]) -> None:
    joint = make()
    with pytest.raises(NotSerializable):
        joint_graphs.take(joint, SOURCE)


@pytest.mark.parametrize("plain", [{"target": "sin.sin.sin"}, {"dtype": "strided"}, {"descriptor": ["field"]}])
def test_names_lead_to_nothing_but_what_is_meant(plain: Any) -> None:
    taken = joint_graphs.take(traced(torch.relu, (4,)), SOURCE)
    taken["meta"] = [["any", plain]]
    with pytest.raises((EnvelopeError, AttributeError)):
        joint_graphs.rebuild(taken, SOURCE, FakeTensorMode())
