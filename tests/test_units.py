"""Bytes and seconds as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.settings import parse_size
from aot_cache.units import exact_seconds, exact_size, rounded, rounded_up, seconds, size


@pytest.mark.parametrize(
    ("count", "short", "exact"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1024, "1.0 kB", "1.024 kB"),
        (6 * 10**6, "6.0 MB", "6 MB"),
        (64 << 20, "67.1 MB", "67.108864 MB"),
        (845 * 10**6, "845 MB", "845 MB"),
        (3 * 10**15, "3000 TB", "3000 TB"),
    ],
)
def test_bytes_are_written_in_short_and_in_full(count: int, short: str, exact: str) -> None:
    assert (size(count), exact_size(count)) == (short, exact)
    assert exact_size(count, "") == exact.replace(" ", "")


@given(st.integers(1, 10**14))
def test_what_is_written_in_full_can_be_asked_for(count: int) -> None:
    assert parse_size("budget", exact_size(rounded_up(count))) == rounded_up(count)


@given(st.integers(1, 10**18))
def test_rounding_up_is_not_below_and_close(count: int) -> None:
    assert count <= rounded_up(count) <= count * 1.001
    assert rounded_up(rounded_up(count)) == rounded_up(count)


@pytest.mark.parametrize(
    ("count", "short", "exact"),
    [
        (0.0, "0 s", "0s"),
        (12.0, "12 s", "12s"),
        (0.99999, "1 s", "999.99ms"),
        (0.0116123, "11.61 ms", "11.6123ms"),
        (1e-5, "10 us", "10us"),
        (2.5e-9, "2.5 ns", "2.5ns"),
        (1e-12, "0.001 ns", "0.001ns"),
    ],
)
def test_seconds_are_written_in_short_and_in_full(count: float, short: str, exact: str) -> None:
    assert (seconds(count), exact_seconds(count)) == (short, exact)


def test_rounded_seconds_have_six_digits() -> None:
    assert rounded(0.011612345678901234) == 0.0116123
    assert rounded(0.0) == 0.0
