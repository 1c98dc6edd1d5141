"""Operators that somebody else defined, and torch's own that somebody gave other kernels: all that is registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.fake_impl import FakeImplHolder
from torch._library.simple_registry import singleton
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from . import registrations, targets
from .kinds import is_a

TORCH_DIRECTORY = os.path.dirname(torch.__file__) + os.sep
_THEIR_OWN = os.path.join(TORCH_DIRECTORY, "_library", "custom_ops.py")
_OFFERED = os.path.join(TORCH_DIRECTORY, "library.py")
# Here torch itself registers with the functions that it offers to users.
_REGISTERED_LIKE_USERS = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "debugprims")
_COMPILED = (".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hpp", ".hip", ".mm")
_FIRST_CALL = "call `import torch` with aot_cache installed, or aot_cache.enable(), before registering it"


class UnknownKernel(Exception):
    """An operator has a kernel in Python that cannot be found."""

    remedy = _FIRST_CALL


def custom(value: Any) -> list[OpOverload] | None:
    """The operators behind `value` if somebody else defined them; None for anything else."""
    if is_a(value, CustomOpDef):
        value = value._opoverload
    if not is_a(value, (OpOverload, OpOverloadPacket)) or targets.kind(value) is not targets.Kind.CUSTOM_OP:
        return None
    return [value] if is_a(value, OpOverload) else [getattr(value, name) for name in value.overloads()]


def full_name(target: Any) -> str:
    """The name by which `named` finds an operator: `mylib::foo` of a packet, `mylib::foo.default` of an overload."""
    if is_a(target, OpOverload):
        return f"{target._schema.name}.{target._overloadname}"
    return str(target._qualified_op_name)


def named(name: str) -> Any:
    """The operator of this name, an overload if the name has one; None if there is none."""
    space, _, rest = name.partition("::")
    name, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), name, None)
    return getattr(found, overload, None) if overload and found is not None else found


def module_named(name: str) -> Any:
    """The module that is loaded under `name`, for which `torch.ops.mylib` counts too; None if there is none."""
    parent, _, space = name.rpartition(".")
    return getattr(torch.ops, space) if parent == "torch.ops" else sys.modules.get(name)


def definition(op: OpOverload) -> dict[str, Any]:
    """All that is registered for `op`: texts, callables, and under "native" the C++ sources of its compiled kernels.

    Raises:
        UnknownKernel: a kernel is Python code of which torch keeps no reference.
    """
    name = op._name.removesuffix(".default")
    found: dict[str, Any] = {
        "schema": str(op._schema),
        "tags": sorted(str(tag) for tag in op.tags),
        "rules": _tables(op),
    }
    if (own := OPDEFS.get(name)) is not None:
        found["definition"] = _definition(own)
    if (entry := singleton.get(name)) is not None:
        found["effect"] = str(entry.effect.effect)
        found["symmetric memory"] = sorted(entry.symm_mem_args.get() or ())
        if own is None:
            found["fake"] = _fake(entry)
            found["dispatch"] = dict(entry.torch_dispatch_rules._data)
    found["kernels"], found["native"] = _kernels(name, own is not None)
    return found


def _definition(own: CustomOpDef) -> dict[str, Any]:
    """What the methods of a `torch.library.custom_op` registered."""
    return {
        "default": own._init_fn,
        "devices": {str(device): _inner(fn) for device, fn in own._backend_fns.items()},
        "fake": own._abstract_fn,
        "backward": own._backward_fn,
        "setup_context": own._setup_context_fn,
        "dispatch": dict(own._torch_dispatch_fns),
        "vmap": own._vmap_fn,
        "autocast": {device: str(dtype) for device, dtype in own._autocast_dtype.items()},
        "disabled": sorted(map(str, own._disabled_kernel)),
    }


def _inner(wrapper: Any) -> Any:
    """The user's function in torch's wrapper that chooses between kernels."""
    inner = getattr(wrapper, "__wrapped__", wrapper)
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or ()))
    return cells["fn"].cell_contents if "fn" in cells else wrapper


def _tables(op: Any) -> dict[str, Any]:
    """Python implementations that hang on the operator object itself."""
    tables = {**op.py_kernels, **op.python_key_table, **getattr(op, "functorch_table", {})}
    return {_key(key): fn for key, fn in tables.items()}


def _key(key: Any) -> str:
    return f"{key.__module__}.{key.__qualname__}" if is_a(key, type) else str(key)


def _kernels(name: str, defined: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Active kernels by dispatch key: Python functions, and source files of compiled ones.

    defined: what `torch.library.custom_op` registers itself is left out.
    """
    known = registrations.of(name)
    python, native = {}, {}
    for key, file in _registered(name):
        if _is_python(file):
            if defined and file == _THEIR_OWN:
                continue
            if key not in known:
                raise UnknownKernel(
                    f"operator {name}: its {key} kernel was registered before it could be seen ({file})"
                )
            if not _is_fake(known[key].function):
                python[key] = known[key].function
        else:
            native[key] = file
    return python, native


def _registered(name: str) -> Iterator[tuple[str, str]]:
    """Dispatch key and file of every active kernel, as torch reports them."""
    for line in torch._C._dispatch_dump(name).splitlines():
        key, separator, rest = line.partition(": registered at ")
        if separator and key != "debug" and not key.endswith("(inactive)"):
            yield key.removesuffix("[alias]"), rest.partition(" :: ")[0].rpartition(":")[0]


def _is_python(file: str) -> bool:
    """Whether a kernel is Python code, by the file that registered it; `torch.library._impls` forgets redefinitions."""
    return not file.endswith(_COMPILED)


def _fake(entry: Any) -> Any:
    """The function given to register_fake, without torch's wrapper, which remembers whether it was called."""
    function = None if entry.fake_impl.kernel is None else entry.fake_impl.kernel.func
    if getattr(function, "__qualname__", "").startswith("_check_pystubs_once."):
        return dict(zip(function.__code__.co_freevars, function.__closure__))["func"].cell_contents
    return function


def _is_fake(function: Any) -> bool:
    """Whether it is torch's wrapper of a function given to register_fake, which is taken from there."""
    return getattr(function, "__globals__", {}).get("__name__") == FakeImplHolder.__module__


def overrides() -> dict[str, dict[str, Any]]:
    """What code outside torch registered for torch's own operators, and as fallbacks, by operator and key.

    Raises:
        UnknownKernel: something was registered before it could be seen.
    """
    found = {}
    for name, kernels in registrations.users().items():
        if name.partition("::")[0] in targets.TORCH_NAMESPACES or "::" not in name:
            found[name] = {_key(k): kernel.function for k, kernel in kernels.items() if not _is_fake(kernel.function)}
            if (entry := singleton.get(name)) is not None and entry.fake_impl.kernel is not None:
                found[name]["fake"] = _fake(entry)
    if fallbacks := registrations.fallbacks():
        found["fallbacks"] = {str(key): kernel.function for key, kernel in fallbacks.items()}
    if fakes := _fakes_in_tables():
        found["fake tensors"] = fakes
    if not registrations.is_complete():
        _refuse_unseen(found)
    return found


def _fakes_in_tables() -> dict[str, Any]:
    """What code outside torch put into the tables by which FakeTensor computes shapes, by operator or by condition."""
    from torch._subclasses import fake_impls

    from .compilers import is_torch

    found = {f"of {op}": fn for op, fn in fake_impls.op_implementations_dict.items() if not is_torch(fn)}
    pairs = [pair for pair in fake_impls.op_implementations_checks if not is_torch(pair[1])]
    for number, (condition, implementation) in enumerate(pairs):
        found |= {f"condition {number}": condition, f"implementation {number}": implementation}
    return found


_checked: dict[int, bool] = {}


def _refuse_unseen(seen: Mapping[str, Any]) -> None:
    """Look through torch's own operators for kernels of others; needed only if registrations were not watched."""
    size = len(torch.library._impls)
    if size in _checked:
        return
    for name in {"::".join(text.split("/")[:2]) for text in torch.library._impls}:
        if name.partition("::")[0] not in targets.TORCH_NAMESPACES or name in seen:
            continue
        for key, file in _registered(name):
            offered = file == _OFFERED and name.partition("::")[0] not in _REGISTERED_LIKE_USERS
            if _is_python(file) and (offered or not file.startswith(TORCH_DIRECTORY)):
                raise UnknownKernel(f"operator {name}: its {key} kernel is not torch's ({file})")
    _checked[size] = True


def foreign_rules(op: HigherOrderOperator) -> dict[str, Any]:
    """The class and the rules of a higher-order operator, as far as they are not torch's."""
    from .compilers import is_torch

    found = {} if type(op).__module__.startswith("torch.") else {"class": type(op)}
    return found | {key: rule for key, rule in _tables(op).items() if not is_torch(rule)}


def loaded_libraries() -> list[str]:
    """Paths of the libraries that were loaded with torch.ops.load_library."""
    return sorted(torch.ops.loaded_libraries)
