"""Custom operators are what is registered for them: nothing of it may be left out, and nothing else may count."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support import FreshProcess
from torch import Tensor

from aot_cache.key import operators
from aot_cache.key.build import identify
from aot_cache.key.encode import CannotKey
from aot_cache.torch_compat import extensions, registrations
from aot_cache.torch_compat.patches import Patches


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    patches = Patches()
    registrations.watch(patches)
    yield
    patches.undo()


def define(
    change: Callable[[torch.library.CustomOpDef], object] = lambda op: None, mutates: tuple[str, ...] = ()
) -> str:
    """Identity of one operator after `change`."""

    def scale(x: Tensor) -> Tensor:
        return x * 2

    op = torch.library.custom_op("snd_tests::scale", scale, mutates_args=mutates)
    op.register_fake(torch.empty_like)
    change(op)
    return identify(op)


REGISTERED: dict[str, Callable[[torch.library.CustomOpDef], object]] = {
    "kernel of a device": lambda op: op.register_kernel("cpu")(lambda x: x * 3),
    "fake": lambda op: op.register_fake(lambda x: x.new_empty(x.shape)),
    "backward": lambda op: op.register_autograd(lambda ctx, grad: grad * 2),
    "other backward": lambda op: op.register_autograd(lambda ctx, grad: grad * 3),
    "context": lambda op: op.register_autograd(
        lambda ctx, grad: grad * 2, setup_context=lambda ctx, inputs, output: None
    ),
    "vmap": lambda op: op.register_vmap(lambda info, dims, x: (x, 0)),
    "autocast": lambda op: op.register_autocast("cpu", torch.bfloat16),
    "other autocast": lambda op: op.register_autocast("cpu", torch.float16),
    "effect": lambda op: op.register_effect(torch.library.EffectType.ORDERED),
    "rule": lambda op: op._opoverload.py_impl(torch._C.DispatchKey.Meta)(lambda x: x),
}


def test_the_same_definition_has_the_same_identity() -> None:
    assert define() == define()


def test_everything_that_is_registered_counts() -> None:
    found = {name: define(change) for name, change in REGISTERED.items()}
    found |= {"nothing": define(), "mutation": define(mutates=("x",))}
    assert [name for name in found if list(found.values()).count(found[name]) > 1] == []


def test_an_operator_that_was_defined_before_can_still_be_identified() -> None:
    first = define()
    gc.collect()  # the earlier definition takes torch's notes of the kernels with it
    assert define() == first
    gc.collect()
    assert identify(torch.ops.snd_tests.scale) == first


def test_a_call_does_not_change_the_identity() -> None:
    op = torch.library.custom_op("snd_tests::scale", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: torch.empty_like(x))
    before = identify(op)
    op(torch.ones(3))
    torch.ops.snd_tests.scale(torch.ones(3, device="meta"))
    assert identify(op) == before


def test_operator_packet_and_definition_are_one() -> None:
    op = torch.library.custom_op("snd_tests::scale", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert identify(op) == identify(torch.ops.snd_tests.scale) == identify(torch.ops.snd_tests.scale.default)


def by_library(kernel: Callable[[Tensor], Tensor]) -> str:
    with torch.library._scoped_library("snd_tests", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", kernel, "CompositeImplicitAutograd")
        return identify(torch.ops.snd_tests.twice.default)


def test_kernels_of_a_library_count() -> None:
    assert by_library(lambda x: x * 2) == by_library(lambda x: x * 2) != by_library(lambda x: x * 3)


def test_a_kernel_that_a_library_adds_to_a_custom_op_counts() -> None:
    before = define()
    with torch.library._scoped_library("snd_tests", "FRAGMENT") as library:
        library.impl("scale", lambda x: x * 3, "CUDA")
        assert identify(torch.ops.snd_tests.scale) != before
    assert identify(torch.ops.snd_tests.scale) == before


def test_a_kernel_that_was_registered_unseen_has_no_identity() -> None:
    with torch.library._scoped_library("snd_tests", "FRAGMENT") as library:
        library.define("unseen(Tensor x) -> Tensor")
        inspect.unwrap(torch.library.Library.impl)(library, "unseen", lambda x: x, "CPU")
        with pytest.raises(CannotKey, match=r"snd_tests::unseen: its CPU kernel was registered before") as caught:
            identify(torch.ops.snd_tests.unseen.default)
    assert "import torch" in caught.value.remedy


def overridden(kernel: Callable[..., Tensor]) -> str:
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("frobenius_norm.dim", kernel, "CompositeImplicitAutograd")
        return operators.extensions_part(identify).digest


def test_kernels_for_operators_of_torch_count_as_long_as_they_are_there() -> None:
    before = operators.extensions_part(identify)
    assert overridden(lambda x, d, k: x * 2) == overridden(lambda x, d, k: x * 2) != overridden(lambda x, d, k: x * 3)
    assert operators.extensions_part(identify) == before


def test_what_torch_registers_itself_does_not_count(fresh_process: FreshProcess) -> None:
    code = """
import json, torch
from aot_cache.key.build import identify
from aot_cache.key.operators import extensions_part
from aot_cache.torch_compat import registrations
registrations.start_early()
before = extensions_part(identify).digest
import torch._inductor.lowering, torch.distributed.tensor
print(json.dumps([before == extensions_part(identify).digest, len(registrations._kernels)]))
"""
    equal, noted = fresh_process(code)
    assert noted > 50
    assert equal


def test_an_override_made_before_anything_was_watched_is_refused(fresh_process: FreshProcess) -> None:
    code = """
import json, torch
from aot_cache.torch_compat import extensions
library = torch.library.Library("aten", "IMPL")
library.impl("sin", lambda x: x, "Meta")
try:
    print(json.dumps(extensions.overrides()))
except extensions.UnknownKernel as error:
    print(json.dumps(str(error)))
"""
    assert "aten::sin: its Meta kernel is not torch's" in fresh_process(
        code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    )


def test_a_library_is_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(b"one")
    first = operators.library_facts(str(path))
    other = tmp_path / "b.so"
    other.write_bytes(b"one")
    assert operators.library_facts(str(other)) == first
    other.write_bytes(b"two")
    assert operators.library_facts(str(other)) != first


def test_a_library_of_a_distribution_is_its_version() -> None:
    import numpy

    assert operators.library_facts(numpy.__file__) == f"numpy {numpy.__version__}"


def test_a_compiled_kernel_is_the_library_that_names_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.so", tmp_path / "two.so"
    one.write_bytes(b"...\0/build/one.cpp\0...")
    two.write_bytes(b"...\0/build/two.cpp\0......")
    monkeypatch.setattr(operators, "_mapped_libraries", lambda: {str(one), str(two)})
    assert operators._library_of("/build/one.cpp", -1) == operators.library_facts(str(one))
    assert operators._library_of("/build/two.cpp", -1) == operators.library_facts(str(two))
    with pytest.raises(Exception, match="in none of the loaded libraries"):
        operators._library_of("/build/three.cpp", -1)


def test_torch_operators_are_not_custom() -> None:
    assert extensions.custom(torch.ops.aten.sin.default) is None
    assert extensions.custom(torch.sin) is None
