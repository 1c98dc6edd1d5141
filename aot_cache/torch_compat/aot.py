"""The seam: AOTAutograd's cache key, look-up and save, replaced by an object that has these verbs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..errors import HookMismatch
from . import light
from .compiling import BUNDLED, torchs_own_protocol, untraced
from .late import AfterImport
from .patches import Patches

if TYPE_CHECKING:
    from .verify import Settle

MODULE = "torch._functorch._aot_autograd.autograd_cache"
PREFIX = "g-"
"""Keys of ours start so; keys of torch's own caches do not."""
_TICKET = "#"
"""Stands between the key of a request and its number, in what torch takes for the key."""


@dataclass
class Request:
    """One graph that AOTAutograd is about to compile."""

    graph: Any
    inputs: Sequence[Any]
    flags: Mapping[str, Any]
    """The settings of AOTAutograd's call that shape its result, as plain values."""
    decompositions: Any
    sources: Sequence[Any]
    """Where Dynamo found each input; None for an input without a source."""
    config: Any
    """torch's AOTConfig, handed back when an entry is brought to life."""
    peeking: bool
    """Whether nothing will be compiled now: a miss is asked again, and only then counts."""
    extra: Any
    """Inductor's shared state for forward and backward (CUDA graphs, device), or None."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the hook wants to remember of this request."""


class Seam(Protocol):
    """What the hook does at each place."""

    def begin(self) -> Any:
        """A graph arrives; returns a token for `end`."""

    def end(self, token: Any) -> None:
        """The graph was looked up or compiled as far as the forward; may raise to fail the compile."""

    def key(self, request: Request) -> str | None:
        """The key, starting with PREFIX; None to compile without the cache."""

    def load(self, key: str, request: Request) -> Loaded | None:
        """The compiled function of an entry, or None to compile."""

    def save(self, key: str, entry: Any, notes: Mapping[str, Any]) -> None:
        """A compiled result, forward and backward, and the notes of the request that it answers."""

    def unserializable(self, error: Exception) -> None:
        """A compiled result is of a kind that cannot be stored."""

    def adopt(self, key: str, data: bytes) -> bool:
        """Bytes that torch's portable archive brings; whether they were ours."""


@dataclass
class Loaded:
    """An entry brought to life, in the shape that torch's `try_load` expects of one."""

    function: Callable[..., Any]
    content: bytes
    forward_time_taken_ns: int
    backward_time_taken_ns: int
    settle: Settle | None = None
    """Set to have torch compile the graph all the same, and then use what this makes of it."""

    def wrap_post_compile(self, *_: Any, **__: Any) -> Callable[..., Any]:
        return self.function


_CURRENT: ContextVar[Request | None] = ContextVar("the graph that is looked up", default=None)
_ACTIVE: ContextVar[bool] = ContextVar("inside try_load", default=False)


def join(seam: Seam, patches: Patches, failed: Callable[[Exception], None]) -> AfterImport:
    """Put `seam` in place as soon as torch imports its cache; `failed` hears why if that cannot be done."""

    def act(module: Any) -> None:
        try:
            _require_seams(module)
            _patch(module, seam, patches)
        except Exception as error:  # torch's own import must not fail with ours
            patches.undo()
            failed(error)

    light.watch(patches)
    return AfterImport(MODULE, act)


def _require_seams(module: Any) -> None:
    needed = {module: ("autograd_cache_key", "create_fx_config", "BypassAOTAutogradCache")}
    needed[module.AOTAutogradCache] = ("try_load", "_lookup", "save", "make_entry", "_write_to_local_cache")
    for owner, names in needed.items():
        for name in names:
            if not hasattr(owner, name):
                raise HookMismatch(f"torch {torch.__version__} has no {owner.__name__}.{name}")


def _patch(module: Any, seam: Seam, patches: Patches) -> None:
    import torch._functorch.config as functorch_config

    cache, joint = module.AOTAutogradCache, _Joint(module, seam)
    patches.wrap(module, "autograd_cache_key", joint.key)
    for name in ("try_load", "_lookup", "save", "make_entry", "_write_to_local_cache"):
        patches.wrap_static(cache, name, getattr(joint, name.removeprefix("_")))
    light.import_on_demand(patches)
    patches.wrap_static(module.FxGraphCache, "cache_hit_post_compile", light.after_load)
    # Forward and backward come as one whole, and Inductor's own graph cache stays out of the compile. The default, since
    # a setting would be one thread's.
    patches.set(functorch_config._config["bundled_autograd_cache"], "default", BUNDLED)


class _Joint:
    """What stands in for torch's functions, each named after the one that it is called around."""

    def __init__(self, module: Any, seam: Seam) -> None:
        self._module, self._seam = module, seam
        # A backward is compiled late, when another graph with the same key may be under way; so each gets a ticket.
        self._serial = itertools.count()
        self._notes: dict[str, dict[str, Any]] = {}

    def try_load(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torchs_own_protocol():
            return original(*args, **kwargs)
        active, current, token = _ACTIVE.set(True), _CURRENT.set(None), self._seam.begin()
        try:
            loaded = original(*args, **kwargs)
        finally:
            _ACTIVE.reset(active)
            _CURRENT.reset(current)
            self._seam.end(token)
        if light.is_peeking() and (loaded[0] if isinstance(loaded, tuple) else loaded) is None:
            raise light.NotCached
        return loaded

    def key(self, original: Callable[..., Any], mod: Any, inputs: Any, config: Any, *rest: Any, **kwargs: Any) -> Any:
        if not _ACTIVE.get():
            return original(mod, inputs, config, *rest, **kwargs)
        request = _request(mod, inputs, config, kwargs.get("compiler_config_extra", rest[0] if rest else None))
        found = self._seam.key(request)
        if found is None:
            said = "aot_cache compiles this graph without a cache; see aot_cache.events()"
            raise self._module.BypassAOTAutogradCache(said)
        _CURRENT.set(request)
        return f"{found}{_TICKET}{next(self._serial)}", []

    def lookup(self, original: Callable[..., Any], key: str, *args: Any, **kwargs: Any) -> Any:
        request = _CURRENT.get()
        if request is None or not key.startswith(PREFIX):
            return original(key, *args, **kwargs)
        loaded = self._seam.load(key_of(key), request)
        if loaded is None:
            if not request.peeking:
                self._notes[key] = request.notes
            return None
        if loaded.settle is not None:
            from . import verify  # only a verified hit needs it

            verify.compile_beside(request.config, loaded.settle)
            return None
        return loaded, loaded.content

    def save(self, original: Callable[..., Any], key: str, entry: Any, *args: Any, **kwargs: Any) -> Any:
        if not key.startswith(PREFIX):
            return original(key, entry, *args, **kwargs)
        notes = self._notes.pop(key, None)
        if entry is None or notes is None:
            return None
        # A backward is compiled when it is called, perhaps by code that Dynamo looks at.
        return untraced(lambda: self._seam.save(key_of(key), entry, notes))

    def make_entry(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torchs_own_protocol():
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        except Exception as error:
            self._seam.unserializable(error)
            return None

    def write_to_local_cache(self, original: Callable[..., Any], key: str, content: bytes) -> Any:
        return None if self._seam.adopt(key, content) else original(key, content)


def key_of(ticket: str) -> str:
    """The key, starting with PREFIX, of what AOTAutograd takes for the key of a graph."""
    return ticket.partition(_TICKET)[0]


def add_to_portable_archive(name: str, data: bytes) -> None:
    """Have `torch.compiler.save_cache_artifacts` carry a value of our store; `Seam.adopt` gets it back elsewhere."""
    from torch.compiler._cache import CacheArtifactManager

    CacheArtifactManager.record_artifact("aot_autograd", name, data)


def portable_archive() -> frozenset[str]:
    """Names of the values that `add_to_portable_archive` put into the archive that would be saved now."""
    from torch.compiler._cache import CacheArtifactManager

    recorded = CacheArtifactManager._new_cache_artifacts.get("aot_autograd", ())
    saved = CacheArtifactManager._cache_info.artifacts.get("aot_autograd", ())
    return frozenset(artifact.key for artifact in recorded) | frozenset(saved)


_FLAGS = (
    "num_params_buffers keep_inference_input_mutations is_export no_tangents dynamic_shapes static_input_indices "
    "pre_dispatch ignore_shape_env force_non_lazy_backward_lowering export_trace_joint disable_functionalization "
    "_disable_torch_fn_metadata_mode"
).split()


def _request(mod: Any, inputs: Sequence[Any], config: Any, extra: Any) -> Request:
    flags: dict[str, Any] = {name: getattr(config, name, None) for name in _FLAGS}
    for name in ("cudagraphs", "forward_is_partitioned", "cudagraphs_bwd_override"):
        value = getattr(extra, name, None)
        flags[name] = bool(value) if value is not None else None
    return Request(
        graph=getattr(mod, "gm", mod),
        inputs=inputs,
        flags=flags,
        decompositions=config.decompositions,
        sources=config.aot_autograd_arg_pos_to_source or (),
        config=config,
        peeking=light.is_peeking(),
        extra=extra,
    )


def obstacle() -> str:
    """Why torch's compile of the current graph cannot be described by a key; '' if it can."""
    import torch._inductor.config as inductor
    from torch._inductor.compiler_bisector import CompilerBisector

    context = torch._guards.TracingContext.try_get()
    if context is None or context.fake_mode is None or context.fake_mode.shape_env is None:
        return "the graph is compiled outside torch.compile, without a shape environment"
    if context.fakify_first_call:
        return "fakify_first_call is on"
    if inductor.freezing:
        return "inductor.freezing bakes parameter values into the code"
    if inductor.aot_inductor.use_runtime_constant_folding:
        return "inductor.aot_inductor.use_runtime_constant_folding is on"
    if CompilerBisector.bisection_enabled:
        return "the compiler bisector is on"
    return ""
