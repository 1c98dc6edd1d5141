"""What decides the offload plan of a graph, as a key part that is there only while graphs are planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..offloading import active
from ..outcome import Reason
from .encode import CannotKey, Encoder
from .parts import KeyPart


def offload_part(identify: Callable[[Any], str]) -> tuple[KeyPart, ...]:
    """The part, or none.

    Raises:
        CannotKey: the policy cannot be identified.
    """
    session = active.session()
    if session is None:
        return ()
    facts = session.facts()
    if session.options.policy is not None:
        try:
            facts["policy"] = identify(session.options.policy)
        except CannotKey as error:
            raise CannotKey(Reason.CUSTOM_PASS, f"the offload policy: {error.detail}", error.remedy) from error
    encoder = Encoder()
    encoder.value(dict(sorted(facts.items())))
    return (KeyPart.of("offload", encoder.bytes(), facts),)


def refuse_frames() -> None:
    """Raises CannotKey: frames are not stored while graphs are planned, since nothing in a frame tells that they were."""
    if active.session() is not None:
        remedy = "nothing to do: the graphs of the frame are cached, with their plans"
        raise CannotKey(Reason.FRAME_STATE, "aot_cache.offload is active", remedy)
