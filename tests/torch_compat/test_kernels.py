from __future__ import annotations

import select
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch._inductor.codecache as codecache
from torch._inductor import cpu_vec_isa
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.runtime import compile_tasks

from aot_cache.errors import AotCacheError, ForeignEntry, HookMismatch
from aot_cache.torch_compat import kernels

Cache = codecache.CppPythonBindingsCodeCache
SEAMS = ((Cache, "load_pybinding_async"), (codecache, "_reload_python_module"), (CompiledFxGraph, "write_to_disk"))
WRAPPER = """
from torch._inductor.codecache import CppPythonBindingsCodeCache
kernel = CppPythonBindingsCodeCache.load_pybinding(["float*"], "{source}")
def call(args):
    return kernel if args else 1 / 0
"""


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    kernels.install()
    yield
    assert kernels.uninstall() == []


@pytest.fixture
def torch_builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that torch was asked to build; what it builds is the module `select`, with a function `kernel`."""
    asked: list[str] = []

    def load_async(cls: Any, source: str, *args: Any, **kwargs: Any) -> Callable[[], ModuleType]:
        asked.append(source.splitlines()[0])
        library = ModuleType("library")
        library.kernel = select.select  # type: ignore[attr-defined]
        return lambda: library

    monkeypatch.setattr(codecache.CppCodeCache, "load_async", classmethod(load_async))
    monkeypatch.setattr(kernels, "isa", lambda: "avx512; -mavx512f")
    return asked


def wrapper(source: str) -> SimpleNamespace:
    return SimpleNamespace(source_code=WRAPPER.format(source=source))


def execute(graph: SimpleNamespace, path: Path) -> ModuleType:
    path.write_text(graph.source_code)
    return codecache.PyCodeCache.load_by_key_path(path.stem, str(path), attrs={})


def fingerprint(source: str, tmp_path: Path) -> str:
    execute(wrapper(source), tmp_path / f"{source}.py")
    (found,) = kernels.of_graph(wrapper(source).source_code) or ()
    return found


def test_uninstalling_leaves_torch_exactly_as_it_was() -> None:
    kernels.uninstall()
    before = [vars(owner)[name] for owner, name in SEAMS]
    kernels.install()
    assert all(vars(owner)[name] is not old for (owner, name), old in zip(SEAMS, before, strict=True))
    assert kernels.uninstall() == []
    assert all(vars(owner)[name] is old for (owner, name), old in zip(SEAMS, before, strict=True))
    assert not hasattr(compile_tasks, "open") and not hasattr(compile_tasks, "compile")


def test_installing_twice_joins_once() -> None:
    once = vars(Cache)["load_pybinding_async"]
    kernels.install()
    assert vars(Cache)["load_pybinding_async"] is once


def test_a_torch_with_another_seam_is_refused_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.uninstall()
    monkeypatch.setattr(codecache, "_reload_python_module", lambda where: None)
    before = vars(Cache)["load_pybinding_async"]
    with pytest.raises(HookMismatch, match="_reload_python_module"):
        kernels.install()
    assert vars(Cache)["load_pybinding_async"] is before


def test_what_a_wrapper_asks_for_is_recorded_with_its_library(torch_builds: list[str], tmp_path: Path) -> None:
    found = fingerprint("code", tmp_path)
    library = kernels.built(found)
    assert torch_builds == ["code"]
    assert library is not None and library.path == Path(select.__file__) and library.isa == "avx512; -mavx512f"
    assert library.name == f"{Path(select.__file__).name.partition('.')[0]}.kernel"


def test_the_glue_of_another_device_does_not_make_torch_probe_the_cpu(
    torch_builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "isa", lambda: pytest.fail("the CPU was probed"))
    source = WRAPPER.format(source="glue").replace('"glue"', '"glue", device_type="cuda"')
    execute(SimpleNamespace(source_code=source), tmp_path / "glue.py")
    (found,) = kernels.of_graph(source) or ()
    library = kernels.built(found)
    assert library is not None and library.isa == ""


def test_a_wrapper_that_was_not_executed_is_unknown() -> None:
    assert kernels.of_graph(wrapper("never executed").source_code) is None


def test_a_wrapper_executed_by_another_counts_for_both(torch_builds: list[str], tmp_path: Path) -> None:
    inner = tmp_path / "inner.py"
    inner.write_text(wrapper("inner").source_code)
    outer = f"from torch._inductor.codecache import PyCodeCache\nPyCodeCache.load_by_key_path('inner', {str(inner)!r})"
    execute(SimpleNamespace(source_code=outer), tmp_path / "outer.py")
    assert kernels.of_graph(outer) == kernels.of_graph(inner.read_text()) != ()


@pytest.mark.parametrize(
    "other",
    [
        lambda: Cache.load_pybinding_async(["float*"], "other code"),
        lambda: Cache.load_pybinding_async(["int*"], "code"),
        lambda: Cache.load_pybinding_async(["float*"], "code", num_outputs=2),
        lambda: Cache.load_pybinding_async(["float*"], "code", extra_flags=("-lm",)),
        lambda: Cache.load_pybinding_async(["float*"], "code", kernel_code="more"),
        lambda: codecache.CppWrapperCodeCache.load_pybinding_async(["float*"], "code", num_outputs=1),
    ],
)
def test_every_argument_that_changes_the_library_is_in_the_fingerprint(
    other: Callable[[], Any], torch_builds: list[str], tmp_path: Path
) -> None:
    with kernels.serving({fingerprint("code", tmp_path): lambda: "stored"}, "") as counts:
        other()
    assert len(counts.rebuilt) == 1 and not counts.loaded


def test_the_same_request_spelled_another_way_has_the_same_fingerprint(torch_builds: list[str], tmp_path: Path) -> None:
    with kernels.serving({fingerprint("code", tmp_path): lambda: "stored"}, "") as counts:
        request = {"main_code": "code", "argtypes": ("float*",), "device_type": "cpu", "submit_fn": print}
        assert Cache.load_pybinding_async(**request)() == "stored"
    assert len(counts.loaded) == 1 and not counts.rebuilt


def test_a_stored_kernel_is_answered_without_asking_torch(torch_builds: list[str], tmp_path: Path) -> None:
    found = fingerprint("code", tmp_path)
    torch_builds.clear()
    with kernels.serving({found: lambda: "stored"}, "avx512") as counts:
        assert execute(wrapper("code"), tmp_path / "again.py").call(["x"]) == "stored"
    assert (counts.loaded, counts.rebuilt, torch_builds) == ([found], {}, [])


def test_kernels_are_served_to_the_thread_that_loads_the_entry_only(torch_builds: list[str], tmp_path: Path) -> None:
    answers: list[Any] = []
    with kernels.serving({fingerprint("code", tmp_path): lambda: "stored"}, ""):
        thread = threading.Thread(target=lambda: answers.append(Cache.load_pybinding(["float*"], "code")))
        thread.start()
        thread.join()
    assert answers == [select.select]


@pytest.mark.parametrize("error", [AotCacheError("no bytes"), ImportError("no bytes"), OSError("no bytes")])
def test_a_kernel_that_cannot_be_loaded_is_built_by_torch_and_the_reason_kept(
    error: Exception, torch_builds: list[str], tmp_path: Path
) -> None:
    def fail() -> None:
        raise error

    found = fingerprint("code", tmp_path)
    with kernels.serving({found: fail}, "avx512; -mavx512f") as counts:
        assert Cache.load_pybinding(["float*"], "code") is select.select
    assert counts.rebuilt == {found: "no bytes"}


def test_sources_for_another_vector_width_are_not_built(torch_builds: list[str]) -> None:
    with kernels.serving({}, "avx2; -mavx2"), pytest.raises(ForeignEntry, match="avx2.*does not hold it.*avx512"):
        Cache.load_pybinding(["float*"], "code")
    assert torch_builds == []


def test_without_a_compiler_an_unserved_kernel_says_so(
    torch_builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler() -> str:
        raise RuntimeError("no working C++ compiler")

    monkeypatch.setattr(kernels, "isa", no_compiler)
    with kernels.serving({}, "avx512"), pytest.raises(ForeignEntry, match="no working C\\+\\+ compiler"):
        Cache.load_pybinding(["float*"], "code")


def test_amx_is_asked_for_and_its_kernels_refused_without_it(
    torch_builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fingerprint("code", tmp_path)
    monkeypatch.setattr(kernels, "isa", lambda: "avx512 amx_tile")
    for granted in (True, False):
        monkeypatch.setattr(kernels.torch.cpu, "_init_amx", lambda granted=granted: granted)
        with kernels.serving({found: lambda: "stored"}, "avx512 amx_tile") as counts:
            Cache.load_pybinding(["float*"], "code")
        assert bool(counts.loaded) is granted and ("AMX" in counts.rebuilt.get(found, "")) is not granted


def test_serving_needs_the_seams() -> None:
    kernels.uninstall()
    with pytest.raises(HookMismatch, match="install"), kernels.serving({}, ""):
        pass


def test_a_served_wrapper_is_executed_without_a_file_and_tracebacks_show_its_lines(
    torch_builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecache, "write_atomic", lambda *a, **k: pytest.fail("a file was written"))
    with kernels.serving({}, ""):
        path = CompiledFxGraph.write_to_disk(wrapper("code"))
        module = codecache.PyCodeCache.load_by_key_path("key", path, [(1, "a node")], {"constant": 7})
    assert not Path(path).exists() and module.constant == 7
    assert codecache.PyCodeCache.linemaps[path] == [(1,), ("a node",)]
    try:
        module.call([])
    except ZeroDivisionError:
        assert "return kernel if args else 1 / 0" in traceback.format_exc()


def test_outside_of_serving_torch_writes_the_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    path = CompiledFxGraph.write_to_disk(SimpleNamespace(source_code="x = 1", cache_key="cabcdef"))
    assert Path(path).read_text() == "x = 1" and tmp_path in Path(path).parents


def test_the_isa_is_what_torch_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", cpu_vec_isa.VecAVX2)
    assert kernels.isa() == "avx2; -mavx2 -mfma -mf16c"


def test_importing_it_imports_nothing_of_the_compiler() -> None:
    code = "import sys, aot_cache.artifact.native; print([m for m in sys.modules if m.startswith('torch._inductor')])"
    before = "import sys, torch; print([m for m in sys.modules if m.startswith('torch._inductor')])"
    ours, theirs = (subprocess.check_output([sys.executable, "-c", c], text=True) for c in (code, before))
    assert ours == theirs
