"""What the nodes of a graph call: torch's own operators and functions, told apart from everybody else's."""

from __future__ import annotations

import enum
import sys
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from .kinds import is_a

# Namespaces whose operators are defined and implemented by torch itself.
TORCH_NAMESPACES = frozenset(
    "_c10d_functional _c10d_functional_autograd _dtensor _native _quantized ao aten c10d c10d_functional debug_mode_ops "
    "debugprims export flex_lib fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn prim prims profiler "
    "quantization quantized quantized_decomposed rngprims sparse static_runtime streams symm_mem xnnpack".split()
)


class Kind(enum.Enum):
    TORCH_OP = "an operator of torch"
    CUSTOM_OP = "an operator registered by somebody else"
    HIGHER_ORDER = "a higher-order operator"
    TORCH_FUNCTION = "a function of torch or a builtin"
    OTHER = "code of somebody else"


def kind(target: Any) -> Kind:
    """What `target`, called by a call_function node, is."""
    if is_a(target, (OpOverload, OpOverloadPacket)):
        return Kind.TORCH_OP if namespace(target) in TORCH_NAMESPACES else Kind.CUSTOM_OP
    if is_a(target, HigherOrderOperator):
        return Kind.HIGHER_ORDER
    return Kind.TORCH_FUNCTION if _is_torch_function(target) else Kind.OTHER


def name(target: Any) -> str:
    """The portable name of a target; unique among targets of torch."""
    if is_a(target, (OpOverload, OpOverloadPacket)):
        return f"op {target}"
    if is_a(target, HigherOrderOperator):
        return f"higher-order {type(target).__module__}.{type(target).__qualname__} {target.name()}"
    if _is_numpy_wrapper(target):
        return f"numpy {op_identity_of_numpy(target)}"
    return f"function {_qualified(target)}"


def namespace(op: Any) -> str:
    """`aten` of torch.ops.aten.add.Tensor."""
    if is_a(op, OpOverload):
        return op.namespace
    return op._qualified_op_name.split("::", 1)[0]


def is_cacheable(op: HigherOrderOperator) -> bool:
    """Whether the operator does nothing beyond its operands and bodies, which are in the key."""
    return bool(op.cacheable()) or op.name() in _BODIES_ONLY


# torch has not marked these as cacheable; their bodies are graphs or callables, which the key holds whole.
_BODIES_ONLY = frozenset(
    "associative_scan autograd_function_apply cond foreach_map hints_wrapper inline_asm_elementwise invoke_quant "
    "invoke_quant_packed map_impl out_dtype print scan strict_mode while_loop while_loop_stack_output wrap "
    "wrap_with_autocast wrap_with_set_grad_enabled".split()
)


def schema_has_effects(op: Any) -> bool:
    """Whether torch orders the operator by an effect token."""
    from torch._higher_order_ops.effects import has_effects

    return is_a(op, OpOverload) and bool(has_effects(op))


def _qualified(target: Any) -> str:
    owner = getattr(target, "__module__", None)
    if owner is None:
        bound_to = getattr(target, "__self__", None)
        owner = bound_to.__name__ if hasattr(bound_to, "__name__") else type(bound_to).__qualname__
    return f"{owner}.{getattr(target, '__qualname__', getattr(target, '__name__', repr(type(target))))}"


def _is_torch_function(target: Any) -> bool:
    """Builtins, and Python functions that live in torch and that Dynamo puts into graphs as they are."""
    if type(target).__name__ in ("builtin_function_or_method", "method_descriptor", "wrapper_descriptor"):
        return _is_own_builtin(target)
    if is_a(target, type):
        return target.__module__.split(".")[0] in ("builtins", "torch")
    code = getattr(target, "__code__", None)
    if code is None:
        return _is_numpy_wrapper(target) or _is_backward_node(target)
    # A monkey patch may carry torch's name, but its globals are those of the module it was written in.
    home = target.__globals__.get("__name__", "")
    if home.split(".")[0] != "torch":
        return False
    module = sys.modules.get(target.__module__)
    return getattr(module, target.__name__, None) is target and _dynamo_allows(target)


def _is_own_builtin(target: Any) -> bool:
    module = (getattr(target, "__module__", None) or "").split(".")[0]
    owner = getattr(target, "__self__", None)
    if module in ("torch", "_operator", "operator", "math", "builtins", "_functools"):
        return True
    # torch.addmm and its like are methods of torch's C extension class and carry no module.
    return module == "" and (getattr(owner, "__module__", None) or "").split(".")[0] in ("torch", "builtins")


def _dynamo_allows(target: Any) -> bool:
    from torch._dynamo.trace_rules import torch_non_c_binding_in_graph_functions as in_graph

    full = f"{target.__module__}.{target.__name__}"
    public = target.__module__ in ("torch.functional", "torch.nn.functional") and not target.__name__.startswith("_")
    return public or full in in_graph or full in _SAFE


def _is_numpy_wrapper(target: Any) -> bool:
    from torch._dynamo import utils

    known = getattr(utils, "is_safe_numpy_wrapper", None)
    return known is not None and bool(known(target))


def _is_backward_node(target: Any) -> bool:
    """A node of torch's C++ autograd engine, in a graph of compiled autograd; not one of an extension's function."""
    ours = sys.modules.get("torch._dynamo.compiled_autograd")
    if ours is None or type(target) is not ours.Op or target.is_custom_function:
        return False
    return type(target.fn).__name__ == "builtin_function_or_method"


# Functions that Dynamo puts into graphs and torch's own cache accepts by name.
_SAFE = frozenset(
    {
        "torch.sym_int",
        "torch.sym_float",
        "torch.sym_sum",
        "torch._sym_sqrt",
        "torch.amp.autocast_mode._enter_autocast",
        "torch.amp.autocast_mode._exit_autocast",
        "torch.autograd.grad",
        "torch.distributed.tensor._api.from_local",
    }
)


def op_identity_of_numpy(target: Any) -> str:
    """The name of a NumPy function that Dynamo traces through torch."""
    from torch._dynamo import utils

    return repr(utils.numpy_wrapper_cache_key(target))


def default_namespace_names() -> list[str]:
    """Operator namespaces that exist right after torch was imported, for the test of TORCH_NAMESPACES."""
    return sorted({schema.name.split("::")[0] for schema in torch._C._jit_get_all_schemas()})
