"""Dynamo's result for a frame, taken apart and put in place again: bytecode, the globals it loads, its graphs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from .frames import Call, Trace

_GRAPH, _RESUME, _BUILTINS = "__compiled_fn_", "__resume_at_", "__builtins_dict__"


class UnknownGlobal(Exception):
    """The bytecode loads something that cannot be put in place in another process; says what."""


@dataclass
class Plain:
    """What to install. code: the bytecode. resumes: by global, the code of what runs after a graph break.

    modules: globals that hold a module, by its name. graphs: globals that hold a compiled graph. builtins: the global
    that holds the builtins, "" without one. effects: names of side effects that the bytecode replays.
    """

    code: CodeType
    resumes: dict[str, CodeType] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    graphs: list[str] = field(default_factory=list)
    builtins: str = ""
    effects: list[str] = field(default_factory=list)


def guarded_code(result: Any) -> Any:
    """The code and guards in Dynamo's result, None if it skips the frame."""
    return getattr(result, "guarded_code", None)


def take(call: Call, trace: Trace, result: Any, earlier: frozenset[str]) -> Plain:
    """What Dynamo installed for the frame; `earlier`: globals that compiles of this process added to these globals.

    Raises:
        UnknownGlobal: it is of a kind that cannot be rebuilt.
    """
    seen, code = trace.seen, guarded_code(result).code
    assert seen is not None
    # Of what was imported in an attempt that Dynamo gave up, something may have been read.
    plain = Plain(code, builtins=seen.builtins or "", imports={**trace.imports, **seen.imports})
    for name in seen.installed:
        _sort(name, call.globals.get(name), call, plain)
    known = {*seen.installed, *plain.imports}
    for user in (code, *plain.resumes.values()):
        _check_names(user, known if user is code else set(plain.imports), earlier, user is code)
    _check_graph(seen.graph)
    plain.effects = [str(name) for name in _effects(code)]
    return plain


def _sort(name: str, value: Any, call: Call, plain: Plain) -> None:
    if name.startswith(_GRAPH):
        plain.graphs.append(name)
    elif name.startswith(_RESUME):
        code, names = _resume(value)
        if names is not call.globals:
            raise UnknownGlobal("code that resumes in another module")
        plain.resumes[name] = code
    elif isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
        plain.modules[name] = value.__name__
    elif name != plain.builtins:
        raise UnknownGlobal(f"the global {name}, a {type(value).__name__}")


def _resume(value: Any) -> tuple[CodeType, Any]:
    """Code and globals of a function that resumes, or of the factory that makes it around its cells."""
    if not isinstance(value, FunctionType):
        raise UnknownGlobal(f"a resume function of type {type(value).__name__}")
    if value.__code__.co_name != "_make_fn":
        return value.__code__, value.__globals__
    cells = dict(zip(value.__code__.co_freevars, (cell.cell_contents for cell in value.__closure__ or ())))
    return cells["code"], cells["f_globals"]


def _check_names(code: CodeType, known: set[str], earlier: frozenset[str], whole: bool) -> None:
    """Every global that `code` loads and that Dynamo made must be one of `known`; no other place may name one."""
    for part in parts(code):
        for name in part.co_names:
            if name in earlier and name not in known:
                raise UnknownGlobal(f"the global {name}, which another compile made")
        for const in part.co_consts:
            if type(const) is str and const in earlier and const.startswith("__"):
                raise UnknownGlobal(f"the global {const} by its name")


def parts(code: CodeType) -> Iterator[CodeType]:
    """`code` and all code inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from parts(const)


def _check_graph(graph: Any) -> None:
    if getattr(graph, "torch_function_subclass_inlined", False):
        raise UnknownGlobal("a graph with __torch_function__ of a subclass")
    if getattr(graph.shape_env, "specializations", None):
        raise UnknownGlobal("a graph that is specialised on marked shapes")
    if getattr(graph, "random_calls", None):
        raise UnknownGlobal("random numbers of Python")


def _effects(code: CodeType) -> tuple[Any, ...]:
    from torch._dynamo import convert_frame

    read = getattr(convert_frame, "get_compiled_code_side_effects", None)
    return (read(code) or ()) if read else ()


# -- putting it in place ---------------------------------------------------------------------------------------------------


class Installed:
    """The globals of one frame in place, under names that are new in this process; `undo` takes them away."""

    def __init__(self, call: Call, plain: Plain) -> None:
        self.names: dict[str, str] = {}
        self._call, self._plain = call, plain
        self._hooks: list[Any] = []
        self._aliases: list[str] = []

    def globals(self) -> None:
        """Install modules, builtins and resume functions.

        Raises:
            UnknownGlobal: a module is not loaded, or a name is taken.
        """
        from torch._dynamo.output_graph import get_builtins_dict

        call, plain = self._call, self._plain
        for alias, name in plain.imports.items():
            module = _module(name)
            if call.globals.setdefault(alias, module) is not module:
                raise UnknownGlobal(f"{alias} is taken")
        for name, module_name in plain.modules.items():
            self.add(name, _module(module_name))
        if plain.builtins:
            self.add(plain.builtins, get_builtins_dict(call.globals))
        for name, code in plain.resumes.items():
            self.add(name, _resume_function(self._move(code, {}), call.globals, name))

    def add(self, name: str, value: Any) -> None:
        from torch._dynamo.bytecode_transformation import unique_id
        from torch._dynamo.utils import CleanupHook

        new = unique_id(name)
        while new in self._call.globals:
            new = unique_id(name)
        self.names[name] = new
        self._hooks.append(CleanupHook.create(self._call.globals, new, value))

    def graph(self, name: str, function: Callable[..., Any]) -> None:
        self.add(name, torch._dynamo.disable(function, reason="do not trace Dynamo-compiled graph"))

    def undo(self) -> None:
        while self._hooks:
            self._hooks.pop()()

    def finish(self, guard_manager: Any) -> Any:
        """The result that Dynamo expects of its compile step."""
        from torch._dynamo import convert_frame
        from torch._dynamo.types import GuardedCode, wrap_guarded_code
        from torch._dynamo.utils import CleanupManager

        call, code = self._call, self._move(self._plain.code, self.names)
        convert_frame.orig_code_map[code] = call.code
        convert_frame.output_codes.add(code)
        CleanupManager.instance[code] = self._hooks
        key = getattr(convert_frame, "_BYTECODE_HOOK_SIDE_EFFECTS_CONTEXT_KEY", None)
        if key is not None:
            convert_frame.code_context.get_context(code)[key] = tuple(self._plain.effects)
        label = f"Torch-Compiled Region: {call.compile_id}"
        return wrap_guarded_code(GuardedCode(code, guard_manager, call.compile_id, label))

    def _move(self, code: CodeType, names: Mapping[str, str]) -> CodeType:
        """`code` with globals renamed, and at the place in the file where the live frame's code now is."""
        live = self._call.code
        line = max(1, code.co_firstlineno + live.co_firstlineno - self._plain.code.co_firstlineno)
        consts = tuple(self._move(c, names) if isinstance(c, CodeType) else c for c in code.co_consts)
        renamed = tuple(names.get(name, name) for name in code.co_names)
        return code.replace(co_consts=consts, co_names=renamed, co_filename=live.co_filename, co_firstlineno=line)


def _module(name: str) -> ModuleType:
    # Only what torch would import itself; a user's module must be there already.
    if name.partition(".")[0] == "torch":
        return importlib.import_module(name)
    if name not in sys.modules:
        raise UnknownGlobal(f"module {name} is not loaded")
    return sys.modules[name]


def _resume_function(code: CodeType, names: dict[str, Any], name: str) -> Callable[..., Any]:
    if not code.co_freevars:
        return FunctionType(code, names, name)

    def _make_fn(closure: tuple[Any, ...], code: CodeType = code, f_globals: dict[str, Any] = names) -> FunctionType:
        return FunctionType(code, f_globals, name, None, closure)

    return _make_fn


def revive(entry: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """The callable of a stored graph that Dynamo would have got from its backend."""
    import torch._inductor.config as inductor
    from torch._guards import TracingContext, tracing
    from torch._inductor.cudagraph_utils import BoxedDeviceIndex
    from torch._inductor.utils import BoxedBool
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # Its shape guards are among the frame's own.
    entry.guards_expr = None
    shared = {"cudagraphs": BoxedBool(False), "boxed_forward_device_index": BoxedDeviceIndex(None)}
    with inductor.patch(dict(settings["options"])), tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
        compiled = entry.wrap_post_compile([], entry.sanitized_aot_config, shared)

    def forward(*runtime_args: Any) -> Any:
        return compiled(list(runtime_args))

    return forward
