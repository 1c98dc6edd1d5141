"""Another budget is planned and lowered anew, and nothing is traced: the joint graph is that of the first budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.artifact.envelope import Envelope, Manifest, pack
from aot_cache.store.disk import DiskStore

HERE = Path(__file__).parent
PROGRAM = HERE / "offload_budgets.py"
PATHS = {"PYTHONPATH": ":".join(map(str, (HERE.parent.parent, HERE)))}
MODELS = ("chain", "marked", "kept_near", "checkpointed", "viewed", "own_backward")
FIRST = tuple(f"{name}=100MB" for name in MODELS)
SECOND = ("chain=2MB/1MB", *(f"{name}=50MB" for name in MODELS[1:]))
ONE = 256 * 256 * 4
Runs = list[dict[str, Any]]


class Machine:
    """One cache directory, and processes that use it. said: what the last one's cache said; joints: by model."""

    def __init__(self, home: Path) -> None:
        self._fresh, self._home = FreshProcess(home), home
        self.said: list[str] = []
        self.joints: dict[str, tuple[str, Envelope]] = {}

    def __call__(self, *arguments: str, **env: str) -> Runs:
        found = self._fresh(PROGRAM, *arguments, env={**PATHS, **env}, timeout=900)
        self.said = found["said"]
        runs: Runs = found["runs"]
        return runs

    @property
    def store(self) -> DiskStore:
        (index,) = self._home.rglob("cache.db")
        return DiskStore(index.parent, 10**9)

    def stored(self, prefix: str) -> dict[str, Envelope]:
        """Entries by name, oldest first."""
        found = {entry.name: Envelope(self.store.get(entry.name) or b"") for entry in self.store.entries(prefix)}
        return dict(sorted(found.items(), key=lambda pair: pair[1].manifest.created))

    def texts(self) -> list[dict[str, bytes]]:
        """The readable graphs and the generated code of each graph."""
        opened = self.stored("g-").values()
        return [{name: bytes(one.section(name)) for name in one.names if name.startswith("text.")} for one in opened]


def outcomes(runs: Runs) -> set[tuple[int, int, int]]:
    """Hits, misses, and joint graphs that were traced, of each run."""
    return {(found["graph_hit"], found["graph_miss"], found["traced"]) for found in runs}


def of(runs: Runs, what: str) -> list[Any]:
    return [found[what] for found in runs]


TRACED, UNTRACED, WARM = {(0, 1, 1)}, {(0, 1, 0)}, {(1, 0, 0)}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("budgets"))


@pytest.fixture(scope="module")
def first(machine: Machine) -> Runs:
    runs = machine(*FIRST)
    assert not machine.said
    machine.joints = dict(zip(MODELS, machine.stored("j-").items()))
    return runs


@pytest.fixture(scope="module")
def second(machine: Machine, first: Runs) -> Runs:
    runs = machine(*SECOND)
    assert not machine.said
    return runs


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Machine(tmp_path_factory.mktemp("plain"))(*(f"{name}=none" for name in MODELS))


def test_the_first_budget_traces_and_the_second_does_not(first: Runs, second: Runs) -> None:
    assert outcomes(first) == TRACED
    assert outcomes(second) == UNTRACED


def test_the_second_budgets_plans_are_its_own_and_are_carried_out(first: Runs, second: Runs) -> None:
    assert not [plan for plan in of(second, "plans") if plan in of(first, "plans")]
    assert of(second, "out") == of(second, "in") == of(second, "planned") == [ONE, ONE, 0, 0, 0, 0]


def test_outputs_and_gradients_are_those_without_a_block(plain: Runs, first: Runs, second: Runs) -> None:
    assert of(first, "values") == of(second, "values") == of(plain, "values")
    assert outcomes(plain) == TRACED


def test_the_second_budget_is_a_hit_in_the_next_process(machine: Machine, second: Runs) -> None:
    again = machine(*SECOND)
    assert outcomes(again) == WARM
    assert (of(again, "plans"), of(again, "values")) == (of(second, "plans"), of(second, "values"))


def test_plans_graphs_and_code_are_those_of_a_process_that_traces(
    machine: Machine, second: Runs, tmp_path: Path
) -> None:
    cold = Machine(tmp_path)
    traced = cold(*SECOND)
    assert outcomes(traced) == TRACED
    assert of(traced, "plans") == of(second, "plans")
    texts = machine.texts()
    assert [mine in texts for mine in cold.texts()] == [True] * len(MODELS)


def test_another_model_is_traced(machine: Machine, second: Runs) -> None:
    assert outcomes(machine("other=50MB")) == TRACED


def test_readonly_uses_what_is_there_and_writes_nothing_and_refresh_traces(machine: Machine, second: Runs) -> None:
    before = list(machine.stored(""))
    assert outcomes(machine("chain=99MB", AOT_CACHE_MODE="readonly")) == UNTRACED
    assert list(machine.stored("")) == before
    assert outcomes(machine("chain=98MB", AOT_CACHE_MODE="refresh")) == TRACED


def test_a_hit_that_is_verified_is_compared_with_a_trace(machine: Machine, second: Runs) -> None:
    assert outcomes(machine("chain=2MB/1MB", AOT_CACHE_VERIFY="1")) == {(1, 0, 1)}
    assert not machine.said


def test_dynamic_shapes_are_traced_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert outcomes(machine("chain=100MB", "chain=50MB", "dynamic")) == TRACED
    assert not machine.stored("j-")


def test_damaged_joint_graphs_are_traced_with_the_right_numbers_and_replaced(
    machine: Machine, first: Runs, plain: Runs
) -> None:
    whole = machine.joints

    def put(model: str, manifest: Manifest, section: bytes, bytes_less: int = 0) -> None:
        data = pack(manifest, {"joint": section})
        machine.store.put(whole[model][0], data[: len(data) - bytes_less])

    taken = {model: (opened.manifest, bytes(opened.section("joint"))) for model, (_, opened) in whole.items()}
    put("chain", *taken["chain"], bytes_less=10)
    put("marked", taken["marked"][0], b"{")
    put("kept_near", taken["kept_near"][0], taken["kept_near"][1].replace(b"placeholder", b"get_attr", 1))
    put("viewed", *taken["own_backward"])
    runs = machine(*(f"{model}=40MB" for model in MODELS))
    assert of(runs, "traced") == [1, 1, 1, 0, 1, 0]
    assert of(runs, "values") == of(plain, "values")
    assert [said.split("'")[0][:6] for said in machine.said] == ["Failed"] * 4
    now = machine.stored("j-")
    assert [now[name].manifest.key for name, _ in whole.values()] == [one.manifest.key for _, one in whole.values()]
    for name, _ in whole.values():
        now[name].check()


def test_blocks_of_a_transformer_under_a_second_budget(tmp_path_factory: pytest.TempPathFactory) -> None:
    machine, cold = (Machine(tmp_path_factory.mktemp(name)) for name in ("machine", "cold"))
    assert outcomes(machine("blocks=100MB")) == TRACED
    second, traced = machine("blocks=3MB"), cold("blocks=3MB")
    assert (outcomes(second), outcomes(traced)) == (UNTRACED, TRACED)
    assert of(second, "out") == of(second, "in") == of(second, "planned") != [0]
    assert (of(second, "plans"), of(second, "values")) == (of(traced, "plans"), of(traced, "values"))
    (texts,) = cold.texts()
    assert texts in machine.texts()
