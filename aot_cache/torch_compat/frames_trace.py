"""What Dynamo says of a frame while it traces it: what it inlines, reads without a guard, runs, imports and looks for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import torch

from . import frames_guards
from .patches import Patches


@dataclass(frozen=True, eq=False)
class Inlined:
    """A code object that Dynamo traced into, and the globals it used, which call themselves `module`."""

    module: str
    code: CodeType
    globals: dict[str, Any]


@dataclass
class Trace:
    """What Dynamo did with one frame.

    unguarded: sources of what it read without a guard. looped: of dictionaries whose keys it read so. lacking: of
    objects and dictionaries, with what is not there: `attribute NAME`, or `key TEXT`. found: of objects, with the name of
    an attribute that it looked for. checked: of objects, with a class that decides itself what is its instance. met: of
    objects that it met by two sources. doubts: why the result cannot be told from what is recorded.
    graphs: by the name of the global that holds a compiled graph, what the hook noted of it. called: code of others that
    the graphs call as it is. asked: modules, names of attributes, and whether they were there. sought: what was looked for
    among what is installed: how, and its arguments. imports: modules that the code imported, by the global that holds
    each. backend_seconds: how long the backend took.
    """

    seen: frames_guards.Seen | None = None
    inlined: list[Inlined] = field(default_factory=list)
    unguarded: list[Any] = field(default_factory=list)
    looped: list[Any] = field(default_factory=list)
    lacking: list[tuple[Any, str]] = field(default_factory=list)
    found: list[tuple[Any, str]] = field(default_factory=list)
    checked: list[tuple[Any, type]] = field(default_factory=list)
    met: list[Any] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    graphs: dict[str, Any] = field(default_factory=dict)
    backend_seconds: float = 0.0
    called: list[Any] = field(default_factory=list)
    asked: list[tuple[ModuleType, str, bool]] = field(default_factory=list)
    sought: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)


_TRACE: ContextVar[Trace | None] = ContextVar("the frame that Dynamo traces", default=None)


def current() -> Trace | None:
    """The frame that is being traced here, or None."""
    return _TRACE.get()


def traced(compile_it: Callable[[], Any]) -> tuple[Any, Trace]:
    """`compile_it()` and what Dynamo did meanwhile."""
    trace = Trace()
    token = _TRACE.set(trace)
    try:
        return compile_it(), trace
    finally:
        _TRACE.reset(token)


def watch(patches: Patches) -> None:
    """Listen where Dynamo inlines code, reads without guards, folds results, and builds guards."""
    import torch._dynamo.guards as guards
    import torch._dynamo.source as source
    import torch._dynamo.symbolic_convert as convert
    import torch._dynamo.variables.dicts as dicts
    import torch._dynamo.variables.functions as functions
    import torch._dynamo.variables.lists as lists
    import torch._dynamo.variables.misc as misc
    import torch._dynamo.variables.nn_module as nn_module
    import torch._dynamo.variables.tensor as tensor
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    patches.wrap(convert.InliningInstructionTranslator, "__init__", _inline)
    patches.wrap(convert.InstructionTranslatorBase, "import_source", _import)
    patches.wrap(source.SkipGuardSource, "__init__", _read_unguarded)
    for owner in (dicts.ConstDictVariable, lists.CommonListMethodsVariable):
        patches.wrap(owner, "call_method", _loop)
    patches.wrap(tensor.TensorVariable, "var_getattr", _get)
    patches.wrap(misc.PythonModuleVariable, "call_obj_hasattr", _ask)
    patches.wrap(misc.PythonModuleVariable, "var_getattr", _seek)
    patches.wrap(functions.SkipFunctionVariable, "call_function", _call_untraced)
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_VARIABLES}.") and hasattr(module, _ABOUT_TO_RUN):
            patches.wrap(module, _ABOUT_TO_RUN, _run)
    for module in (functions, nn_module):
        patches.wrap(module, "invoke_and_store_as_constant", _fold)
    patches.wrap(guards.CheckFunctionManager, "__init__", _build_guards)
    patches.wrap(ShapeEnv, "produce_guards_verbose", _produce_shapes)
    if hasattr(torch._guards.GuardsContext, "skip_guard_install"):
        patches.wrap(torch._guards.GuardsContext, "skip_guard_install", _skip_guards)


def _inline(original: Callable[..., Any], translator: Any, *args: Any, **kwargs: Any) -> None:
    original(translator, *args, **kwargs)
    if (trace := _TRACE.get()) is not None:
        module = translator.f_globals.get("__name__")
        trace.inlined.append(Inlined(str(module), translator.f_code, translator.f_globals))


def _read_unguarded(original: Callable[..., Any], source: Any, base: Any, *args: Any, **kwargs: Any) -> None:
    original(source, base, *args, **kwargs)
    if (trace := _TRACE.get()) is not None:
        trace.unguarded.append(base)


def _loop(original: Callable[..., Any], variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
    if name in _TAKES_KEYS and (trace := _TRACE.get()) is not None:
        sources = [getattr(value, "source", None) for value in (variable, *args) if _is_dictionary(value)]
        trace.looped += [source for source in sources if source is not None]
    return original(variable, tx, name, args, kwargs)


# Methods that take a dictionary's keys as Dynamo knows them, without a guard; a list's, and its own.
_TAKES_KEYS = frozenset(("extend", "popitem"))


def _is_dictionary(value: Any) -> bool:
    from torch._dynamo.variables import ConstDictVariable

    return isinstance(value, ConstDictVariable)


def _get(original: Callable[..., Any], variable: Any, tx: Any, name: str) -> Any:
    if name == "_base" and (trace := _TRACE.get()) is not None:
        trace.doubts.append("it asks what a tensor is a view of")
    return original(variable, tx, name)


def _seek(original: Callable[..., Any], variable: Any, tx: Any, name: str) -> Any:
    if _TRACE.get() is None or hasattr(variable.value, name):  # what is there gets a guard
        return original(variable, tx, name)
    return _ask(original, variable, tx, name)


def _ask(original: Callable[..., Any], variable: Any, tx: Any, name: str) -> Any:
    if (trace := _TRACE.get()) is not None:
        trace.asked.append((variable.value, name, hasattr(variable.value, name)))
    return original(variable, tx, name)


# Dynamo calls these while it traces, and takes what they find for a constant.
_LOOKS_FOR = {importlib.util.find_spec: "find_spec", importlib.metadata.version: "version"}


def _call_untraced(original: Callable[..., Any], variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    if (trace := _TRACE.get()) is not None and getattr(variable.value, "__module__", None) == "re":
        trace.doubts += [_runs(a.as_python_constant()) for a in args if _is_function(a)]
    if trace is not None and (name := _name_of_look(variable.value)):
        if kwargs or not all(argument.is_python_constant() for argument in args):
            trace.doubts.append(f"`{name}` of something that is not constant")
        else:
            trace.sought.append((name, tuple(argument.as_python_constant() for argument in args)))
    return original(variable, tx, args, kwargs)


def _runs(value: Any) -> str:
    return f"`{getattr(value, '__qualname__', type(value).__qualname__)}` runs while it is traced"


def _is_function(argument: Any) -> bool:
    return argument.is_python_constant() and isinstance(
        argument.as_python_constant(), (FunctionType, MethodType, partial)
    )


def _name_of_look(value: Any) -> str:
    return next((name for function, name in _LOOKS_FOR.items() if function is value), "")


def _fold(original: Callable[..., Any], tx: Any, function: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    if (trace := _TRACE.get()) is not None:
        trace.doubts.append(f"the result of `{name}` is taken for a constant")
    return original(tx, function, name, *args, **kwargs)


def _import(original: Callable[..., Any], translator: Any, module: str) -> Any:
    found = original(translator, module)
    if (trace := _TRACE.get()) is not None:
        trace.imports[found.global_name] = module
    return found


def _run(original: Callable[..., bool], args: Any, kwargs: Any) -> bool:
    """Where Dynamo is about to call something on constants: that must not be able to call a function of the user's."""
    if not original(args, kwargs):
        return False
    if (trace := _TRACE.get()) is not None:
        for name in _CALLED_BACK & kwargs.keys():
            if type(value := kwargs[name].as_python_constant()) not in _HARMLESS:
                trace.doubts.append(_runs(value))
    return True


_VARIABLES, _ABOUT_TO_RUN = "torch._dynamo.variables", "check_unspec_or_constant_args"
# Arguments that are functions, of what Dynamo calls while it traces: max, min, tree_leaves.
_CALLED_BACK = frozenset(("key", "is_leaf"))
_HARMLESS = frozenset((type(None), BuiltinFunctionType, MethodDescriptorType))


def _skip_guards(original: Callable[..., Any], context: Any, *args: Any, **kwargs: Any) -> Any:
    if (trace := _TRACE.get()) is not None:
        trace.doubts.append("Dynamo reads something without a guard")
    return original(context, *args, **kwargs)


def _build_guards(
    original: Callable[..., Any], manager: Any, code: Any, output_graph: Any, *args: Any, **kwargs: Any
) -> None:
    if (trace := _TRACE.get()) is not None:
        trace.seen = frames_guards.look(output_graph)
    original(manager, code, output_graph, *args, **kwargs)


def _produce_shapes(original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
    found = original(env, *args, **kwargs)
    trace, languages = _TRACE.get(), kwargs.get("langs", ("python", "verbose_python"))
    if trace is not None and "python" in languages:
        trace.shapes = list(found[languages.index("python")].exprs)
    return found
