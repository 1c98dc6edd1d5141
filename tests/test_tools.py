"""The tools' own logic, with children that only pretend."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import TOOLS

sys.path.append(str(TOOLS / "bench"))

import child  # noqa: E402
import demo  # noqa: E402
import env  # noqa: E402
import report  # noqa: E402
import start  # noqa: E402

# Compiles once for each pair of directories, like torch and the cache would; LIE spoils one count of a second start.
FAKE = """
import json, os, pathlib, sys
ours = pathlib.Path(os.environ["AOT_CACHE_DIR"]); torchs = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
on, backend = os.environ.get("AOT_CACHE", "1") == "1", sys.argv[2]
compiles = backend == "inductor"
warm = compiles and (ours.exists() if on else any(torchs.iterdir()))
stats = dict.fromkeys("graph_hit graph_miss graph_bypass frame_hit frame_miss frame_bypass error".split(), 0)
more = {"graphs": int(backend != "none"), "torch_hit": int(warm and not on), "torch_miss": int(compiles and not warm)}
losses = [(1.5).hex(), (1.25).hex()]
framed = on and warm and os.environ.get("AOT_CACHE_FRAMES") == "1"
if on:
    stats["frame_hit" if framed else "graph_hit" if warm else "graph_miss"] = int(compiles)
    more["graphs"] -= framed
if compiles and not warm:
    (torchs / "k.so").touch()
    ours.mkdir(exist_ok=True)
lie = LIE
if lie == "losses" and warm:
    losses[1] = (1.2500001).hex()
elif lie == "built" and warm:
    (torchs / "again.so").touch()
elif lie == "never compiled":
    stats.update(graph_hit=1, graph_miss=0)
elif lie and warm:
    stats.update(lie)
print("noise")
print(json.dumps({"seconds": 1.0 if warm else 10.0, "losses": losses, "loss": losses[1], "gradient": losses[0],
                  "stats": stats, "reasons": [], "counts": {**stats, **more}}))
"""
LIES: list[Any] = ["losses", "built", "never compiled", {"graph_miss": 1}, {"graph_bypass": 1}, {"frame_bypass": 1}]
LIES += [{"error": 1}, {"graph_hit": 0}]


def fake(tmp_path: Path, lie: Any = None) -> Path:
    path = tmp_path / "fake.py"
    path.write_text(FAKE.replace("LIE", repr(lie)))
    return path


def demonstrate(tmp_path: Path, lie: Any = None) -> int:
    return demo.demonstrate([sys.executable, str(fake(tmp_path, lie)), "x", "inductor"], tmp_path / "home")


def test_the_demo_is_content_with_a_cold_and_a_warm_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demonstrate(tmp_path) == 0
    out = capsys.readouterr().out
    assert "10.0x" in out and "all bit-equal" in out and "NOT" not in out


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_the_demo_fails_when_the_starts_are_not_a_cold_and_a_warm_one(tmp_path: Path, lie: Any) -> None:
    assert demonstrate(tmp_path, lie) == 1


def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Any = None) -> tuple[str, dict[str, Any]]:
    monkeypatch.setattr(start, "CHILD", fake(tmp_path, lie))
    monkeypatch.setenv("AOT_CACHE_DIR", "/nowhere")
    return start.run(argparse.Namespace(models=["mlp"], rounds=3, cold_rounds=2))


def test_the_start_benchmark_measures_every_variant_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, raw = bench(tmp_path, monkeypatch)
    assert {name: len(results) for name, results in raw["mlp"].items()} == {
        **dict.fromkeys(start.COLD, 2),
        **dict.fromkeys(start.WARM, 3),
    }
    assert "| ours-graphs | 1.00 (1.00-1.00, n=3) |" in text
    assert "| ours-frames | 1.00 (1.00-1.00, n=3) |" in text
    assert "| cold-ours / cold | 1.00 |" in text
    json.dumps(raw)


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_run_whose_counts_or_numbers_are_wrong_is_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Any
) -> None:
    with pytest.raises(child.ChildFailed):
        bench(tmp_path, monkeypatch, lie)


def test_numbers_that_differ_between_compiled_variants_are_an_error() -> None:
    def result(loss: float, gradient: float) -> dict[str, str]:
        return {"loss": loss.hex(), "gradient": gradient.hex()}

    same, reordered = result(1.0, 2.0), result(1.0, 2.0000001)
    start._same_numbers("mlp", {"cold": [same], "ours-graphs": [same, reordered], "eager": [result(1.1, 3.0)]})
    for other in (result(1.0000001, 2.0), result(1.0, 2.00001)):
        with pytest.raises(child.ChildFailed, match="differ"):
            start._same_numbers("mlp", {"cold": [same], "ours-graphs": [same, other]})


def test_a_table_has_a_header_a_rule_and_the_rows() -> None:
    assert report.table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert report.ratio([1, 2, 9], [4, 4, 1]) == 0.5


def test_a_child_gets_its_own_directories_and_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"AOT_CACHE", "TORCH_LOGS", "TORCHINDUCTOR_FX_GRAPH_CACHE", "PYTHONPATH", "XDG_CACHE_HOME"}
    for name in settings:
        monkeypatch.setenv(name, "1")
    found = child.environment(tmp_path, MORE="x")
    assert not settings & set(found)
    assert found["MORE"] == "x" and "PATH" in found
    for name in ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "AOT_CACHE_DIR"):
        assert Path(found[name]).is_relative_to(tmp_path)


def test_a_child_that_fails_tells_what_it_said() -> None:
    with pytest.raises(child.ChildFailed, match="(?s)trial: exit code 3.*sorry"):
        child.run_json([sys.executable, "-c", "import sys; print('sorry', file=sys.stderr); sys.exit(3)"], "trial")
    with pytest.raises(child.ChildFailed, match="(?s)not JSON.*hello"):
        child.run_json([sys.executable, "-c", "print('hello')"], "trial")


class FakeInstall:
    """Stands for venv and pip: records the steps, makes the python, fails or is interrupted where told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.steps: list[str] = []
        self.outcomes: dict[str, int | BaseException] = {}
        self.root = root
        (root / "pyproject.toml").write_text('"torch>=2.11,<2.16"')
        monkeypatch.setattr(child, "run", self.run)

    def run(self, argv: list[str], label: str, env: Any = None, cwd: Any = None) -> child.Finished:
        self.steps.append(label)
        if label == "making .venv":
            python = self.root / ".venv" / "bin" / "python"
            python.parent.mkdir()
            python.write_text("#!/bin/sh\nexit 1\n")
            python.chmod(0o755)
        outcome = self.outcomes.pop(label, 0)
        if isinstance(outcome, BaseException):
            raise outcome
        return child.Finished(outcome, "", "what pip said", 0.0)

    def torch(self, version: str) -> None:
        (self.root / ".venv" / "bin" / "python").write_text(f"#!/bin/sh\necho {version}\n")


ALL = ["making .venv", "installing torch==2.13.0", "installing aot_cache[test]"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInstall:
    return FakeInstall(monkeypatch, tmp_path)


def test_a_second_run_installs_nothing(install: FakeInstall) -> None:
    python = env.ensure(install.root, "test")
    assert python == install.root / ".venv" / "bin" / "python"
    assert install.steps == ALL
    env.ensure(install.root, "test")
    assert install.steps == ALL


def test_another_extra_and_another_pyproject_install_again_but_make_no_new_venv(install: FakeInstall) -> None:
    env.ensure(install.root, "test")
    install.torch("2.13.0+cpu")
    env.ensure(install.root, "demo")
    assert install.steps == [*ALL, "installing aot_cache[demo]"]
    (install.root / "pyproject.toml").write_text('"torch>=2.11,<2.16" # changed')
    env.ensure(install.root, "test")
    assert install.steps == [*ALL, "installing aot_cache[demo]", "installing aot_cache[test]"]


VERSIONS = [("2.11.0+cu130", True), ("2.15.9", True), ("2.10.1", False), ("2.16.0", False)]


@pytest.mark.parametrize(("version", "kept"), VERSIONS)
def test_a_torch_of_the_supported_range_is_kept(install: FakeInstall, version: str, kept: bool) -> None:
    (install.root / ".venv" / "bin").mkdir(parents=True)
    install.torch(version)
    (install.root / ".venv" / "bin" / "python").chmod(0o755)
    env.ensure(install.root, "test")
    assert install.steps == (ALL[2:] if kept else ALL[1:])


@pytest.mark.parametrize("step", ALL)
def test_an_interrupted_installation_starts_over(install: FakeInstall, step: str) -> None:
    install.outcomes[step] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        env.ensure(install.root, "test")
    install.steps.clear()
    env.ensure(install.root, "test")
    assert install.steps == ALL


def test_a_failed_pip_shows_what_it_said_and_is_tried_again(
    install: FakeInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    install.outcomes[ALL[2]] = 7
    with pytest.raises(SystemExit) as stopped:
        env.ensure(install.root, "test")
    assert stopped.value.code == 1
    assert "what pip said" in capsys.readouterr().err
    install.steps.clear()
    env.ensure(install.root, "test")
    assert install.steps == ALL[1:]


def test_a_second_installer_waits_for_the_first(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(TOOLS)!r})\nimport env, pathlib\n"
    code += f"with env._lock(pathlib.Path({str(tmp_path)!r})): print('in', flush=True)"
    pipe = subprocess.PIPE
    with env._lock(tmp_path):
        second = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)
        assert second.stderr and "waiting for another run" in second.stderr.readline()
        assert second.poll() is None
    assert second.communicate()[0] == "in\n"
