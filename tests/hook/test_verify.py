"""A share of the hits is compiled afresh and compared: right entries pass unseen, wrong ones raise and go."""

from __future__ import annotations

import dataclasses
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import FreshProcess

from aot_cache.artifact.envelope import Envelope, pack
from aot_cache.hook.verify import Verifier
from aot_cache.outcome import Reason
from aot_cache.settings import Settings
from aot_cache.store.disk import DiskStore

PROGRAMS = Path(__file__).parent / "verified.py"
ALWAYS = {"AOT_CACHE_VERIFY": "1"}
FAST = ("square", "cube", "train square", "train cube", "twice", "random_numbers", "non_leaf", "subclass")
SLOW = ("dropout", "mutated", "aliased")
Compiled = tuple[FreshProcess, dict[str, Any]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A directory with the entries of the fast programs, and what the cold process said."""
    process = FreshProcess(tmp_path_factory.mktemp("verified"))
    return process, process(PROGRAMS, *FAST)


@pytest.fixture
def warm(compiled: Compiled, fresh_process: FreshProcess) -> FreshProcess:
    shutil.copytree(compiled[0].home / "aot_cache", fresh_process.home / "aot_cache", copy_function=shutil.copy2)
    return fresh_process


def store(process: FreshProcess) -> DiskStore:
    return DiskStore(process.home / "aot_cache", 10**9)


def put_in_place_of(process: FreshProcess, victim: str, other: str) -> str:
    """Have the key of one program lead to what another one compiled, every digest right; returns the entry's name."""
    cache = store(process)
    name, source = (next(cache.entries(f"{key}.")).name for key in (victim, other))
    good, bad = (Envelope(cache.get(n) or b"") for n in (name, source))
    mine = {field: getattr(good.manifest, field) for field in ("key", "parts", "name")}
    manifest = dataclasses.replace(bad.manifest, **mine)
    cache.put(name, pack(manifest, {section: bytes(bad.section(section)) for section in bad.names}))
    return name


def check_hits(cold: dict[str, Any], verified: dict[str, Any]) -> None:
    for name, result in verified.items():
        assert result["graph_hit"] and not result["graph_miss"] and not result["error"], (name, result)
        assert result["values"] == cold[name]["values"], name
        assert result["generated"] >= result["graph_hit"], f"{name} was not compiled afresh"


def test_right_entries_pass_and_count_as_hits_with_the_values_of_the_first_process(
    compiled: Compiled, warm: FreshProcess
) -> None:
    before = [entry.name for entry in store(warm).entries()]
    check_hits(compiled[1], warm(PROGRAMS, *FAST, env=ALWAYS))
    assert [entry.name for entry in store(warm).entries()] == before
    assert not (warm.home / "aot_cache" / "quarantine").exists()


@pytest.mark.slow
def test_dropout_mutation_and_aliases_are_no_false_alarm(fresh_process: FreshProcess) -> None:
    cold = fresh_process(PROGRAMS, *SLOW)
    assert all(result["graph_miss"] for result in cold.values())
    check_hits(cold, fresh_process(PROGRAMS, *SLOW, env=ALWAYS))


WRONG = {"square": ("cube", "output 0"), "train square": ("train cube", "gradient of input 1")}


@dataclasses.dataclass
class Wrong:
    """What became of entries that compute what another graph does: without verification, with it, and afterwards."""

    directory: Path
    names: dict[str, str]
    data: dict[str, bytes | None]
    unverified: dict[str, Any]
    failed: dict[str, Any]
    explained: dict[str, Any]
    problems: list[Any]
    left: list[str]
    again: dict[str, Any]


@pytest.fixture(scope="module")
def wrong(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    process, cold = FreshProcess(tmp_path_factory.mktemp("wrong")), compiled[1]
    directory = process.home / "aot_cache"
    shutil.copytree(compiled[0].home / "aot_cache", directory, copy_function=shutil.copy2)
    names = {
        victim: put_in_place_of(process, *(cold[program]["keys"][0] for program in (victim, other)))
        for victim, (other, _) in WRONG.items()
    }
    data = {victim: store(process).get(name) for victim, name in names.items()}
    unverified = process(PROGRAMS, *WRONG)
    failed = process(PROGRAMS, *WRONG, env=ALWAYS)
    explain = "import sys; from aot_cache.cli import main; sys.exit(main(['explain', '--json']))"
    explained = json.loads(subprocess.check_output([sys.executable, "-c", explain], env=process.environment()))
    problems, left = store(process).verify(), [entry.name for entry in store(process).entries()]
    again = process(PROGRAMS, *WRONG, env=ALWAYS)
    return Wrong(directory, names, data, unverified, failed, explained, problems, left, again)


@pytest.fixture(params=WRONG)
def victim(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_without_verification_a_wrong_entry_is_served(wrong: Wrong, compiled: Compiled, victim: str) -> None:
    served = wrong.unverified[victim]
    assert served["graph_hit"] == 1 and served["values"] not in (None, compiled[1][victim]["values"])


def test_a_wrong_entry_raises_and_is_named_with_what_differs_and_the_report(wrong: Wrong, victim: str) -> None:
    failed, name = wrong.failed[victim], wrong.names[victim]
    raised = failed["raised"]
    assert raised["key"] == name and name in raised["text"] and "square" in raised["text"]
    found = [text for text in raised["differences"] if text.startswith(f"{WRONG[victim][1]}: ")]
    assert len(found) == 1 and "elements differ, by up to" in found[0]
    assert raised["report"] in raised["text"]
    assert failed["error"] == 1 and any(reason.startswith("Failed VERIFY") for reason in failed["reasons"])


def test_a_wrong_entry_is_moved_to_quarantine_with_a_report(wrong: Wrong, victim: str) -> None:
    name, folder = wrong.names[victim], wrong.directory / "quarantine"
    assert (folder / name).read_bytes() == wrong.data[victim]
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600 and stat.S_IMODE(folder.stat().st_mode) == 0o700
    report = json.loads(Path(wrong.failed[victim]["raised"]["report"]).read_text())
    assert report["entry"] == name and WRONG[victim][1] in report["differences"] and report["parts"]
    assert name not in wrong.left and not wrong.problems


def test_after_a_failed_verification_the_next_process_compiles(wrong: Wrong, compiled: Compiled, victim: str) -> None:
    again = wrong.again[victim]
    assert again["graph_miss"] == 1 and again["values"] == compiled[1][victim]["values"]


def test_explain_reads_what_was_reported(wrong: Wrong) -> None:
    event = wrong.explained["events"][0]
    assert event["reason"] == Reason.VERIFY.value and event["name"] == "square"
    assert event["key"] == wrong.names["square"].removeprefix("g-").partition(".")[0]
    assert "output 0" in event["detail"] and "quarantine" in event["remedy"]


def test_whoever_catches_the_error_goes_on_with_what_is_right(compiled: Compiled, warm: FreshProcess) -> None:
    cold = compiled[1]
    put_in_place_of(warm, *(cold[program]["keys"][0] for program in ("square", "cube")))
    result = warm(PROGRAMS, "after_failure", env=ALWAYS)["after_failure"]
    assert result["error"] == 1 and result["values"] == cold["square"]["values"]


def test_in_readonly_mode_a_wrong_entry_raises_and_stays(compiled: Compiled, warm: FreshProcess) -> None:
    name = put_in_place_of(warm, *(compiled[1][program]["keys"][0] for program in ("square", "cube")))
    raised = warm(PROGRAMS, "square", env={**ALWAYS, "AOT_CACHE_MODE": "readonly"})["square"]["raised"]
    assert "reading only" in raised["text"] and raised["report"] == "None"
    assert name in [entry.name for entry in store(warm).entries()]
    assert not (warm.home / "aot_cache" / "quarantine").exists()


# -- settling ----------------------------------------------------------------------------------------------------------


def listed(function: Callable[..., Any]) -> Callable[[list[Any]], list[Any]]:
    """A function as AOTAutograd makes them: empties its list of inputs, returns a list."""

    def boxed(inputs: list[Any]) -> list[Any]:
        taken = list(inputs)
        inputs.clear()
        result = function(*taken)
        return list(result) if isinstance(result, tuple) else [result]

    return boxed


class Noted:
    """Stands for the look-up and for what notes outcomes."""

    name = "f"

    def __init__(self) -> None:
        self.reasons: list[Reason] = []

    def end(self, kind: Any, key: Any, started: float, reason: Reason, *text: str, of: Any = None) -> None:
        self.reasons.append(reason)


def verifier(tmp_path: Path, noted: Noted, rate: float = 1.0) -> Verifier:
    return Verifier(Settings.resolve({"directory": tmp_path, "verify": rate}, {}), noted.end)


def test_what_cannot_be_verified_is_used_and_said(tmp_path: Path) -> None:
    noted, cached = Noted(), listed(lambda x: x)

    def fails() -> Any:
        raise RuntimeError("no compiler")

    entry: Any = "g-x", b"", None, noted
    settle = verifier(tmp_path, noted).settle(entry, cached, None)
    assert settle(fails) is cached and noted.reasons == [Reason.UNVERIFIED]
    function = settle(lambda: listed(lambda x: 1 / 0))
    assert function([torch.ones(2).to_sparse()])[0].is_sparse and noted.reasons == [Reason.UNVERIFIED] * 2


def test_only_the_first_call_compares(tmp_path: Path) -> None:
    calls = {"fresh": 0, "cached": 0}

    def counting(name: str) -> Any:
        def count(x: torch.Tensor) -> torch.Tensor:
            calls[name] += 1
            return x + 1

        return listed(count)

    entry: Any = "g-x", b"", None, Noted()
    settle = verifier(tmp_path, Noted()).settle(entry, counting("cached"), None)
    function = settle(lambda: counting("fresh"))
    for _ in range(3):
        assert function([torch.ones(1)])[0].item() == 2
    assert calls == {"fresh": 2, "cached": 4}


def test_a_rate_is_the_share_of_keys_that_are_picked(tmp_path: Path) -> None:
    def picked(rate: float) -> int:
        chosen = verifier(tmp_path, Noted(), rate)
        return sum(chosen.picks(f"g-{number}") for number in range(2000))

    assert picked(1.0) == 2000 and picked(0.0) == 0
    assert 800 < picked(0.5) < 1200
    half = verifier(tmp_path, Noted(), 0.5)
    assert [half.picks(f"g-{n}") for n in range(50)] == [half.picks(f"g-{n}") for n in range(50)]


def test_without_verification_nothing_of_it_is_imported(warm: FreshProcess) -> None:
    code = f"import sys; sys.argv = ['x', 'square']; sys.path.insert(0, {str(PROGRAMS.parent)!r})\n"
    code += "import json, aot_cache, verified; aot_cache.enable(); hit = verified.run('square')['graph_hit']\n"
    code += "print(json.dumps([hit, sorted(name for name in sys.modules if name.startswith('aot_cache.'))]))"
    hit, modules = warm(code)
    assert hit == 1 and "aot_cache.hook.graphs" in modules
    extra = {f"aot_cache.{name}" for name in ("hook.verify", "torch_compat.verify", "torch_compat.trial", "store.quarantine")}
    assert not extra & set(modules)
    assert extra <= set(warm(code, env=ALWAYS)[1])
