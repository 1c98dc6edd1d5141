"""The key of a frame: all that must be equal before a stored frame's guards are even looked at."""

from __future__ import annotations

from typing import Any

from ..outcome import Reason
from ..torch_compat import frames, frames_rules, frames_state, patched
from .build import identify, identities, process_code
from .callables import Unidentified, once
from .callables.bytecode import read
from .callables.node import portable_module
from .encode import CannotKey, Encoder
from .offload import frame_part
from .operators import extensions_part
from .parts import CacheKey, KeyPart
from .patches import patches
from .state import ambient_part, config_part, environment_part

# Raise this whenever what a frame's entry holds, or how a fingerprint is made, changes: old entries then miss.
FRAME_VERSION = 11


@once()
def frame_key(call: frames.Call) -> CacheKey:
    """The key of one call of Dynamo's compile step.

    Raises:
        CannotKey: something that may change the result is not known to be covered.
    """
    return CacheKey(
        (
            _frame_part(call),
            _dynamo_part(),
            extensions_part(identify),
            config_part(identify),
            ambient_part(),
            environment_part(),
            *frame_part(identify),
        )
    )


def _frame_part(call: frames.Call) -> KeyPart:
    if call.settings is None:
        raise CannotKey(Reason.BACKEND, "frames are stored for the Inductor backend only")
    if any("cudagraph" in name and value for name, value in call.settings["options"].items()):
        raise CannotKey(Reason.FRAME_STATE, "CUDA graphs")
    try:
        code = read(call.code).digest
    except Unidentified as error:
        raise CannotKey(Reason.FRAME_CODE, str(error)) from None
    encoder = Encoder(_callables)
    encoder.text("version", str(FRAME_VERSION))
    encoder.text("code", code)
    breaks = frames_state.graph_break_is_error()
    flags = {"full_graph": call.full_graph, "error_on_graph_break": breaks, **call.settings}
    flags["module"] = portable_module(call.globals.get("__name__"))
    encoder.value(flags)
    summary = {"code": code, **{name: str(value) for name, value in flags.items()}}
    return KeyPart.of("frame", encoder.bytes(), summary)


def _dynamo_part() -> KeyPart:
    """Dynamo's settings, and what in torch's compiler is not torch's own."""
    encoder = Encoder(_callables)
    values = frames_state.dynamo_config()
    encoder.value(dict(sorted(values.items())))
    rules = frames_state.foreign_decompositions() | frames_rules.foreign() | patches(patched.DYNAMO)
    foreign = dict(sorted((identities(rules, identify) | process_code(identify)).items()))
    encoder.value(frames_rules.lists())
    encoder.value(foreign)
    changed = {name: repr(value)[:200] for name, value in frames_state.changed(values).items()}
    return KeyPart.of("dynamo", encoder.bytes(), changed | foreign)


def _callables(encoder: Encoder, value: Any) -> bool:
    if not callable(value):
        return False
    encoder.text("identity", identify(value))
    return True
