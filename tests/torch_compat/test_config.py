"""Which of torch's settings count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.config as dynamo
import torch._inductor.config_comms as comms
import torch._numpy as numpy
import torch.compiler.config as shared
from torch.distributed import config as distributed

from aot_cache.torch_compat import config, frames_state, state

READ = {"_dynamo", "_functorch", "_inductor", "compiler", "distributed", "fx.experimental"}
# torch.export is not cached, and torch.save and torch.load are not compiled.
NOT_READ = {"_export", "utils.serialization"}


def test_every_module_of_settings_of_torch_is_known() -> None:
    home = Path(torch.__file__).parent
    calls = re.compile(r"^_?install_config_module\(sys\.modules", re.MULTILINE)
    places = [
        path for path in home.rglob("*config*.py") if "testing" not in path.parts and calls.search(path.read_text())
    ]
    assert {".".join(path.relative_to(home).parts[:-1]) for path in places} == READ | NOT_READ


@pytest.mark.parametrize("module, name, value, counts", [
    (shared, "cache_key_tag", "mine", "compiler.cache_key_tag"),
    (comms, "reorder_iterative_peak_memory_budget", 0.3, "comms.reorder_iterative_peak_memory_budget"),
    (distributed, "compile_on_one_rank", True, "distributed.compile_on_one_rank"),
    (dynamo, "use_numpy_random_stream", True, "dynamo.use_numpy_random_stream"),
])  # fmt: skip
def test_a_setting_counts_for_a_graph(module: Any, name: str, value: Any, counts: str) -> None:
    before = config.snapshot()
    with module.patch({name: value}):
        changed = config.snapshot()
    assert {key for key in changed if changed[key] != before.get(key)} == {counts}
    assert config.non_default(changed)[counts] == (value, before[counts])


@pytest.mark.parametrize("name", ["dynamic_sources", "dynamic_values", "unbacked_sources"])
def test_what_makes_sizes_dynamic_counts_for_a_frame_and_the_graph_says_what_it_did(name: str) -> None:
    frame, graph = frames_state.dynamo_config(), config.snapshot()
    with shared.patch({name: "7"}):
        changed = frames_state.dynamo_config()
        assert config.snapshot() == graph
    assert {key for key in changed if changed[key] != frame[key]} == {f"compiler.{name}"}


@pytest.mark.parametrize("name, value", [("job_id", "mine"), ("force_disable_caches", True), ("recompile_limit", 9)])
def test_a_setting_of_caches_and_a_name_for_one_of_dynamos_do_not_count_for_a_graph(name: str, value: Any) -> None:
    before = config.snapshot()
    with shared.patch({name: value}):
        assert config.snapshot() == before


def test_numpys_default_types_count_as_they_are_and_not_as_settings_that_are_read_no_more() -> None:
    known = state.ambient()["numpy"]
    numpy.ones(1)
    with dynamo.patch(numpy_default_float="float32"):
        assert state.ambient()["numpy"] == known == ["torch.float64", "torch.complex128", "torch.int64"]
    numpy.set_default_dtype("pytorch")
    try:
        assert state.ambient()["numpy"] == ["torch.float32", "torch.complex64", "torch.int64"]
    finally:
        numpy.set_default_dtype("numpy")


def test_numpys_default_types_are_those_of_the_settings_until_they_are_first_read(monkeypatch: Any) -> None:
    monkeypatch.setattr(numpy._dtypes_impl, "_default_dtypes", None)
    known = state.ambient()["numpy"]
    with dynamo.patch(numpy_default_float="float32", numpy_default_int="int32"):
        changed = state.ambient()["numpy"]
        numpy.ones(1)
        assert state.ambient()["numpy"] == changed == ["torch.float32", "torch.complex128", "torch.int32"] != known


@pytest.mark.parametrize("mark, same", [
    (lambda x: torch._dynamo.mark_static(x, 0), False),
    (lambda x: torch._dynamo.mark_dynamic(x, 0, hint_override=5), False),
    (lambda x: torch._dynamo.decorators.mark_unbacked(x, 0, min=1, max=9), False),
    (lambda x: torch._dynamo.decorators.mark_unbacked(x, 0, shape_id="a", strict=True), False),
    (lambda x: torch._dynamo.mark_static_address(x), True),
    (lambda x: setattr(x, "_dynamo_dynamic_indices", set()), True),
])  # fmt: skip
def test_a_mark_on_a_tensor_is_told_unless_it_says_nothing(mark: Any, same: bool) -> None:
    tensor, other = torch.ones(4), torch.ones(4)
    mark(tensor), mark(other)
    assert frames_state.marks_of_tensor(tensor) == frames_state.marks_of_tensor(other)
    assert (frames_state.marks_of_tensor(tensor) == []) == same


def test_all_that_a_mark_was_told_is_told() -> None:
    tensor = torch.ones(4)
    torch._dynamo.decorators.mark_unbacked(tensor, 0, hint_override=5, min=1, max=9, shape_id="a", strict=False)
    text = " ".join(frames_state.marks_of_tensor(tensor))
    assert all(part in text for part in ("[(0, 5)]", "[(0, (1, 9))]", "[(0, 'a')]"))


def test_a_class_of_modules_that_is_marked_static_is_told() -> None:
    class Marked(torch.nn.Module):
        pass

    before = frames_state.marks(Marked)
    torch._dynamo.mark_static(Marked)
    assert (before, frames_state.marks(Marked)) == ([], ["_dynamo_marked_static"])
