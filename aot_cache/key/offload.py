"""What decides the offload plan of a graph, as a key part that is there only while graphs are planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..offloading import active
from ..outcome import Reason
from .encode import CannotKey, Encoder
from .parts import CacheKey, KeyPart

_PART = "offload"


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
    return (KeyPart.of(_PART, encoder.bytes(), facts),)


def frame_part(identify: Callable[[Any], str]) -> tuple[KeyPart, ...]:
    """The part of a frame's key, or none: with an equal one, its graphs have equal parts.

    Raises:
        CannotKey: the policy cannot be identified, or nothing is to be carried out, and so nothing to be used.
    """
    if (session := active.session()) is not None and session.options.dry_run:
        raise CannotKey(Reason.FRAME_STATE, "a dry run of aot_cache.offload")
    return offload_part(identify)


def base(key: CacheKey) -> CacheKey:
    """The key of the same graph, however it is planned: of all that decides what AOTAutograd traces."""
    return CacheKey(tuple(part for part in key.parts if part.name != _PART))
