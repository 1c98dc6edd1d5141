"""What is shown of fingerprints: short values, never what could be a secret, and what changed in words."""

from __future__ import annotations

import pytest

from aot_cache.key.fingerprint_text import change, is_short

OLD, NEW = "0" * 32, "1" * 32


@pytest.mark.parametrize("text", ["12", "'gelu'", "(1, 2, 'a')", "torch.float32", "-0.5", "True", "b'x'", "''"])
def test_short_values_are_shown(text: str) -> None:
    assert is_short(text)


@pytest.mark.parametrize("text", [repr("s" * 25), repr(b"t" * 25), repr(["u" * 30]), repr(tuple(range(40))), "9" * 25])
def test_what_is_long_or_could_be_a_secret_is_not(text: str) -> None:
    assert not is_short(text)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("int 12", "int 6", "12 -> 6"),
        ("str 'gelu'", "str 'relu'", "'gelu' -> 'relu'"),
        ("int 2", "float 2.0", "int 2 -> float 2.0"),
        (f"m.Block {OLD}", f"m.Block {NEW}", "m.Block changed"),
        (f"code forward {OLD}", f"code forward {NEW}", "code forward changed"),
        (
            f"3 keys {OLD} in builtins.dict {OLD}",
            f"3 keys {NEW} in builtins.dict {OLD}",
            "3 keys in builtins.dict changed",
        ),
        (f"m.A {OLD}", f"m.B {NEW}", f"m.A {OLD} -> m.B {NEW}"),
        ("int 2", "AttributeError('k')", "int 2 -> AttributeError('k')"),
    ],
    ids=["number", "text", "type", "class", "code", "keys", "another class", "gone"],
)
def test_a_change_names_the_source_and_both_values_or_what_changed(before: str, now: str, said: str) -> None:
    assert change("L['x'].n", before, now) == f"guard `L['x'].n`: {said}"
