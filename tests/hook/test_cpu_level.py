"""Entries for a CPU level: one machine compiles, and every one that has the level hits, whatever else its CPU has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.key import machine

if machine.lacking("x86-64-v3"):
    pytest.skip("needs a CPU of the level x86-64-v3", allow_module_level=True)

# Arguments: the level, flags that this CPU is to lack, and what is done beside two equal steps.
PROGRAM = """
import json, sys, torch, aot_cache
from aot_cache.key import machine

level, hidden, what = sys.argv[1:]
flags = machine.cpu_flags()
machine.cpu_flags = lambda: frozenset(flag for flag in flags if not hidden or not flag.startswith(hidden))
torch.set_num_threads(1)
aot_cache.enable(cpu=level)

def step():
    x = torch.linspace(-2, 2, 33 * 70).reshape(33, 70)
    with torch.no_grad():
        return torch.compile(lambda x: (x.sin() * x).softmax(-1).sum(0))(x).numpy().tobytes().hex()

if what == "load": torch.compiler.load_cache_artifacts(open("archive", "rb").read())
values = [step()]
if what == "save":
    torch.compiler.save_cache_artifacts()
    from torch.compiler._cache import CacheArtifactManager
    CacheArtifactManager.clear()
    torch._dynamo.reset()
    values.append(step())
    open("archive", "wb").write(torch.compiler.save_cache_artifacts()[0])
events = ["Hit" if type(e).__name__ == "Hit" else str(e) for e in aot_cache.events()]
keys = [e.key for e in aot_cache.events() if e.key]
print(json.dumps({"values": sorted(set(values)), "events": events, "keys": sorted(set(keys)), **aot_cache.stats()}))
"""


class Fleet:
    """Machines that share one cache directory; `cold` is what the one that compiled for x86-64-v3 reported."""

    def __init__(self, home: Path) -> None:
        self.process = FreshProcess(home)
        self.cold = self("x86-64-v3")

    def __call__(self, level: str, hidden: str = "", what: str = "", **env: str) -> Any:
        return self.process(PROGRAM, level, hidden, what, env=env)

    def libraries(self) -> list[Path]:
        return list((self.process.home / "inductor").rglob("*.main.so"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet"))


def is_warm(run: Any) -> bool:
    return run["graph_hit"] > 0 and run["events"] == ["Hit"] * run["graph_hit"]


@pytest.mark.slow
def test_a_cpu_with_less_that_has_the_level_hits_with_the_same_bits_and_no_compiler(fleet: Fleet) -> None:
    assert fleet.cold["graph_miss"] == 1 and fleet.cold["error"] == 0
    narrow = fleet(
        "x86-64-v3", "avx512", ATEN_CPU_CAPABILITY="avx2", PATH="/nothing", TORCHINDUCTOR_CACHE_DIR="nothing"
    )
    assert is_warm(narrow), narrow["events"]
    assert (narrow["values"], narrow["keys"]) == (fleet.cold["values"], fleet.cold["keys"])
    assert not [path for path in (fleet.process.home / "nothing").rglob("*") if path.is_file()]


@pytest.mark.slow
def test_the_libraries_of_a_level_hold_no_instruction_beyond_it(fleet: Fleet) -> None:
    if not (objdump := shutil.which("objdump")):
        pytest.skip("needs objdump")
    (library, *_) = fleet.libraries()
    code = subprocess.check_output([objdump, "-d", str(library)], text=True)
    assert "%ymm" in code and not re.search(r"%zmm|%k[1-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b|%tmm", code)


@pytest.mark.slow
def test_torchs_portable_archive_gets_the_libraries_that_an_earlier_hit_had_loaded(fleet: Fleet) -> None:
    saving = fleet("x86-64-v3", "", "save", PATH="/nothing")
    assert is_warm(saving) and saving["graph_hit"] == 2 and saving["values"] == fleet.cold["values"]
    other = {"AOT_CACHE_DIR": "another", "TORCHINDUCTOR_CACHE_DIR": "third", "PATH": "/nothing"}
    loading = fleet("x86-64-v3", "", "load", **other)
    assert is_warm(loading) and loading["values"] == fleet.cold["values"]


@pytest.mark.parametrize("lacking", ["", "sse4_2"])
def test_a_level_that_the_cpu_lacks_is_one_outcome_with_the_reason(fresh_process: FreshProcess, lacking: str) -> None:
    code = (
        "import json, sys, torch, aot_cache\n"
        "from aot_cache.key import machine\n"
        "from aot_cache.torch_compat import cpu\n"
        "flags = machine.cpu_flags()\n"
        "machine.cpu_flags = lambda: flags - {sys.argv[1]}\n"
        "aot_cache.enable(cpu='x86-64-v2')\n"
        "print(json.dumps([cpu.level(), [(e.reason.name, e.detail) for e in aot_cache.events()]]))\n"
    )
    level, events = fresh_process(code, lacking)
    if not lacking:
        assert (level, events) == ("x86-64-v2", [])
    else:
        ((reason, detail),) = events
        assert level == "" and reason == "CPU"
        assert detail == "AOT_CACHE_CPU=x86-64-v2: it lacks sse4_2; kernels are compiled for this CPU itself"


def test_another_setting_and_the_end_of_the_cache_take_the_level_back(fresh_process: FreshProcess) -> None:
    code = (
        "import json, torch, aot_cache\n"
        "from aot_cache.torch_compat import cpu\n"
        "seen = []\n"
        "for change in (lambda: aot_cache.enable(cpu='x86-64-v2'), lambda: aot_cache.enable(cpu='x86-64-v3'),\n"
        "               lambda: aot_cache.enable(), lambda: aot_cache.enable(cpu='x86-64-v3'), aot_cache.disable):\n"
        "    change()\n"
        "    seen.append(cpu.level())\n"
        "print(json.dumps(seen))\n"
    )
    assert fresh_process(code) == ["x86-64-v2", "x86-64-v3", "", "x86-64-v3", ""]
