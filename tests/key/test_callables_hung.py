"""What hangs on an object and code can read: order of attributes, a tensor's attributes, names, registrations."""

from __future__ import annotations

import collections.abc
import functools

import pytest
import torch
import torch.utils._pytree as pytree
from aot_cache.key.callables import Unidentified, identity
from aot_cache.key.operators import taught

from .callables_support import Load, digest, load  # noqa: F401

with_tensors = functools.partial(identity, values=taught)


def digests(load: Load, code: str, a: str, b: str) -> list[str]:  # noqa: F811
    assert "@@" in code and a != b
    return [digest(load(code.replace("@@", text)).f) for text in (a, b)]


@pytest.mark.parametrize(
    "code, a, b",
    [
        ("class A:\n    x = 1\n    @@\ndef f(): return list(vars(A))", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("class A:\n    @@\ndef f(): return list(A.__dict__)", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("class A:\n    @@\na = A()\ndef f(): return list(type(a).__dict__)", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("def g(): pass\n@@\ndef f(): return list(g.__dict__)", "g.y, g.z = 2, 3", "g.z, g.y = 3, 2"),
        ("import types\n@@\ndef f(): return list(vars(o))", "o = types.SimpleNamespace(y=2, z=3)", "o = types.SimpleNamespace(z=3, y=2)"),
        ("class K:\n    @@\ndef h(c): return list(vars(c))\ndef f(): return h(K)", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("class K:\n    @@\nL = [K]\ndef f(): return list(vars(L[0]))", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("import threading\nclass K: pass\no = K()\no.l = threading.Lock()\n@@\ndef h(c): return c.locked()\ndef f(): return h(o.l)", "", "o.l.acquire()"),
        ("def @@(): pass\nh = @@\ndef f(): return h.__name__", "g", "k"),
        ("import threading\nl = threading.Lock()\n@@\ndef f(): return l.locked()", "", "l.acquire()"),
    ],
    ids=["vars of a class", "class", "class of an object", "function", "namespace", "by a helper", "in a list", "lock by a helper", "name", "lock"],
)  # fmt: skip
def test_what_code_reads_of_it_counts(load: Load, code: str, a: str, b: str) -> None:  # noqa: F811
    one, two = digests(load, code, a, b)
    assert one != two


@pytest.mark.parametrize(
    "code, a, b",
    [
        ("class A:\n    @@\ndef f(): return A.y", "y = 2\n    z = 3", "z = 3\n    y = 2"),
        ("def g(): pass\n@@\ndef f(): return g.y", "g.y, g.z = 2, 3", "g.z, g.y = 3, 2"),
        ("import threading\nl = threading.Lock()\n@@\ndef f():\n    with l: return 1", "", "l.acquire()"),
    ],
    ids=["class", "function", "lock"],
)
def test_what_it_does_not_read_does_not_count(load: Load, code: str, a: str, b: str) -> None:  # noqa: F811
    one, two = digests(load, code, a, b)
    assert one == two


def hung(tensor: torch.Tensor, how: str) -> torch.Tensor:
    if how == "attribute":
        tensor.q = 2
    elif how == "hook":
        tensor.register_hook(lambda grad: grad)
    elif how == "gradient":
        tensor.grad = torch.ones(3)
    elif how == "larger storage":
        tensor = torch.ones(6)[:3].detach().requires_grad_()
    elif how == "mark of Dynamo's":
        tensor._dynamo_static_input_type = "guarded"
    return tensor


@pytest.mark.parametrize("how", ["attribute", "hook", "gradient", "larger storage"])
def test_what_hangs_on_a_tensor_counts(how: str) -> None:
    def tensor() -> torch.Tensor:
        return torch.ones(3, requires_grad=True)

    plain = with_tensors([tensor()]).digest
    assert plain == with_tensors([hung(tensor(), "mark of Dynamo's")]).digest
    assert plain != with_tensors([hung(tensor(), how)]).digest


def test_a_class_that_is_registered_with_an_abstract_class_of_pythons_counts(load: Load) -> None:  # noqa: F811
    module = load(
        "import collections.abc\nclass Q: pass\nq = Q()\ndef f(): return isinstance(q, collections.abc.Sized)"
    )
    before = digest(module.f)
    collections.abc.Sequence.register(module.Q)
    assert digest(module.f) != before


def test_the_count_of_a_tensors_changes_is_refused(load: Load) -> None:  # noqa: F811
    with pytest.raises(Unidentified, match="_version"):
        identity(load("T = []\ndef f(): return T[0]._version").f)


def test_hooks_of_all_modules_count_for_user_code(load: Load) -> None:  # noqa: F811
    module = load("import torch\nL = torch.nn.Linear\ndef f(x): return x\ndef hook(m, i, o): return o * 2")
    before = digest(module.f)
    handle = torch.nn.modules.module.register_module_forward_hook(module.hook)
    try:
        assert digest(module.f) != before
    finally:
        handle.remove()
    assert digest(module.f) == before


def test_how_a_users_container_is_taken_apart_counts_for_user_code(load: Load) -> None:  # noqa: F811
    module = load("class Q: pass\ndef apart(q): return [1], None\ndef together(v, c): return Q()\ndef f(x): return x\n")
    before = digest(module.f)
    pytree.register_pytree_node(module.Q, module.apart, module.together)
    try:
        assert digest(module.f) != before
    finally:
        pytree._deregister_pytree_node(module.Q)
    assert digest(module.f) == before
