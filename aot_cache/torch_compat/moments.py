"""What was in force when a graph was handed to its backend, and what is when its backward is compiled later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, NamedTuple

from . import config, state


class Moment(NamedTuple):
    """A graph on its way to its backend, before anything patches a setting for that one compile."""

    settings: dict[str, Any]
    thread: int


_HANDED: ContextVar[Moment | None] = ContextVar("when the graph that is compiled was handed over", default=None)

# Ambient switches that a compile reads below the joint graph. Autocast, attention back ends and the like shaped that one.
_READ_AGAIN = ("default_dtype", "deterministic", "matmul", "cudnn", "mkldnn", "nnpack", "fp32", "cuda.")
_OF_A_THREAD = ("threads", "denormals")
# torch.compile(dynamic=...) has these patched while the compiled function is called.
_OF_A_CALL = frozenset({"dynamo.assume_static_by_default", "dynamo.automatic_dynamic_shapes"})


def handing(call: Callable[[], Any]) -> Any:
    """`call()`, which hands a graph to its backend; `handed()` tells so meanwhile."""
    try:
        moment = Moment(settings(), threading.get_ident())
    except Exception:  # the compile goes on; what nobody knows of it is not stored
        return call()
    token = _HANDED.set(moment)
    try:
        return call()
    finally:
        _HANDED.reset(token)


def handed() -> Moment | None:
    """Of the graph that is compiled now; None while a backward is compiled later."""
    return _HANDED.get()


def settings() -> dict[str, Any]:
    """Those settings of now that a later compile of the same graph's backward must find unchanged."""
    return {name: value for name, value in config.snapshot().items() if name not in _OF_A_CALL}


def settings_expected(since: Moment) -> dict[str, Any]:
    """The settings under which every process compiles the backward that is compiled now, if nobody changes any.

    torch's settings are one thread's. Autograd's own threads, which run backwards on accelerators, have but defaults.
    """
    if _is_autograds_thread() and threading.get_ident() != since.thread and config.is_per_thread():
        return dict(Context().run(settings))
    return since.settings


def switches_changed(then: dict[str, str]) -> list[str]:
    """Ambient switches, and modes, that are not as they were `then`, of those that matter to a backward compiled now."""
    now = {name: str(value) for name, value in state.ambient().items()}
    read = _READ_AGAIN if _is_autograds_thread() else _READ_AGAIN + _OF_A_THREAD
    changed = [name for name, value in now.items() if name.startswith(read) and then.get(name) != value]
    if not any(value.startswith("on") for name, value in then.items() if name.startswith("autocast.")):
        changed += [name for name, value in now.items() if name.startswith("autocast.") and value.startswith("on")]
    return changed + [f"mode {type(mode).__qualname__}" for mode in state.active_modes()]


def _is_autograds_thread() -> bool:
    # No thread that Python started, main thread included, is one of these.
    return isinstance(threading.current_thread(), threading._DummyThread)  # type: ignore[attr-defined]
