"""Two cold processes on one directory compile once; a holder that dies lets the other go on; the wait is bounded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

HERE = Path(__file__).parent

# Compiles the step, but stands still before it publishes until a file appears (or for ever).
HELD = f"""
import os, sys, time; sys.path.insert(0, {str(HERE)!r})
import torch, step
from aot_cache.hook.graphs import GraphCache
save = GraphCache.save
def wait_and_save(*args, **kwargs):
    open(os.environ["COMPILING"], "w").close()
    while not os.path.exists(os.environ["GO_ON"]): time.sleep(0.02)
    return save(*args, **kwargs)
GraphCache.save = wait_and_save
step.report(step.step())
"""


class Contest:
    """A process that holds the lock in mid-compile, and others that come later."""

    def __init__(self, process: FreshProcess) -> None:
        self._process = process
        self._started: list[subprocess.Popen[str]] = []
        process.home.mkdir(parents=True, exist_ok=True)
        self.compiling, self.go_on = process.home / "compiling", process.home / "go_on"

    def start(self, code: str | Path, **env: str) -> subprocess.Popen[str]:
        signs = {"COMPILING": str(self.compiling), "GO_ON": str(self.go_on), **env}
        argv = [sys.executable, str(code)] if isinstance(code, Path) else [sys.executable, "-c", code]
        started = subprocess.Popen(
            argv,
            env=self._process.environment(0, **signs),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._process.home,
        )
        self._started.append(started)
        return started

    def hold(self) -> subprocess.Popen[str]:
        holder = self.start(HELD)
        while not self.compiling.exists():
            assert holder.poll() is None, holder.communicate()
            time.sleep(0.02)
        return holder

    def lock_is_waited_for(self, waiter: subprocess.Popen[str]) -> None:
        """Returns once the waiter has said that it waits."""
        assert waiter.stderr is not None
        for line in waiter.stderr:
            if "waiting for it" in line:
                return
        raise AssertionError(f"it did not wait: {waiter.communicate()}")

    def kill_all(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def contest(fresh_process: FreshProcess) -> Iterator[Contest]:
    contest = Contest(fresh_process)
    yield contest
    contest.kill_all()


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_the_second_process_waits_and_then_hits(contest: Contest) -> None:
    holder = contest.hold()
    waiter = contest.start(HERE / "step.py")
    contest.lock_is_waited_for(waiter)
    assert waiter.poll() is None
    contest.go_on.touch()
    first, second = result(holder), result(waiter)
    assert first["graph_miss"] == 1
    assert second["graph_hit"] == 1 and second["graph_miss"] == 0
    assert first["value"] == second["value"]


def test_killing_the_holder_lets_the_other_compile(contest: Contest, fresh_process: FreshProcess) -> None:
    holder = contest.hold()
    waiter = contest.start(HERE / "step.py")
    contest.lock_is_waited_for(waiter)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert result(waiter)["graph_miss"] == 1
    assert fresh_process(HERE / "step.py")["graph_hit"] == 1


def test_the_wait_is_bounded_and_said(contest: Contest) -> None:
    holder = contest.hold()
    impatient = contest.start(HERE / "step.py", AOT_CACHE_WAIT="0.5")
    out, err = impatient.communicate(timeout=300)
    assert json.loads(out.splitlines()[-1])["graph_miss"] == 1 and holder.poll() is None
    assert "another process has compiled" in err
    contest.go_on.touch()
    assert result(holder)["graph_miss"] == 1


def test_a_process_that_waits_while_it_holds_would_deadlock_and_so_does_not(fresh_process: FreshProcess) -> None:
    # A training graph stays locked until its backward is compiled; the same graph again must not wait for itself.
    twice = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import torch, step
w = torch.ones(4, 2, requires_grad=True)
losses = []
for _ in range(2):
    torch._dynamo.reset()
    losses.append(torch.compile(lambda a, b: a @ b)(torch.ones(3, 4), w).sum())
sum(losses).backward()
step.report(w.grad.sum().item().hex())
"""
    done = fresh_process(twice, env={"AOT_CACHE_WAIT": "600"}, timeout=200)
    assert done["graph_miss"] == 2 and done["error"] == 0
    assert fresh_process(twice)["graph_hit"] == 2
