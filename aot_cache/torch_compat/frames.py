"""The seam at which Dynamo hands a frame to its compile step, and what it says of a frame while it traces it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any, Protocol

import torch

from ..errors import HookMismatch
from . import frames_guards, frames_state
from .late import AfterImport
from .patches import Patches

MODULE = "torch._dynamo.convert_frame"
PREFIX = "f-"
"""Names of stored frames start so."""


@dataclass(frozen=True, eq=False)
class Inlined:
    """A code object that Dynamo traced into, and the globals it used, which call themselves `module`."""

    module: str
    code: CodeType
    globals: dict[str, Any]


@dataclass
class Trace:
    """What Dynamo did with one frame.

    unguarded: sources of what it read without a guard. doubts: why the result cannot be told from what is recorded.
    graphs: by the name of the global that holds a compiled graph, what the hook noted of it. called: code of others that
    the graphs call as it is. asked: modules, names of attributes, and whether they were there. sought: what was looked for
    among what is installed: how, and its arguments. backend_seconds: how long the backend took.
    """

    seen: frames_guards.Seen | None = None
    inlined: list[Inlined] = field(default_factory=list)
    unguarded: list[Any] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    graphs: dict[str, Any] = field(default_factory=dict)
    backend_seconds: float = 0.0
    called: list[Any] = field(default_factory=list)
    asked: list[tuple[ModuleType, str, bool]] = field(default_factory=list)
    sought: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)


@dataclass
class Call:
    """One call of Dynamo's compile step; `settings` are the arguments of torch.compile, None for other backends."""

    code: CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]
    closure: Any
    full_graph: bool
    backend: Any
    settings: dict[str, Any] | None
    hooks: Any
    cache_entries: Any
    cache_size: Any
    compile_id: Any
    package: Any
    export: bool

    def scope(self) -> dict[str, Any]:
        return {"L": self.locals, "G": self.globals}

    def obstacle(self) -> str:
        """Why this call cannot be answered from a store; '' if it can."""
        if self.export or self.package is not None:
            return "torch.export or torch's own precompile compiles it"
        for name in ("guard_export_fn", "guard_fail_fn", "guard_filter_fn", "frame_traced_fn"):
            if getattr(self.hooks, name, None) is not None:
                return f"the hook {name} is set"
        return frames_state.active()


class Seam(Protocol):
    def compile(self, call: Call, compile_it: Callable[[], Any]) -> Any:
        """Dynamo's result for the frame: from a store, or what `compile_it()` returns."""


_TRACE: ContextVar[Trace | None] = ContextVar("the frame that Dynamo traces", default=None)
_ARGUMENTS = ("code", "globals", "locals", "closure", "compiler_fn", "one_graph", "export", "hooks", "cache_entries")
_ARGUMENTS += ("cache_size", "compile_id", "package")


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


def join(seam: Seam, patches: Patches, failed: Callable[[Exception], None]) -> AfterImport:
    """Put `seam` in place once Dynamo is imported; `failed` hears why if that cannot be done."""

    def act(module: Any) -> None:
        try:
            _patch(module, seam, patches)
        except Exception as error:  # torch's own import must not fail with ours
            patches.undo()
            failed(error)

    return AfterImport(MODULE, act)


def _patch(module: Any, seam: Seam, patches: Patches) -> None:
    signature = inspect.signature(module._compile)
    lacking = [name for name in _ARGUMENTS if name not in signature.parameters]
    if lacking:
        raise HookMismatch(f"torch {torch.__version__}: convert_frame._compile takes no {', '.join(lacking)}")

    def compile_(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return seam.compile(_call(given.arguments), lambda: original(*args, **kwargs))

    patches.wrap(module, "_compile", compile_)
    _watch(patches)


def _call(given: dict[str, Any]) -> Call:
    return Call(
        code=given["code"],
        globals=given["globals"],
        locals=given["locals"],
        closure=given["closure"],
        full_graph=given["one_graph"],
        backend=given["compiler_fn"],
        settings=frames_state.backend_settings(given["compiler_fn"]),
        hooks=given["hooks"],
        cache_entries=given["cache_entries"],
        cache_size=given["cache_size"],
        compile_id=given["compile_id"],
        package=given["package"],
        export=given["export"],
    )


def _watch(patches: Patches) -> None:
    """Listen where Dynamo inlines code, reads without guards, folds results, and builds guards."""
    import torch._dynamo.guards as guards
    import torch._dynamo.source as source
    import torch._dynamo.symbolic_convert as convert
    import torch._dynamo.variables.functions as functions
    import torch._dynamo.variables.misc as misc
    import torch._dynamo.variables.nn_module as nn_module
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    patches.wrap(convert.InliningInstructionTranslator, "__init__", _inline)
    patches.wrap(source.SkipGuardSource, "__init__", _read_unguarded)
    patches.wrap(misc.PythonModuleVariable, "call_obj_hasattr", _ask)
    patches.wrap(misc.PythonModuleVariable, "var_getattr", _seek)
    patches.wrap(functions.SkipFunctionVariable, "call_function", _call_untraced)
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
    if (trace := _TRACE.get()) is not None and (name := _name_of_look(variable.value)):
        if kwargs or not all(argument.is_python_constant() for argument in args):
            trace.doubts.append(f"`{name}` of something that is not constant")
        else:
            trace.sought.append((name, tuple(argument.as_python_constant() for argument in args)))
    return original(variable, tx, args, kwargs)


def _name_of_look(value: Any) -> str:
    return next((name for function, name in _LOOKS_FOR.items() if function is value), "")


def _fold(original: Callable[..., Any], tx: Any, function: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    if (trace := _TRACE.get()) is not None:
        trace.doubts.append(f"the result of `{name}` is taken for a constant")
    return original(tx, function, name, *args, **kwargs)


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
