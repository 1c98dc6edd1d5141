"""Frames are listed under names that a user knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aot_cache.key.fingerprint_places import frame_name, qualname_of


class Net(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def decorated(function: Any) -> Any:
    def wrapper(self: Any, *args: Any) -> Any:
        return function(self, *args)

    return wrapper


class Wrapped(torch.nn.Module):
    @decorated
    def forward(self, x: Any) -> Any:
        return x


def inner_of(module: torch.nn.Module) -> Any:
    called, unset = module.forward, None

    def inner(*args: Any) -> Any:
        return called(*args), unset

    del unset
    return inner


def call(function: Any, **its: Any) -> Any:
    return SimpleNamespace(code=function.__code__, locals=its, closure=function.__closure__)


@pytest.mark.parametrize(
    "frame, name",
    [
        (call(Net.forward, self=Net()), "Net.forward"),
        (call(Wrapped.forward, self=Wrapped()), "Wrapped: decorated.<locals>.wrapper"),
        (call(inner_of(torch.nn.Sequential())), "Sequential: inner_of.<locals>.inner"),
        (call(decorated, self=7), "decorated"),
        (call(qualname_of), "qualname_of"),
    ],
    ids=["method", "decorated method", "closure over a method", "no module", "function"],
)
def test_a_frame_is_named_after_its_module(frame: Any, name: str) -> None:
    assert frame_name(frame) == name
