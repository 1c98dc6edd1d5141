"""The levels of CPUs: Inductor writes and builds for the level that was asked for, and for nothing of this CPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import codecache, config, cpp_builder, cpu_vec_isa, utils

from aot_cache.errors import HookMismatch
from aot_cache.key import machine
from aot_cache.settings import CPU_LEVELS
from aot_cache.torch_compat import cpu, kernels
from aot_cache.torch_compat.patches import Patches

SEAMS = (
    (cpu_vec_isa, "pick_vec_isa"),
    (codecache, "pick_vec_isa"),
    (cpp_builder, "_get_optimization_cflags"),
    (utils, "is_mkldnn_bf16_supported"),
    (utils, "is_mkldnn_fp16_supported"),
)
Use = Callable[[str], None]


@pytest.fixture
def use() -> Iterator[Use]:
    """Compile for a level; the compiler is not asked whether it can build for vectors."""
    patches = Patches()

    def join(level: str) -> None:
        patches.undo()
        cpu.use(level)
        cpu.join(patches)

    with config.patch({"cpp.vec_isa_ok": True}):
        yield join
    cpu.use("")
    assert patches.undo() == []


def test_all_that_speak_of_levels_know_the_same_ones() -> None:
    assert set(CPU_LEVELS) == cpu.FLAGS.keys() == machine.LEVELS.keys()


@pytest.mark.parametrize("level", CPU_LEVELS)
def test_the_flags_of_a_level_are_what_the_compiler_means_by_its_name(level: str) -> None:
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")

    def macros(*flags: str) -> str:
        return subprocess.check_output([compiler, *flags, "-dM", "-E", "-x", "c", "/dev/null"], text=True)

    try:
        by_name = macros(f"-march={level}")
    except subprocess.CalledProcessError:
        pytest.skip("this g++ does not know the levels by name")
    assert macros(*(f"-{flag}" for flag in cpu.FLAGS[level])) == by_name


@pytest.mark.parametrize("level", CPU_LEVELS)
@pytest.mark.parametrize("march", [None, "native", ""], ids=repr)
def test_code_is_built_for_the_level_whatever_else_is_said(use: Use, level: str, march: str | None) -> None:
    use(level)
    with config.patch({"cpp.march": march}):
        options = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.pick_vec_isa())
    command = cpp_builder.CppBuilder("name", ["source.cpp"], options).get_command_line().split()
    assert [word for word in command if word.startswith(("-march", "-mtune", "-mcpu"))] == ["-march=x86-64"]
    machine_flags = {word for word in command if word.startswith("-m")}
    assert machine_flags == {f"-{flag}" for flag in cpu.FLAGS[level] if flag.startswith("m")}


WIDTHS = {"x86-64-v2": (0, 0, 0), "x86-64-v3": (256, 256, 0), "x86-64-v4": (512, 256, 512)}


@pytest.mark.parametrize("level", CPU_LEVELS)
@pytest.mark.parametrize("capability", ["", "default", "avx2", "avx512"])
def test_code_is_written_for_the_vectors_of_the_level(
    use: Use, monkeypatch: pytest.MonkeyPatch, level: str, capability: str
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    use(level)
    for simdlen, width in zip((None, 256, 512), WIDTHS[level], strict=True):
        with config.patch({"cpp.simdlen": simdlen}):
            assert [module.pick_vec_isa().bit_width() for module in (cpu_vec_isa, codecache)] == [width] * 2


def test_the_widest_level_has_none_of_the_extensions_that_this_cpu_has(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    use("x86-64-v4")
    picked = cpu_vec_isa.pick_vec_isa()
    assert isinstance(picked, cpu_vec_isa.VecAVX512) and not isinstance(picked, cpu_vec_isa.VecAVX512VNNI)
    assert picked.build_arch_flags() == cpu_vec_isa.VecAVX512._arch_flags and not picked.is_avx512_bf16_supported()
    assert str(picked) == "avx512"


def test_no_level_promises_onednn_s_narrow_types_on_the_cpu(use: Use) -> None:
    use("x86-64-v4")
    asked = (utils.is_mkldnn_bf16_supported, utils.is_mkldnn_fp16_supported)
    assert [ask("cpu") for ask in asked] == [False, False] and [ask("xpu") for ask in asked] == [True, True]


def test_where_sources_are_for_another_level_the_isa_differs(use: Use) -> None:
    found = set()
    for level in ("x86-64-v3", "x86-64-v4"):
        use(level)
        with config.patch({"cpp.simdlen": 256}):
            found.add(kernels.isa())
    assert found == {"avx2; -mavx2 -mfma -mf16c; x86-64-v3", "avx2; -mavx2 -mfma -mf16c; x86-64-v4"}


def test_without_a_level_torch_is_left_alone(use: Use) -> None:
    before = [vars(module)[name] for module, name in SEAMS]
    use("x86-64-v3")
    assert all(vars(module)[name] is not old for (module, name), old in zip(SEAMS, before, strict=True))
    use("")
    assert all(vars(module)[name] is old for (module, name), old in zip(SEAMS, before, strict=True))


def test_what_a_module_kept_does_what_torch_does_once_the_level_is_gone(use: Use) -> None:
    use("x86-64-v2")
    kept = cpu_vec_isa.pick_vec_isa
    assert not kept()
    use("")
    assert kept() is cpu_vec_isa.pick_vec_isa()


def test_a_torch_without_the_seam_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, use: Use) -> None:
    monkeypatch.setitem(cpu.sys.modules, "torch._inductor.cpp_builder", SimpleNamespace(__name__="cpp_builder"))
    with pytest.raises(HookMismatch, match="_get_optimization_cflags: set AOT_CACHE_CPU to native"):
        use("x86-64-v3")


@pytest.mark.parametrize("mode", ["subprocess", "async+subprocess"])
def test_what_another_process_writes_for_its_vectors_is_not_built_for_a_level(
    use: Use, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.delitem(cpu.sys.modules, "torch._inductor.compile_fx", raising=False)
    use("x86-64-v2")
    assert not cpu_vec_isa.pick_vec_isa() and cpu.level() == "x86-64-v2"
    monkeypatch.setenv("TORCHINDUCTOR_FX_COMPILE_MODE", mode)
    assert cpu.level() == "" and "another process" in cpu.obstacle()
    flags, _ = cpp_builder._get_optimization_cflags("g++")
    assert not set(cpu.FLAGS["x86-64-v2"]) & set(flags)


@pytest.mark.parametrize(
    ("mode", "is_async", "level"), [("NORMAL", False, "x86-64-v2"), ("SUBPROCESS", False, ""), ("NORMAL", True, "")]
)
def test_how_inductor_was_told_to_compile_in_python_counts_as_well(
    use: Use, monkeypatch: pytest.MonkeyPatch, mode: str, is_async: bool, level: str
) -> None:
    said = SimpleNamespace(fx_compile_mode=SimpleNamespace(name=mode), fx_compile_async=is_async)
    monkeypatch.setitem(cpu.sys.modules, "torch._inductor.compile_fx", said)
    use("x86-64-v2")
    assert cpu.level() == level
