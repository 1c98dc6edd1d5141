"""The whole key of one graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcome import Reason
from ..torch_compat import aot, compilers, config, frames_state, lowering, registries, tensors
from .callables import Unidentified, identity, once
from .encode import CannotKey, Encoder
from .graph import Identify, graph_part
from .inputs import inputs_part
from .offload import offload_part
from .operators import extensions_part, taught
from .parts import CacheKey, KeyPart
from .patches import patches
from .state import ambient_part, config_part, environment_part


def identify(value: Any) -> str:
    """Portable identity of a Python callable, class or object that reaches the graph.

    Raises:
        CannotKey: it has none; says what in it cannot be identified.
    """
    try:
        return identity(value, taught).digest
    except Unidentified as error:
        raise CannotKey(Reason.UNKNOWN_CALLABLE, str(error), error.remedy) from error


@once()
def graph_key(request: aot.Request, symbols: tensors.Symbols) -> CacheKey:
    """The key of what AOTAutograd is about to compile.

    Raises:
        CannotKey: something that may change the result is not known to be covered.
    """
    if obstacle := aot.obstacle():
        raise CannotKey(Reason.UNKNOWN_STATE, obstacle)
    compiler, is_read = _compiler_part(request, identify)
    return CacheKey(
        (
            graph_part(request.graph, symbols, identify, is_read or config.has_code()),
            inputs_part(request.inputs, symbols, identify),
            compiler,
            config_part(identify),
            ambient_part(),
            extensions_part(identify),
            environment_part(),
            *offload_part(identify),
        )
    )


def _compiler_part(request: aot.Request, identify: Identify) -> tuple[KeyPart, bool]:
    """How AOTAutograd was called, and whatever compilers, passes and decompositions are not torch's own, if any."""
    if not compilers.are_known():
        raise CannotKey(Reason.BACKEND, "the graph did not come through torch._dynamo.backends.common.aot_autograd")
    encoder = Encoder()
    encoder.value(dict(request.flags))
    summary = {name: str(value) for name, value in request.flags.items() if value and name != "static_input_indices"}
    found = compilers.foreign()
    # Before Inductor is called, nobody has given its table yet: it will be the one that Inductor takes.
    found |= (
        frames_state.foreign_decompositions() if request.peeking else registries.decompositions(request.decompositions)
    )
    others = identities(found, identify) | process_code(identify)
    for name, known in others.items():
        encoder.value((name, known))
        summary[name] = known
    return KeyPart.of("compiler", encoder.bytes(), summary), bool(others)


def process_code(identify: Identify) -> dict[str, str]:
    """What is not torch's own in torch's compiler, for every graph of this process alike: rules, patterns, patches.

    Raises:
        CannotKey: one of them cannot be identified, or may have been set before anybody looked.
    """
    if unseen := registries.unseen():
        remedy = "call aot_cache.enable() before anything imports torch._inductor, or install aot_cache"
        raise CannotKey(Reason.UNKNOWN_STATE, f"rules added to {', '.join(unseen)} before the cache was on", remedy)
    return identities(registries.changes() | lowering.user_patterns() | patches(), identify)


def identities(found: Mapping[str, Any], identify: Identify) -> dict[str, str]:
    """The portable identity of each; raises CannotKey, with the name, where there is none."""
    known = {}
    for name, value in found.items():
        try:
            known[name] = identify(value)
        except CannotKey as error:
            raise CannotKey(Reason.CUSTOM_PASS, f"{name}: {error.detail}", error.remedy) from error
    return known
