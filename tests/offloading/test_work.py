from __future__ import annotations

import torch.nn.functional as F
from torch.fx import Node

from aot_cache.offloading.costs import Roofline
from aot_cache.offloading.storages import Pair
from aot_cache.offloading.work import seconds

from .test_storages import cut, leaf

# One second an operation, and one a byte.
OPERATIONS = Roofline(flops=1.0, bandwidth=1e30, overhead=0.0)
BYTES = Roofline(flops=1e30, bandwidth=1.0, overhead=0.5)


def calls(pair: Pair) -> dict[str, Node]:
    nodes = (*pair.forward.graph.nodes, *pair.backward.graph.nodes)
    return {node.name: node for node in nodes if node.op == "call_function"}


def test_attention_on_the_cpu_computes_as_much_as_elsewhere() -> None:
    q, k, v = (leaf(2, 4, 64, 16) for _ in range(3))
    found = calls(cut(lambda q, k, v: F.scaled_dot_product_attention(q, k, v).sum(), q, k, v))
    product = 2 * 2 * 4 * 64 * 64 * 16
    costs = {name: seconds(node, OPERATIONS) for name, node in found.items() if "attention" in name}
    assert sorted(costs.values()) == [2 * product, 5 * product]


def test_what_is_fused_moves_no_bytes_where_it_is_made_and_where_it_is_read() -> None:
    found = calls(cut(lambda x: (x @ x).sin().exp().sum(), leaf(8, 8)))
    sin, exp = found["sin"], found["exp"]
    assert [seconds(node, BYTES) for node in (sin, exp)] == [512.5, 512.5]
    assert [seconds(node, BYTES, {sin}) for node in (sin, exp)] == [256.0, 256.5]
