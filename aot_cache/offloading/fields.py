"""How the values of a schedule are written, each in exactly one way, and read. Pure: no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import ScheduleSyntax

_UNITS = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


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


def _of_bytes(text: str) -> int:
    unit = text[-3:] if text.endswith("iB") else ""
    return int(text.removesuffix(unit)) * _UNITS.get(unit, 1)


def _to_bytes(value: int) -> str:
    unit = next((unit for unit, size in _UNITS.items() if value and value % size == 0), "")
    return f"{value // _UNITS.get(unit, 1)}{unit}"


def _of_rate(text: str) -> float | None:
    return float(text) or None


def _of_step(text: str) -> str:
    return "" if text == "-" else text


_FLOAT = r"\d+(\.\d+)?(e[+-]?\d{1,3})?"
_NAME = r"[A-Za-z_][\w.]*"

BYTES = Form("bytes: a whole number, then nothing, KiB, MiB, GiB or TiB", r"\d+([KMGT]iB)?", _of_bytes, _to_bytes)
COUNT = Form("a whole number", r"\d+", int, str)
LANES = Form("a whole number of at least 1", r"0*[1-9]\d*", int, str)
NUMBER = Form("a number of at least 0", _FLOAT, float, lambda value: repr(float(value)))
RATE = Form("bytes per second: a number above 0", _FLOAT, _of_rate, lambda value: repr(float(value)))
SECONDS = Form(
    "seconds: a number of at least 0, then s",
    _FLOAT + "s",
    lambda text: float(text[:-1]),
    lambda value: f"{float(value)!r}s",
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
