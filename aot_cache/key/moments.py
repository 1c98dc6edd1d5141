"""Whether a backward that is compiled later is compiled under what its graph's key says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..torch_compat import moments
from .build import process_code
from .encode import CannotKey, Encoder
from .state import by_identity


def changed(
    since: moments.Moment, ambient: Mapping[str, str], code: Mapping[str, str], identify: Callable[[Any], str]
) -> list[str]:
    """Names of what is not as it was: settings, ambient switches, code of others in torch's compiler."""
    expected, now = moments.settings_expected(since), moments.settings()
    found = [f"config.{name}" for name in now if not _is_same(expected.get(name), now[name], identify)]
    found += [f"ambient.{name}" for name in moments.switches_changed(dict(ambient))]
    try:
        there = process_code(identify)
    except CannotKey as error:
        return [*found, error.detail]
    return found + sorted(name for name, _ in there.items() ^ code.items())


def _is_same(old: Any, new: Any, identify: Callable[[Any], str]) -> bool:
    if old is new:
        return True
    encoders = [Encoder(by_identity(identify)) for _ in range(2)]
    try:
        for encoder, value in zip(encoders, (old, new)):
            encoder.value(value)
    except CannotKey:
        return False
    return encoders[0].bytes() == encoders[1].bytes()
