"""Bytes and seconds as text, in one way everywhere: in decimal units, as sizes are asked for. Pure."""

from __future__ import annotations

from decimal import Decimal

_SIZES = ("B", "kB", "MB", "GB", "TB")
_SECONDS = ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))


def size(count: float) -> str:
    """Bytes in short: `67.1 MB`."""
    for unit in _SIZES:
        if count < 999.5 or unit == _SIZES[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def exact_size(count: float, space: str = " ") -> str:
    """Bytes to the last one: `67.108864 MB`."""
    value = Decimal(count if isinstance(count, int) else repr(count))
    power = max(0, min(value.adjusted() // 3, len(_SIZES) - 1)) if value else 0
    return f"{_plain(value.scaleb(-3 * power))}{space}{_SIZES[power]}"


def seconds(count: float) -> str:
    """Seconds in short: `11.61 ms`."""
    power, unit = _second_unit(Decimal(f"{count:.3e}"))
    return f"{float(f'{count:.3e}') * 10**power:.4g} {unit}"


def exact_seconds(count: float) -> str:
    """Seconds to the last digit of the number: `11.6123ms`."""
    value = Decimal(repr(float(count)))
    power, unit = _second_unit(value)
    return f"{_plain(value.scaleb(power))}{unit}"


def rounded(count: float) -> float:
    """Seconds to six digits: more is not known of them, and none wants to read them."""
    return float(f"{count:.5e}")


def rounded_up(count: int) -> int:
    """Bytes, to four digits, and not less than `count`."""
    unit = 10 ** max(0, len(str(count)) - 4)
    return -(-count // unit) * unit


def _second_unit(value: Decimal) -> tuple[int, str]:
    if not value:
        return _SECONDS[0]
    return next(((power, unit) for power, unit in _SECONDS if value.adjusted() >= -power), _SECONDS[-1])


def _plain(value: Decimal) -> str:
    """Without an exponent, and without zeros that say nothing."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
