"""Inductor's C++ kernels: which libraries a compile built, and answering for them from memory.

A generated wrapper asks for each of its kernels while it is executed, by source text. `install` joins at that request:
while compiling, the answer (a library that torch built) is recorded; inside `serving`, a known request is answered
before torch probes the CPU, looks for a compiler, precompiles headers or writes a file.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..errors import AotCacheError, ForeignEntry, HookMismatch
from . import cpu, generated
from .patches import Patches

_CODECACHE = "torch._inductor.codecache"
_OUTPUT_CODE = "torch._inductor.output_code"
_COMPILE_TASKS = "torch._inductor.runtime.compile_tasks"
# Arguments of a request that do not change what is built.
_IMMATERIAL = {"submit_fn"}


@dataclass(frozen=True)
class Built:
    """A library that torch built in this process: `<torch's key>.<function to call>`, its file, and `isa()` then.

    isa is "" for the glue of a graph that runs on another device. level: as `cpu.level()` then.
    """

    name: str
    path: Path
    isa: str
    level: str = ""


@dataclass
class Serving:
    """What one `with serving(...)` did: requests answered, and the reason for each that was left to torch."""

    isa: str
    refusal: str
    loaded: list[str] = field(default_factory=list)
    rebuilt: dict[str, str] = field(default_factory=dict)


Loader = Callable[[], Any]
_serving: ContextVar[tuple[Mapping[str, Loader], Serving] | None] = ContextVar("serving", default=None)
_requests: ContextVar[list[str] | None] = ContextVar("requests", default=None)
_lock = threading.Lock()
_installed: Patches | None = None
_built: dict[str, Built] = {}
_by_source: dict[str, tuple[str, ...]] = {}


def install() -> None:
    """Join at Inductor's loaders; imports `torch._inductor.codecache`, so do it at the first look-up, not before.

    Raises:
        HookMismatch: this torch lacks one of the seams; nothing is patched then.
    """
    global _installed
    with _lock:
        if _installed is not None:
            return
        loader = _seam(_CODECACHE, "CppPythonBindingsCodeCache", "load_pybinding_async", "argtypes", "main_code")
        graph = _seam(_OUTPUT_CODE, "CompiledFxGraph", "write_to_disk", "self")
        codecache = _seam(_CODECACHE, "", "_reload_python_module", "key", "path")
        tasks = _seam(_COMPILE_TASKS, "", "_reload_python_module", "key", "path")
        patches = Patches()
        try:
            cpu.join(patches)
        except HookMismatch:
            patches.undo()
            raise
        patches.set(loader, "load_pybinding_async", classmethod(_asking(loader.load_pybinding_async.__func__)))
        patches.wrap(codecache, "_reload_python_module", _execute_wrapper)
        patches.wrap(graph, "write_to_disk", _place_wrapper)
        # The one file that `_reload_python_module` opens and compiles is the wrapper.
        patches.set(tasks, "open", generated.open_)
        patches.set(tasks, "compile", generated.compile_)
        _installed = patches


def uninstall() -> list[str]:
    """Take all of it back; returns the names that somebody else patched meanwhile, which are left alone."""
    global _installed
    with _lock:
        patches, _installed = _installed, None
        return patches.undo() if patches else []


def of_graph(source_code: str) -> tuple[str, ...] | None:
    """Fingerprints of the kernels that the wrapper with this source asked for; None if it was not executed here."""
    return _by_source.get(generated.digest(source_code))


def built(fingerprint: str) -> Built | None:
    """The library that torch built for this request in this process."""
    return _built.get(fingerprint)


def isa() -> str:
    """The vector instruction set, with flags, for which torch writes kernels here; runs compilers the first time."""
    picked = importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()
    return "; ".join(filter(None, (str(picked), picked.build_arch_flags(), cpu.level())))


@contextlib.contextmanager
def serving(table: Mapping[str, Loader], isa: str) -> Iterator[Serving]:
    """Answer requests for kernels in this thread from `table`, and keep wrappers in memory instead of writing them.

    table: by fingerprint, what returns the function to call, or raises AotCacheError, ImportError or OSError with the
        reason why torch must build it.
    isa: what `isa()` was where the entry was compiled, "" if it holds no C++. Its sources are written for that vector
        width: where torch would build for another, a kernel that is not served raises ForeignEntry, because a library
        built from them would compute wrong numbers.
    """
    if _installed is None:
        raise HookMismatch("kernels.install() must run before kernels are served")
    _set_tensor_pointer()
    state = Serving(isa, _prepare_cpu(isa))
    token = _serving.set((table, state))
    try:
        yield state
    finally:
        _serving.reset(token)


def _set_tensor_pointer() -> None:
    # Each kernel library reads it when it is loaded; torch's own loader sets it every time.
    guards = torch._C._dynamo.guards
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(guards._torchinductor_pyobject_tensor_data_ptr)


def _prepare_cpu(isa: str) -> str:
    # Linux grants AMX to a process that asks. Torch asks in the probe that a hit skips; unasked, AMX is SIGILL.
    if "amx" in isa and not torch.cpu._init_amx():
        return "the system does not grant AMX to this process"
    return ""


def _seam(module: str, owner: str, name: str, *leading: str) -> Any:
    """The module, or class in it, that has a function `name` with these first parameters."""
    try:
        found = importlib.import_module(module)
        found = getattr(found, owner) if owner else found
        parameters = list(inspect.signature(getattr(found, name)).parameters)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HookMismatch(f"{module} has no {owner + '.' if owner else ''}{name} to join at: {error}") from None
    if parameters[: len(leading)] != list(leading):
        raise HookMismatch(f"{module}: {name} takes {parameters} instead of {list(leading)} first")
    return found


def _fingerprint(cls: type, asked: Mapping[str, Any]) -> str:
    """Digest of all that a request says."""
    said = {name: value for name, value in asked.items() if name not in _IMMATERIAL}
    return generated.digest(json.dumps([cls.__qualname__, said], sort_keys=True, default=repr))


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Stands in for `CppPythonBindingsCodeCache.load_pybinding_async`; cpp_wrapper's class inherits it."""
    signature = inspect.signature(original)

    def load_pybinding_async(cls: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        asked = signature.bind(cls, *args, **kwargs)
        asked.apply_defaults()
        fingerprint = _fingerprint(cls, dict(list(asked.arguments.items())[1:]))
        of_wrapper = _requests.get()
        if of_wrapper is not None and fingerprint not in of_wrapper:
            of_wrapper.append(fingerprint)
        served = _served(fingerprint)
        if served is not None:
            return lambda: served
        future = original(cls, *args, **kwargs)

        def result() -> Any:
            function = future()
            _record(cls, fingerprint, function, str(asked.arguments.get("device_type", "cpu")))
            return function

        return result

    return load_pybinding_async


def _served(fingerprint: str) -> Any:
    """The function of a stored library; None where torch is to build it, after the reason was noted."""
    table, state = _serving.get() or ({}, None)
    if state is None:
        return None
    try:
        if fingerprint not in table:
            raise AotCacheError("the entry does not hold it")
        if state.refusal:
            raise AotCacheError(state.refusal)
        function = table[fingerprint]()
    except (AotCacheError, ImportError, OSError) as error:
        state.rebuilt[fingerprint] = str(error)
        _require_same_isa(state.isa, str(error))
        return None
    state.loaded.append(fingerprint)
    return function


def _require_same_isa(there: str, why: str) -> None:
    """Raises ForeignEntry where torch would not build for the vector width that the sources are written for."""
    if not there:
        return
    try:
        here = isa()
    except Exception as error:  # torch's probe raises many kinds, all of which mean that it cannot build
        raise ForeignEntry(f"a kernel is not loaded ({why}) and cannot be rebuilt: {error}") from error
    if here != there:
        raise ForeignEntry(f"a kernel for {there!r} is not loaded ({why}); torch would rebuild it for {here!r}")


def _record(cls: Any, fingerprint: str, function: Any, device: str) -> None:
    # A function of an extension module knows its module, and that its file.
    file = getattr(getattr(function, "__self__", None), "__file__", None)
    if file is not None:
        key = Path(file).name.partition(".")[0]
        # For a graph of another device torch may not have probed the CPU, which would take seconds.
        width = isa() if device.startswith("cpu") else ""
        _built[fingerprint] = Built(f"{key}.{cls.entry_function}", Path(file), width, cpu.level())


def _execute_wrapper(original: Callable[..., Any], key: str, path: str, *args: Any, **kwargs: Any) -> ModuleType:
    """Stands in for `codecache._reload_python_module`: notes which kernels the wrapper asks for."""
    outer, asked = _requests.get(), []
    token = _requests.set(asked)
    try:
        module = original(key, path, *args, **kwargs)
    finally:
        _requests.reset(token)
    if outer is not None:
        outer.extend(fingerprint for fingerprint in asked if fingerprint not in outer)
    with generated.open_(path) as file:
        _by_source[generated.digest(file.read())] = tuple(asked)
    return module


def _place_wrapper(original: Callable[..., str], graph: Any, *args: Any, **kwargs: Any) -> str:
    """Stands in for `CompiledFxGraph.write_to_disk`: while serving, the wrapper gets a path but no file."""
    return original(graph, *args, **kwargs) if _serving.get() is None else generated.place(graph.source_code)
