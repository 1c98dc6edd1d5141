"""A frame that goes through a set of words belongs to processes with its hash seed; one that asks for a member, to all."""

from __future__ import annotations

import pytest
from support import FreshProcess

PROGRAM = """
import json, sys, torch, aot_cache
aot_cache.enable()
K = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 11}
NAMES = set(K)
def goes_through(x):
    for name in NAMES: x = (x * 0.5 + K[name]) @ x
    return x
def goes_through_a_constant(x):
    for name in {"a", "b", "c", "d", "e"}: x = (x * 0.5 + K[name]) @ x
    return x
def joins(x): return x @ x * int("".join(str(K[n]) for n in NAMES)[:3])
def has(x): return (x @ x) * (2 if "a" in NAMES and "q" not in {"a", "b"} else 3)
def sorts(x): return x @ x * K[sorted(NAMES)[0]]
torch.set_num_threads(1)
with torch.no_grad():
    found = torch.compile(globals()[sys.argv[1]])(torch.full((3, 3), 0.25))
print(json.dumps([found.sum().item(), list(NAMES), aot_cache.stats()]))
"""


@pytest.mark.parametrize("name", ["goes_through", "goes_through_a_constant", "joins"])
def test_another_hash_seed_is_a_miss_where_the_order_counts(fresh_process: FreshProcess, name: str) -> None:
    env = {"AOT_CACHE_FRAMES": "1"}
    first, order, _ = fresh_process(PROGRAM, name, hashseed=1, env=env)
    again, _, counts = fresh_process(PROGRAM, name, hashseed=1, env=env)
    assert again == first and counts["frame_hit"] == 1
    other, other_order, counts = fresh_process(PROGRAM, name, hashseed=2, env=env)
    truth, _, _ = fresh_process(PROGRAM, name, hashseed=2, env={"AOT_CACHE": "0"})
    assert order != other_order and other == truth and counts["frame_hit"] == 0


@pytest.mark.parametrize("name", ["has", "sorts"])
def test_another_hash_seed_is_a_hit_where_it_does_not(fresh_process: FreshProcess, name: str) -> None:
    env = {"AOT_CACHE_FRAMES": "1"}
    first, order, _ = fresh_process(PROGRAM, name, hashseed=1, env=env)
    again, other_order, counts = fresh_process(PROGRAM, name, hashseed=2, env=env)
    assert order != other_order and again == first
    assert counts["frame_hit"] == (name == "has")  # what `sorted` makes of it is not followed
