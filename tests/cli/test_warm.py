"""warm: the command's exit code, and a true report of what all its processes did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sample_graphs
from support import ROOT

from aot_cache.cli import last_run
from aot_cache.store.disk import DiskStore

from .conftest import Run
from .sample import Cache

KERNEL = sample_graphs.kernel(b"kernel")
OLD = sample_graphs.graph("old", [KERNEL])
# Reports as the hook does, without torch. NEW is stored as by a compile in this very moment.
STEP = """
import os, sys, time
from pathlib import Path
import sample_graphs
from aot_cache.hook import report
from aot_cache.outcome import LEDGER, Bypass, Failed, Hit, Miss, Reason, Refused
from aot_cache.store.disk import DiskStore

store = DiskStore(Path(os.environ["AOT_CACHE_DIR"]), 10**9)
old = sample_graphs.graph("old")[0].partition(".")[0]
new = sample_graphs.graph("new", [sample_graphs.kernel(b"kernel")], created=time.time())
key = new[0].partition(".")[0]
report.attach(LEDGER)
"""
HIT = 'LEDGER.add(Hit("graph", old, 0.1, 5.0))\n'
MISS = 'LEDGER.add(Miss("graph", key, 0.1, Reason.ABSENT)); store.put(*new)\n'
BYPASS = 'LEDGER.add(Bypass("graph", None, 0.1, Reason.BACKEND, "backend eager", "choose another"))\n'
REFUSED = 'LEDGER.add(Refused("graph", None, 0.1, Reason.DIRECTORY, "not safe"))\n'
FAILED = 'LEDGER.add(Failed("graph", old, 0.1, Reason.DAMAGED))\n'


@pytest.fixture
def stored(empty: Cache, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")
    empty.put(OLD, KERNEL)
    return empty


def step(*what: str) -> list[str]:
    return ["--", sys.executable, "-c", STEP + "".join(what)]


def reported(run: Run, *arguments: str, code: int = 0) -> Any:
    result = run("warm", "--json", *arguments)
    assert result.code == code, result.err
    return result.json


def test_the_report_says_what_was_hit_compiled_bypassed_and_why(stored: Cache, run: Run) -> None:
    found = reported(run, *step(HIT, HIT, MISS, BYPASS, BYPASS, REFUSED, FAILED))
    entries = {entry.name: entry.size for entry in stored.store().entries()}
    new = next(name for name in entries if name not in (OLD[0], KERNEL[0], "r-last"))
    assert found["hit"] == {"count": 2, "bytes": entries[OLD[0]] + entries[KERNEL[0]], "seconds": 10.0}
    assert found["compiled"] == {"count": 1, "bytes": entries[new] + entries[KERNEL[0]], "seconds": 5.0}
    assert [(one["reason"], one["detail"], one["remedy"], one["count"]) for one in found["bypassed"]] == [
        ("the backend does not compile through AOTAutograd's cache", "backend eager", "choose another", 2)
    ]
    assert [one["detail"] for one in found["refused"]] == ["not safe"]
    assert [one["reason"] for one in found["failed"]] == ["the entry is damaged"]
    assert (found["processes"], found["exit_code"]) == (1, 0) and found["seconds"] > 0


def test_a_person_reads_the_same_on_stderr(stored: Cache, run: Run) -> None:
    result = run("warm", *step(HIT, MISS, BYPASS))
    assert result.code == 0 and result.out == ""
    assert "1 hit" in result.err and "5.0 s of compiling saved" in result.err and "1 compiled" in result.err
    assert "1 bypassed" in result.err and "backend eager (choose another)" in result.err


def test_what_was_compiled_before_is_not_counted_as_compiled_now(stored: Cache, run: Run) -> None:
    stale = sample_graphs.graph("new", guards="s0 > 4")
    stored.put(stale)
    found = reported(run, *step(MISS))
    assert found["compiled"]["bytes"] < len(stale[1]) + len(KERNEL[1]) + 500 and found["compiled"]["seconds"] == 5.0


def test_processes_below_and_those_that_crash_are_counted(stored: Cache, run: Run) -> None:
    below = "import subprocess; subprocess.run([sys.executable, '-c', os.environ['BELOW']])\n"
    os.environ["BELOW"] = STEP + HIT + "os.kill(os.getpid(), 9)"
    try:
        fork = "child = os.fork()\n" + HIT + "child and os.waitpid(child, 0)\n"
        found = reported(run, *step(HIT, below, fork, "child and os.abort()"), code=134)
    finally:
        del os.environ["BELOW"]
    assert (found["processes"], found["hit"]["count"]) == (3, 4)


@pytest.mark.parametrize(("line", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 143), ("", 0)])
def test_the_exit_code_is_that_of_the_command(stored: Cache, run: Run, line: str, code: int) -> None:
    assert run("warm", *step(HIT, line)).code == code
    assert run("warm", "--max-misses", "0", *step(HIT, line)).code == code


@pytest.mark.parametrize(
    ("limit", "what", "code"),
    [(0, HIT, 0), (0, MISS, 1), (1, MISS, 0), (1, MISS + MISS, 1), (0, BYPASS, 0), (0, REFUSED, 1),
     (0, MISS + "sys.exit(3)", 3)],
)  # fmt: skip
def test_more_misses_than_allowed_are_a_no(stored: Cache, run: Run, limit: int, what: str, code: int) -> None:
    result = run("warm", "--max-misses", str(limit), *step(what))
    assert result.code == code
    assert ("--max-misses allows" in result.err) == (code == 1 or "exit(3)" in what)
    assert ("1 graph missed" in result.err) == (limit == 0 and result.code != 0)


def test_a_command_without_the_cache_is_told_so_and_has_no_number_of_misses(stored: Cache, run: Run) -> None:
    result = run("warm", "--", "true")
    assert result.code == 0 and "doctor" in result.err
    found = reported(run, "--max-misses", "9", "--", "true", code=1)
    assert (found["warm"], found["cache_seen"]) == (False, False)


@pytest.mark.parametrize(("limit", "warm"), [([], None), (["--max-misses", "0"], False), (["--max-misses", "1"], True)])
def test_the_json_has_the_verdict(stored: Cache, run: Run, limit: list[str], warm: bool | None) -> None:
    found = reported(run, *limit, *step(MISS), code=int(warm is False))
    assert (found["warm"], found["cache_seen"], found["exit_code"]) == (warm, True, 0)


@pytest.mark.parametrize("value", ["-1", "x", "1.5"])
def test_a_bad_number_of_misses_is_usage(stored: Cache, run: Run, value: str) -> None:
    assert run("warm", f"--max-misses={value}", "--", "true").code == 2


def test_a_command_that_is_not_there_is_127_and_one_that_may_not_run_is_126(
    stored: Cache, run: Run, tmp_path: Path
) -> None:
    assert run("warm", "--", str(tmp_path / "nothing")).code == 127
    (tmp_path / "text").touch(0o600)
    assert run("warm", "--", str(tmp_path / "text")).code == 126
    assert run("warm").code == 2


def test_the_command_gets_its_arguments_as_they_are(stored: Cache, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = outside("warm", "--", sys.executable, "-c", code, "--json", "--", "--dir", "")
    assert done.stdout == "['--json', '--', '--dir', '']\n"


def test_with_json_stdout_holds_the_report_alone(stored: Cache) -> None:
    done = outside("warm", "--json", *step(HIT, "print('from the command')"))
    assert json.loads(done.stdout)["hit"]["count"] == 1 and "from the command" in done.stderr
    done = outside("warm", *step(HIT, "print('from the command')"))
    assert done.stdout == "from the command\n"


def outside(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "aot_cache", *arguments], text=True, capture_output=True, timeout=60)


def test_the_cache_is_on_in_the_directory_that_was_asked_for(
    stored: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOT_CACHE", "0")
    code = "import os; print(os.environ['AOT_CACHE'], os.environ['AOT_CACHE_DIR'])"
    done = outside("warm", "--dir", str(tmp_path / "other"), "--", sys.executable, "-c", code)
    assert done.stdout == f"1 {tmp_path / 'other'}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_is_reported(stored: Cache, number: signal.Signals) -> None:
    arguments = step(HIT, "print('ready', flush=True); time.sleep(60)")
    argv = [sys.executable, "-m", "aot_cache", "warm", *arguments]
    process = subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number and "1 hit" in err


def test_an_interrupt_of_both_is_the_commands_to_answer(stored: Cache) -> None:
    code = "\ntry:\n    print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(5)"
    argv = [sys.executable, "-m", "aot_cache", "warm", *step(HIT, code)]
    process = subprocess.Popen(
        argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 5 and "1 hit" in err


def test_the_run_is_remembered_and_what_it_used_can_be_exported(stored: Cache, run: Run, tmp_path: Path) -> None:
    stored.put(sample_graphs.graph("unused"))
    before = time.time()
    run("warm", *step(HIT, MISS))
    last = last_run.read(stored.store())
    assert last is not None and last.ended >= before and sys.executable in last.command and len(last.used) == 2
    assert OLD[0].partition(".")[0] in last.used
    assert run("export", "--last-run", str(tmp_path / "archive")).facts["graphs"] == "2"


def test_only_the_used_variant_of_a_key_is_exported(stored: Cache, run: Run, tmp_path: Path) -> None:
    others = [sample_graphs.graph(name, guards="s0 > 4") for name in ("old", "new")]
    stored.put(*others)
    hit = HIT.replace("5.0", f"5.0, {OLD[0]!r}")
    assert reported(run, *step(hit, MISS))["hit"]["bytes"] == len(OLD[1]) + len(KERNEL[1])
    last = last_run.read(stored.store())
    assert last is not None and OLD[0] in last.used and not {name for name, _ in others} & last.used
    assert run("export", "--last-run", str(tmp_path / "archive")).facts["graphs"] == "2"


def test_a_run_that_used_no_cache_is_not_remembered(stored: Cache, run: Run) -> None:
    run("warm", *step(HIT))
    before = last_run.read(stored.store())
    run("warm", "--", "true")
    assert before is not None and last_run.read(stored.store()) == before


def test_where_nothing_may_be_written_nothing_is(stored: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_MODE", "readonly")
    assert reported(run, *step(HIT))["hit"]["count"] == 1
    assert last_run.read(stored.store()) is None


def test_an_unsafe_directory_is_refused_before_the_command_runs(stored: Cache, run: Run, tmp_path: Path) -> None:
    stored.directory.chmod(0o777)
    assert run("warm", "--", "touch", str(tmp_path / "ran")).code == 1
    assert not (tmp_path / "ran").exists()


def test_a_line_that_a_process_could_not_finish_is_left_out(stored: Cache, run: Run) -> None:
    broken = "open(os.environ['AOT_CACHE_REPORT'], 'a').write('7\\n\\xff\\n{\"outcome\": \"hi')\n"
    assert reported(run, *step(HIT, broken))["hit"]["count"] == 1


def test_a_report_that_is_made_up_does_no_harm(stored: Cache, run: Run) -> None:
    odd = [{"outcome": ["x"]}, {"outcome": "hit", "kind": "graph", "key": 7}, {"outcome": "hit", "kind": "graph"}]
    odd += [{"outcome": "bypass", "reason": {"a": 1}, "pid": [1]}]
    lines = "".join(json.dumps(one) + "\n" for one in odd)
    found = reported(run, *step(HIT, f"open(os.environ['AOT_CACHE_REPORT'], 'a').write({lines!r})\n"))
    assert found["hit"]["count"] == 1


def test_the_store_is_the_one_that_the_command_wrote(stored: Cache, run: Run) -> None:
    reported(run, *step(MISS))
    assert len(list(DiskStore(stored.directory, 10**9).entries("g-"))) == 2
