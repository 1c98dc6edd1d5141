"""How the values of a schedule are written, each in exactly one way, and read. Pure: no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from ..errors import ScheduleSyntax
from ..units import exact_seconds, exact_size

_DECIMAL = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}
_UNITS = _DECIMAL | {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
_POWERS = {"ms": 3, "us": 6, "ns": 9, "s": 0}

UNLIMITED = 2**50
"""Bytes of a far tier whose size nobody bounds."""


@dataclass(frozen=True)
class Form:
    """Values of one kind. A text is valid if it matches the whole `pattern`; `allowed` says that in words."""

    allowed: str
    pattern: str
    of_text: Callable[[str], Any]
    to_text: Callable[[Any], str]

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    def read(self, line: int, field: str, text: str) -> Any:
        """The value of `text`.

        Raises:
            ScheduleSyntax: it is no value of this kind.
        """
        value = self.of_text(text) if self._whole.fullmatch(text) else None
        if value is None or (isinstance(value, float) and math.isinf(value)):
            raise ScheduleSyntax(line, field, text, self.allowed)
        return value

    def write(self, field: str, value: Any) -> str:
        """The text of `value`.

        Raises:
            ValueError: no text would give the value back.
        """
        text = self.to_text(value)
        if not self._whole.fullmatch(text) or self.of_text(text) != ("" if value is None else value):
            raise ValueError(f"{field}={value!r} cannot be written: it must be {self.allowed}")
        return text


def _split(text: str, units: Iterable[str]) -> tuple[Decimal, str]:
    """The number and the unit of a text; the longest unit that it ends with."""
    unit = max((unit for unit in units if text.endswith(unit)), key=len, default="")
    return Decimal(text.removesuffix(unit)), unit


def _of_bytes(text: str) -> int | None:
    number, unit = _split(text, _UNITS)
    value = number * _UNITS.get(unit, 1)
    return int(value) if value == int(value) else None


def _of_rate(text: str) -> float | None:
    number, unit = _split(text.removesuffix("/s"), _DECIMAL)
    return float(number * _DECIMAL.get(unit, 1)) or None


def _of_seconds(text: str) -> float:
    number, unit = _split(text, _POWERS)
    return float(number.scaleb(-_POWERS[unit]))


def _of_step(text: str) -> str:
    return "" if text == "-" else text


_FLOAT = r"\d+(\.\d+)?(e[+-]?\d{1,3})?"
_NAME = r"[A-Za-z_][\w.]*"

BYTES = Form(
    "bytes: a number, then nothing, B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, whole in bytes",
    r"\d{1,25}(\.\d{1,25})?(B|kB|[MGT]B|[KMGT]iB)?",
    _of_bytes,
    lambda value: exact_size(value, ""),
)
BOUND = Form(
    f"unlimited, or {BYTES.allowed}",
    f"unlimited|{BYTES.pattern}",
    lambda text: UNLIMITED if text == "unlimited" else _of_bytes(text),
    lambda value: "unlimited" if value == UNLIMITED else exact_size(value, ""),
)
COUNT = Form("a whole number", r"\d+", int, str)
LANES = Form("a whole number of at least 1", r"0*[1-9]\d*", int, str)
NUMBER = Form("a number of at least 0", _FLOAT, float, lambda value: repr(float(value)))
RATE = Form(
    "bytes per second: a number above 0, then nothing, or B/s, kB/s, MB/s, GB/s or TB/s",
    rf"{_FLOAT}((|k|M|G|T)B/s)?",
    _of_rate,
    lambda value: f"{exact_size(float(value), '')}/s",
)
SECONDS = Form(
    "seconds: a number of at least 0, then s, ms, us or ns", rf"{_FLOAT}(|m|u|n)s", _of_seconds, exact_seconds
)
WORD = Form("a word of letters, digits and . _ : + -", r"[\w.:+-]+", str, str)
STEP = Form("the name of a node", _NAME, str, str)
MAYBE_STEP = Form("the name of a node, or -", rf"{_NAME}|-", _of_step, lambda value: value or "-")
KIND = Form("act or weight", "act|weight", str, str)
NAMES = Form(
    "names of nodes with commas between them, or -",
    rf"{_NAME}(,{_NAME})*|-",
    lambda text: () if text == "-" else tuple(text.split(",")),
    lambda value: ",".join(value) or "-",
)
