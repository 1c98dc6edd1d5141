"""The benchmark `offload`, on a stack small enough for a test."""

from __future__ import annotations

from support import ROOT, FreshProcess

CODE = """
import argparse, json, sys
sys.path[:0] = sys.argv[1:]
import offload, offload_gpt
parser = argparse.ArgumentParser()
offload.add_arguments(parser)
text, raw = offload.run(parser.parse_args(["--layers", "4", "--stride", "2", "--cases", "2", "--storages", "5",
                                            "--widths", "512", "--blocks", "2"]))
modes = [offload_gpt.gpt([mode] * 4) for mode in range(7)]
saved = [sum(s.bytes for s in problem.storages if s.saved) for problem in modes]
seconds = [sum(step.seconds for step in problem.forward + problem.backward) for problem in modes]
print(json.dumps([text, raw, saved, seconds]))
"""

NAMES = (
    "width 512",
    "no plan could be under",
    "no mix of the two could be under",
    "share of the saved activations",
    "from 50 GB/s on: what a plan keeps",
    "the same, of what the link can have carried",
    "the same: backward's peak over that without prefetch",
    "a step in threads over its simulation",
    "recompute alone",
    "offload everything",
    "gap to the best of all sets of 5 storages",
    "parse and check",
)


def test_the_offload_benchmark_compares_the_plan_with_what_else_one_would_do(fresh_process: FreshProcess) -> None:
    text, raw, saved, seconds = fresh_process(CODE, str(ROOT / "tools" / "bench"), str(ROOT / "tools"))
    planned, least, *others = raw["added"].values()
    assert len(planned) == 3
    assert len(others) == 4
    for other in others:
        assert all(mine <= theirs for mine, theirs in zip(planned, other, strict=True) if theirs is not None)
    assert all(bound <= mine for bound, mine in zip(least, planned, strict=True))
    assert planned == sorted(planned, reverse=True), "a faster link costs more"
    assert [found["rate"] for found in raw["real"]] == [25, 50, 100]
    for found in raw["real"]:
        assert found["eligible"] > 0.99
        assert found["share"] >= 0.4
        assert found["least"] <= found["added"] + 1e-5
        assert 0 < found["kept"] <= found["carried"] + 1e-9 <= 1 + 1e-9
        assert -1 <= found["ahead"] <= 1
    added = [found["added"] for found in raw["real"]]
    assert added == sorted(added, reverse=True)
    assert added[-1] > 0
    # How long sleeping takes is not a test's matter; that a step cannot be shorter than its simulation is.
    assert len(raw["threads"]) == 2
    assert min(raw["threads"]) > -0.001
    assert len(raw["gaps"]) == 2
    assert min(raw["gaps"]) >= -1e-9
    assert raw["nodes"] >= 1000
    for name in NAMES:
        assert f"\n| {name}" in text
    # Each mode of the stack saves less and computes more.
    assert saved == sorted(saved, reverse=True)
    assert seconds == sorted(seconds)
    assert len(set(saved)) == len(set(seconds)) == 7
