"""An FX graph as bytes: what is computed, without the names that the user's program happens to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..outcome import Reason
from ..torch_compat import distributed, targets, tensors, triton
from .encode import CannotKey, Encoder
from .parts import KeyPart
from .names import names
from .safety import check, source_line

# What Dynamo notes on nodes and graphs for messages, or derives from the graph. Anything else on them counts.
_NEUTRAL_NODE_META = frozenset(
    "creation_timestamp example_value from_node fwd_nn_module_stack fwd_source_fn_stack grapharg nn_module_stack "
    "original_aten seq_nr source_fn_stack stack_trace tensor_dict tensor_meta torch_fn unbacked_bindings val "
    "is_wrapped".split()
)
_NEUTRAL_GRAPH_META = frozenset(
    "backend_id dynamo_compile_id dynamo_flat_name_to_original_fqn source_code_hash forward_signature".split()
)

# Torch's build, which is in the key, stands for the code of these.
_NAMED_KINDS = (targets.Kind.TORCH_OP, targets.Kind.TORCH_FUNCTION)

Identify = Callable[[Any], str]
"""A portable identity of a Python callable or class; raises CannotKey."""


def graph_part(module: GraphModule, symbols: tensors.Symbols, identify: Identify, is_read: bool = False) -> KeyPart:
    """The key part of a graph that Dynamo captured.

    is_read: whether code of somebody else takes part in the compile, which may act on the names that nodes carry.

    Raises:
        CannotKey: some node is not known to be covered by the key.
    """
    walk = _Walk(symbols, identify, is_read)
    walk.module(module)
    # One line for each, so that a difference names the operator.
    calls = {f"calls {name}": str(count) for name, count in sorted(walk.calls.items())}
    return KeyPart.of("graph", walk.encoder.bytes(), {"nodes": str(walk.nodes)} | calls)


class _Walk:
    """One pass over a module and the modules nested in it."""

    def __init__(self, symbols: tensors.Symbols, identify: Identify, is_read: bool) -> None:
        self.encoder = Encoder(self._extend)
        self.calls: Counter[str] = Counter()
        self.nodes = 0
        self._symbols, self._identify, self._is_read = symbols, identify, is_read
        self._index: dict[Node, int] = {}
        self._modules: dict[int, int] = {}
        self._known: dict[int, tuple[Any, str]] = {}
        self._at: Node | None = None

    def module(self, module: GraphModule) -> None:
        if (seen := self._modules.get(id(module))) is not None:
            return self.encoder.text("module-again", str(seen))
        self._modules[id(module)] = len(self._modules)
        self.encoder.text("module", str(len(module.graph.nodes)))
        lifted = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        positions = {name: i for i, (name, _) in enumerate(lifted)}
        reached: set[str] = set()
        for node in module.graph.nodes:
            self._node(node, module, positions, reached)
        self._meta("module-meta", module.meta, _NEUTRAL_GRAPH_META)
        # Saved-tensor hooks hang on the module without being called by it.
        for name, child in sorted(module.named_children()):
            if name not in reached and isinstance(child, GraphModule):
                self.encoder.text("child", name)
                self.module(child)

    def _node(self, node: Node, module: GraphModule, positions: dict[str, int], reached: set[str]) -> None:
        check(node)
        self._at = node
        self.nodes += 1
        self._index[node] = len(self._index)
        self.encoder.text("op", node.op)
        try:
            if node.op == "get_attr":
                reached.add(str(node.target))
                self._attribute(module, str(node.target), positions)
            else:
                self._call(node)
            self._meta("meta", node.meta, _NEUTRAL_NODE_META)
            if self._is_read:
                for name in names(node):
                    self.encoder.text("name", name)
        except CannotKey as error:
            place = source_line(node)
            detail = error.detail if not place or place in error.detail else f"{error.detail}, at {place}"
            raise CannotKey(error.reason, detail, error.remedy) from error

    def _call(self, node: Node) -> None:
        if node.op == "call_function":
            self._target(node.target)
        elif node.op == "call_method":
            self.encoder.text("method", node.target if isinstance(node.target, str) else targets.name(node.target))
            self.calls[f".{node.target}"] += 1
        if node.op == "placeholder" and not node.args:
            return
        self.encoder.value(node.args)
        kwargs = triton.arguments(getattr(node.target, "__name__", ""), node.kwargs)
        self.encoder.value({key: kwargs[key] for key in sorted(kwargs)})

    def _target(self, target: Any) -> None:
        name = targets.name(target)
        self.encoder.text("target", name)
        if targets.kind(target) not in _NAMED_KINDS:
            self.encoder.text("identity", self._identity(target))
        self.calls[name.rsplit(".", 1)[-1] if name.startswith("function") else name.split(" ", 1)[1]] += 1

    def _attribute(self, module: GraphModule, path: str, positions: dict[str, int]) -> None:
        if path in positions:
            return self.encoder.text("lifted", str(positions[path]))
        value: Any = module
        for name in path.split("."):
            value = getattr(value, name)
        self.encoder.value(value)

    def _meta(self, tag: str, meta: dict[str, Any], neutral: frozenset[str]) -> None:
        for key in sorted(k for k in meta if k not in neutral):
            self.encoder.text(tag, key)
            self.encoder.value(meta[key])

    def _extend(self, encoder: Encoder, value: Any) -> bool:
        if isinstance(value, Node):
            encoder.text("node", str(self._index[value]))
        elif isinstance(value, GraphModule):
            self.module(value)
        elif isinstance(value, torch.Size):
            encoder.value(tuple(value))
        elif tensors.is_tensor(value):
            self._constant(encoder, value)
        elif tensors.is_symbolic(value):
            encoder.text("symbolic", self._symbols.text(value))
        elif isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            encoder.text("torch", str(value))
        elif (known := distributed.described(value)) is not None:
            encoder.value(known)
        elif callable(value) or triton.is_kernel(value):
            self._callable(encoder, value)
        else:
            return False
        return True

    def _constant(self, encoder: Encoder, tensor: torch.Tensor) -> None:
        try:
            data = tensors.contents(tensor)
        except ValueError as error:
            raise CannotKey(Reason.UNKNOWN_OBJECT, str(error)) from None
        encoder.value(tensors.describe(tensor, self._symbols))
        encoder.tag("values", data)

    def _callable(self, encoder: Encoder, value: Any) -> None:
        if targets.kind(value) in _NAMED_KINDS:
            encoder.text("callable", targets.name(value))
        else:
            encoder.text("identity", self._identity(value))

    def _identity(self, value: Any) -> str:
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._identify(value))
        return self._known[id(value)][1]
