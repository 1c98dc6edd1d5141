"""Changes to a program between two processes: what each does to a stored frame.

A change is the source of a module with `@@` in one or more places, the two texts that stand there, and what must happen
when the second is run on what the first has stored:

    MISS    no frame of it is taken from the store
    HIT     all of them are, because the change does not matter or only changes what the frame computes with
    ANY     either; the values must be right
    BYPASS  it is never stored, not even for the same program again
    ALONE   as MISS; the same program hits in a process of its own, since others leave something behind that it reads

In all of them the values must be those of a run without any cache. Matrix products keep the C++ compiler out.
"""

from __future__ import annotations

from typing import NamedTuple

MISS, HIT, ANY, BYPASS, ALONE = "miss", "hit", "any", "bypass", "alone"

PRELUDE = '''
import abc, collections, contextlib, dataclasses, enum, functools, math, os, types
import torch
from torch import nn

X = torch.arange(9.0).reshape(3, 3) / 10

def mm(x, k=1):
    return torch.addmm(x, x, x, alpha=k)

def run(function, *args, **options):
    with torch.no_grad():
        return torch.compile(function, **options)(*args)
'''


class Change(NamedTuple):
    source: str
    before: str
    after: str
    expected: str = MISS


CHANGES: dict[str, Change] = {}


def change(name: str, source: str, before: str, after: str, expected: str = MISS) -> None:
    assert name not in CHANGES and "@@" in source
    CHANGES[name] = Change(source, before, after, expected)


F = "\ndef case():\n    return run(f, X)\n"

# -- code ------------------------------------------------------------------------------------------------------------------
# First, while nothing is registered with the abstract classes of the environment.
change("variable of the environment that is not read", "import os\n@@\ndef f(x): return mm(x, 2 if os.environ.get('FRAMES_5', '1') == '1' else 3)\n" + F, "", "os.environ['FRAMES_3'] = '2'", HIT)
change("code of the frame", "def f(x):\n    return mm(x, @@)\n" + F, "2", "3")
change("inlined function", "def g(x):\n    return mm(x, @@)\ndef f(x):\n    return g(x)\n" + F, "2", "3")
change("function inlined by an inlined function", "def h(x): return mm(x, @@)\ndef g(x): return h(x)\ndef f(x): return g(x)\n" + F, "2", "3")
change("method", "class A:\n    def g(self, x): return mm(x, @@)\nA0 = A()\ndef f(x): return A0.g(x)\n" + F, "2", "3")
change("method of a base class", "class B:\n    def g(self, x): return mm(x, @@)\nclass A(B): pass\nA0 = A()\ndef f(x): return A0.g(x)\n" + F, "2", "3")
change("method of a module", "class M(nn.Module):\n    def g(self, x): return mm(x, @@)\n    def forward(self, x): return self.g(x)\ndef case(): return run(M(), X)\n", "2", "3")
change("forward of a module", "class M(nn.Module):\n    def forward(self, x): return mm(x, @@)\ndef case(): return run(M(), X)\n", "2", "3")
change("forward of a child", "class C(nn.Module):\n    def forward(self, x): return mm(x, @@)\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.c = C()\n    def forward(self, x): return self.c(x)\ndef case(): return run(M(), X)\n", "2", "3")
change("function inside a function", "def f(x):\n    def g(y): return mm(y, @@)\n    return g(x)\n" + F, "2", "3")
change("function made by a function", "def make():\n    def g(y): return mm(y, @@)\n    return g\nG = make()\ndef f(x): return G(x)\n" + F, "2", "3")
change("lambda in a global", "G = lambda y: mm(y, @@)\ndef f(x): return G(x)\n" + F, "2", "3")
change("lambda in a list", "L = [lambda y: mm(y, @@)]\ndef f(x): return L[0](x)\n" + F, "2", "3")
change("decorated function", "def twice(h):\n    @functools.wraps(h)\n    def w(x): return h(h(x))\n    return w\n@twice\ndef g(x): return mm(x, @@)\ndef f(x): return g(x)\n" + F, "2", "3")
change("decorator", "def deco(h):\n    @functools.wraps(h)\n    def w(x): return mm(h(x), @@)\n    return w\n@deco\ndef g(x): return mm(x)\ndef f(x): return g(x)\n" + F, "2", "3")
change("property", "class A:\n    @property\n    def k(self): return @@\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("static method", "class A:\n    @staticmethod\n    def k(): return @@\ndef f(x): return mm(x, A.k())\n" + F, "2", "3")
change("class method", "class A:\n    @classmethod\n    def k(cls): return @@\ndef f(x): return mm(x, A.k())\n" + F, "2", "3")
change("__call__ of an object", "class A:\n    def __call__(self, x): return mm(x, @@)\nA0 = A()\ndef f(x): return A0(x)\n" + F, "2", "3")
change("__getattr__ of a class", "class A:\n    def __getattr__(self, name): return @@\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("__len__ of a class", "class A:\n    def __len__(self): return @@\nA0 = A()\ndef f(x): return mm(x, len(A0))\n" + F, "2", "3")
change("__eq__ of a class", "class A:\n    def __eq__(self, other): return @@\n    __hash__ = object.__hash__\nA0, A1 = A(), A()\ndef f(x): return mm(x, 2 if A0 == A1 else 3)\n" + F, "True", "False")
change("__bool__ of a class", "class A:\n    def __bool__(self): return @@\nA0 = A()\ndef f(x): return mm(x, 2 if A0 else 3)\n" + F, "True", "False")
change("__init__ of an object made inside", "class A:\n    def __init__(self): self.k = @@\ndef f(x): return mm(x, A().k)\n" + F, "2", "3")
change("context manager", "@contextlib.contextmanager\ndef c():\n    yield @@\ndef f(x):\n    with c() as k: return mm(x, k)\n" + F, "2", "3")
change("generator", "def g():\n    yield @@\ndef f(x):\n    for k in g(): x = mm(x, k)\n    return x\n" + F, "2", "3")
change("comprehension", "def f(x):\n    return [mm(x, k) for k in (1, @@)][1]\n" + F, "2", "3")
change("autograd function", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return mm(x, @@)\n    @staticmethod\n    def backward(ctx, g): return g\ndef f(x): return A.apply(x)\n" + F, "2", "3")
change("cached function", "@functools.lru_cache\ndef k(): return @@\ndef f(x): return mm(x, k())\n" + F, "2", "3")
change("descriptor", "class D:\n    def __get__(self, obj, cls): return @@\nclass A:\n    k = D()\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("metaclass", "class T(type):\n    def __instancecheck__(cls, x): return @@\nclass A(metaclass=T): pass\nV = object()\ndef f(x): return mm(x, 2 if isinstance(V, A) else 3)\n" + F, "True", "False")
change("base class", "class P: k = 2\nclass Q: k = 3\nclass A(@@): pass\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "P", "Q")
change("override added", "class P:\n    def k(self): return 2\nclass A(P):\n    @@\nA0 = A()\ndef f(x): return mm(x, A0.k())\n" + F, "pass", "def k(self): return 3")
change("method patched", "class A:\n    def g(self, x): return mm(x, 2)\ndef other(self, x): return mm(x, 3)\n@@\nA0 = A()\ndef f(x): return A0.g(x)\n" + F, "", "A.g = other")
change("method patched on the object", "class A:\n    def g(self, x): return mm(x, 2)\nA0 = A()\n@@\ndef f(x): return A0.g(x)\n" + F, "", "A0.g = lambda x: mm(x, 3)")
change("torch's method patched", "@@\nL = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\ndef f(x): return L(x)\ndef case():\n    try: return run(f, X)\n    finally: nn.Linear.forward = OLD\n", "OLD = nn.Linear.forward", "OLD = nn.Linear.forward\ndef new(self, x): return mm(x, 3)\nnn.Linear.forward = new")
change("torch's function patched", "OLD = nn.functional.linear\n@@\nL = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\ndef f(x): return L(x)\ndef case():\n    try: return run(f, X)\n    finally: nn.functional.linear = OLD\n", "", "nn.functional.linear = lambda x, w, b: mm(x, 3)")
change("class registered with an abstract one", "class B(abc.ABC): pass\nclass A: pass\n@@\nA0 = A()\ndef f(x): return mm(x, 2 if isinstance(A0, B) else 3)\n" + F, "", "B.register(A)")
change("code after a graph break", "def f(x):\n    y = mm(x)\n    torch._dynamo.graph_break()\n    return mm(y, @@)\n" + F, "2", "3")
change("function inlined after a graph break", "def g(y): return mm(y, @@)\ndef f(x):\n    y = mm(x)\n    torch._dynamo.graph_break()\n    return g(y)\n" + F, "2", "3", ANY)
change("function called at a graph break", "@torch._dynamo.disable\ndef g(y): return mm(y, @@)\ndef f(x):\n    return mm(g(mm(x)))\n" + F, "2", "3", ANY)

change("method of a class made in a function", "def make(n):\n    if n == 2:\n        class A:\n            def g(self, x): return mm(x, 2)\n    else:\n        class A:\n            def g(self, x): return mm(x, 3)\n    return A()\nA0 = make(@@)\ndef f(x): return A0.g(x)\n" + F, "2", "3")
change("function of two that have one name", "def make(n):\n    if n == 2:\n        def g(x): return mm(x, 2)\n    else:\n        def g(x): return mm(x, 3)\n    return g\nG = make(@@)\ndef f(x): return G(x)\n" + F, "2", "3")
change("function defined under a condition", "if @@ == 2:\n    def g(x): return mm(x, 2)\nelse:\n    def g(x): return mm(x, 3)\ndef f(x): return g(x)\n" + F, "2", "3")
change("default argument of a method", "class A:\n    def g(self, x, k=@@): return mm(x, k)\nA0 = A()\ndef f(x): return A0.g(x)\n" + F, "2", "3")
change("default argument of forward", "class M(nn.Module):\n    def forward(self, x, k=@@): return mm(x, k)\ndef case(): return run(M(), X)\n", "2", "3")
change("class registered with one of Python's", "import collections.abc\nclass A: pass\n@@\nA0 = A()\ndef f(x): return mm(x, 2 if isinstance(A0, collections.abc.Hashable) and isinstance(A0, collections.abc.Sized) else 3)\n" + F, "", "collections.abc.Sized.register(A)")
change("torch's base class patched", "@@\nL = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\ndef f(x): return L(x)\ndef case():\n    try: return run(f, X)\n    finally: nn.Module.__call__ = OLD\n", "OLD = nn.Module.__call__", "OLD = nn.Module.__call__\ndef new(self, x): return mm(x, 3)\nnn.Module.__call__ = new")
change("method of a protocol", "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n    def k(self): ...\nclass A:\n    @@\nA0 = A()\ndef f(x): return mm(x, 2 if isinstance(A0, P) else 3)\n" + F, "pass", "def k(self): return 1")
change("single dispatch", "@functools.singledispatch\ndef g(k, x): return mm(x, 2)\n@@\ndef f(x): return g(1, x)\n" + F, "", "g.register(int)(lambda k, x: mm(x, 3))")
change("name of a class", "class @@: pass\nA0 = @@()\ndef f(x): return mm(x, len(type(A0).__name__))\n" + F, "AA", "AAA")
change("mixin", "class P:\n    def k(self): return 2\nclass Q:\n    def k(self): return 3\nclass A(@@): pass\nA0 = A()\ndef f(x): return mm(x, A0.k())\n" + F, "P, Q", "Q, P")
change("slow path of attribute access", "class A:\n    def __getattribute__(self, name): return @@ if name == 'k' else object.__getattribute__(self, name)\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("__setattr__", "class A:\n    def __setattr__(self, name, v): object.__setattr__(self, name, @@)\nA0 = A()\ndef f(x):\n    A0.k = 1\n    return mm(x, A0.k)\n" + F, "2", "3")
change("__hash__ of a key", "class A:\n    def __init__(self, k): self.k = k\n    def __hash__(self): return 1\n    def __eq__(self, other): return @@\nD = {A(1): 2}\nA0 = A(2)\ndef f(x): return mm(x, 2 if A0 in D else 3)\n" + F, "True", "False", BYPASS)
change("__torch_function__ of a class", "class T:\n    @classmethod\n    def __torch_function__(cls, fn, types, args=(), kwargs=None): return @@\nT0 = T()\ndef f(x): return mm(x, torch.add(T0, 1))\n" + F, "2", "3", BYPASS)
change("class decorated", "def deco(cls):\n    cls.k = @@\n    return cls\n@deco\nclass A: pass\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("code patched into a function", "def a(x): return mm(x, 2)\ndef b(x): return mm(x, 3)\n@@\ndef f(x): return a(x)\n" + F, "", "a.__code__ = b.__code__")
change("wrapped function exchanged", "def deco(h):\n    def w(x): return h(x)\n    return w\ndef a(x): return mm(x, 2)\ndef b(x): return mm(x, 3)\nG = deco(@@)\ndef f(x): return G(x)\n" + F, "a", "b")
change("partial of another function", "def a(x): return mm(x, 2)\ndef b(x): return mm(x, 3)\nG = functools.partial(@@)\ndef f(x): return G(x)\n" + F, "a", "b")
change("bound method of another object", "class A:\n    def __init__(self, k): self.k = k\n    def g(self, x): return mm(x, self.k)\nG = A(@@).g\ndef f(x): return G(x)\n" + F, "2", "3")
change("function in a module of the user", "import sys\nlib = types.ModuleType('frames_lib2')\nsys.modules['frames_lib2'] = lib\nlib.mm = mm\nexec('def g(x): return mm(x, @@)', vars(lib))\ndef f(x): return lib.g(x)\n" + F, "2", "3")
change("import inside", "import sys\nlib = types.ModuleType('frames_lib3')\nsys.modules['frames_lib3'] = lib\nlib.k = @@\ndef f(x):\n    from frames_lib3 import k\n    return mm(x, k)\n" + F, "2", "3")
change("built-in function patched", "import builtins\nOLD = builtins.len\ndef new(x): return 3\ndef f(x): return mm(x, len([1, 2]))\ndef case():\n    builtins.len = @@\n    try: return run(f, X)\n    finally: builtins.len = OLD\n", "OLD", "new", ANY)
change("built-in function shadowed", "@@\ndef f(x): return mm(x, len([1, 2]))\n" + F, "", "def len(x): return 3")
change("code in a string", "exec('def g(x): return mm(x, @@)')\ndef f(x): return g(x)\n" + F, "2", "3")
change("recursive function", "def g(x, n): return mm(x, @@) if n == 0 else g(x, n - 1)\ndef f(x): return g(x, 2)\n" + F, "2", "3")
change("coroutine-free generator method", "class A:\n    def __iter__(self):\n        yield 1\n        yield @@\nA0 = A()\ndef f(x):\n    for k in A0: x = mm(x, k)\n    return x\n" + F, "2", "3")
change("map and lambda", "def f(x): return sum(map(lambda k: mm(x, k), (1, @@)))[0] if False else list(map(lambda k: mm(x, k), (1, @@)))[1]\n" + F, "2", "3")
change("sort key", "K = lambda k: @@\ndef f(x): return mm(x, sorted([2, 3], key=K)[0])\n" + F, "k", "-k")
change("full-backward hook", "L = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\n@@\ndef case():\n    x = X.clone().requires_grad_()\n    torch.compile(lambda x: L(x))(x).backward(torch.ones(3, 3))\n    return x.grad\n", "", "L.register_full_backward_hook(lambda m, i, o: (i[0] * 2,))", ANY)

# -- structure of modules --------------------------------------------------------------------------------------------------
M = "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        torch.manual_seed(0)\n        @@\n    def forward(self, x): return self.c(x)\ndef case(): return run(M(), X)\n"
change("another child", M, "self.c = nn.Linear(3, 3)", "self.c = nn.Linear(3, 3, bias=False)")
change("size of a child", M, "self.c = nn.Linear(3, 3)", "self.c = nn.Linear(3, 4)")
change("number of children", M, "self.c = nn.Sequential(nn.Linear(3, 3))", "self.c = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))")
change("order of children", M, "self.c = nn.Sequential(collections.OrderedDict(a=nn.Linear(3, 3), b=nn.Linear(3, 3, bias=False)))", "self.c = nn.Sequential(collections.OrderedDict(b=nn.Linear(3, 3), a=nn.Linear(3, 3, bias=False)))")
change("tied parameters", M, "self.c = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))", "self.c = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)); self.c[0].weight = self.c[1].weight")
change("parameter values", M, "self.c = nn.Linear(3, 3)", "self.c = nn.Linear(3, 3); nn.init.ones_(self.c.weight)", HIT)
change("forward hook", M, "self.c = nn.Linear(3, 3)", "self.c = nn.Linear(3, 3); self.c.register_forward_hook(lambda m, a, y: mm(y, 2))")
change("forward hook edited", "def hook(m, a, y): return mm(y, @@)\nL = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\nL.register_forward_hook(hook)\ndef case(): return run(lambda x: L(x), X)\n", "2", "3")
change("forward pre-hook", M, "self.c = nn.Linear(3, 3)", "self.c = nn.Linear(3, 3); self.c.register_forward_pre_hook(lambda m, a: (mm(a[0], 2),))")
change("global forward hook", "L = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\ndef hook(m, a, y): return mm(y, 2)\ndef case():\n    h = @@\n    try: return run(lambda x: L(x), X)\n    finally: h and h.remove()\n", "None", "nn.modules.module.register_module_forward_hook(hook)")
change("training and evaluation", "class M(nn.Module):\n    def forward(self, x): return mm(x, 2 if self.training else 3)\nm = M().@@\ndef case(): return run(m, X)\n", "train()", "eval()")
change("parameter without gradient", "L = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\nL.weight.requires_grad_(@@)\ndef case():\n    out = torch.compile(lambda x: L(x))(X)\n    out.backward(torch.ones(3, 3))\n    return out, L.weight.grad, L.bias.grad\n", "True", "False")
change("parameter replaced by a buffer", "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        @@\n    def forward(self, x): return torch.mm(x, self.w)\ndef case():\n    m = M()\n    out = torch.compile(m)(X)\n    needs = out.requires_grad\n    needs and out.sum().backward()\n    return out.detach(), needs\n", "self.w = nn.Parameter(torch.ones(3, 3))", "self.register_buffer('w', torch.ones(3, 3))")
change("module list length", "class M(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.l = nn.ModuleList(nn.Identity() for _ in range(n))\n    def forward(self, x):\n        for _ in self.l: x = mm(x, 2)\n        return x\ndef case(): return run(M(@@), X)\n", "1", "2")

# -- inputs and state ------------------------------------------------------------------------------------------------------
I = "def f(x, k): return mm(x, k) if isinstance(k, int) else mm(x, 1 if k is None else 7)\ndef case(): return run(f, @@)\n"
change("integer argument", I, "X, 2", "X, 3")
change("argument None", I, "X, 2", "X, None")
change("type of the input", "def f(x): return mm(x, 2)\ndef case(): return run(f, @@)\n", "X", "X.double()")
change("shape of the input", "def f(x): return mm(x, 2)\ndef case(): return run(f, @@)\n", "X", "torch.ones(4, 4)")
change("strides of the input", "def f(x): return mm(x, 2)\ndef case(): return run(f, @@)\n", "X", "X.t()")
change("input that needs a gradient", "def f(x): return mm(x, 2)\ndef case():\n    out = torch.compile(f)(@@)\n    needs = out.requires_grad\n    needs and out.sum().backward()\n    return out.detach(), needs\n", "X.clone()", "X.clone().requires_grad_()")
change("length of a list argument", "def f(l): return mm(l[0], len(l))\ndef case(): return run(f, @@)\n", "[X, X]", "[X, X, X]")
change("keys of a dictionary argument", "def f(d): return mm(d['a'], len(d))\ndef case(): return run(f, @@)\n", "{'a': X}", "{'a': X, 'b': X}")
change("inputs that are one tensor", "def f(a, b):\n    a.addmm_(X, X)\n    return torch.mm(b, b)\ndef case():\n    t = X.clone()\n    return run(f, @@), t\n", "t, X.clone()", "t, t")
change("inputs that share memory", "def f(a, b):\n    a.addmm_(X, X)\n    return torch.mm(b, b)\ndef case():\n    t = torch.ones(4, 3)\n    return run(f, @@), t\n", "t[:3], torch.ones(3, 3)", "t[:3], t[1:]")
change("lists that are one list", "def f(a, b):\n    a.append(2)\n    return mm(X, len(b))\ndef case():\n    l = [1]\n    return run(f, @@), l\n", "l, [1]", "l, l")
change("input of a tensor subclass", "class T(torch.Tensor): pass\ndef f(x): return mm(x, 2)\ndef case(): return run(f, @@).as_subclass(torch.Tensor)\n", "X", "X.as_subclass(T)")
change("numpy input", "def f(x): return mm(torch.as_tensor(x), 2)\ndef case(): return run(f, @@)\n", "X.numpy()", "X.numpy().astype('float64')")
change("gradient mode", "def f(x): return mm(x, 2 if torch.is_grad_enabled() else 3)\ndef case():\n    with torch.set_grad_enabled(@@): return torch.compile(f)(X)\n", "True", "False")
change("inference mode", "def f(x): return mm(x, 3 if torch.is_inference_mode_enabled() else 2)\ndef case():\n    with torch.inference_mode(@@): return torch.compile(f)(X).tolist()\n", "False", "True")
change("autocast", "def f(x): return torch.mm(x, x)\ndef case():\n    with torch.autocast('cpu', enabled=@@): return run(f, X)\n", "False", "True")
change("default type", "def f(x): return torch.mm(x.to(torch.get_default_dtype()), x.to(torch.get_default_dtype()))\ndef case():\n    torch.set_default_dtype(torch.@@)\n    try: return run(f, X)\n    finally: torch.set_default_dtype(torch.float32)\n", "float32", "float64")
change("deterministic algorithms", "def f(x): return mm(x, 2 if torch.are_deterministic_algorithms_enabled() else 3)\ndef case():\n    torch.use_deterministic_algorithms(@@)\n    try: return run(f, X)\n    finally: torch.use_deterministic_algorithms(False)\n", "False", "True")
change("matmul precision", "def f(x): return mm(x, 2 if torch.get_float32_matmul_precision() == 'highest' else 3)\ndef case():\n    torch.set_float32_matmul_precision('@@')\n    try: return run(f, X)\n    finally: torch.set_float32_matmul_precision('highest')\n", "highest", "medium", ANY)
change("function mode", "class T(torch.overrides.TorchFunctionMode):\n    def __torch_function__(self, fn, types, args=(), kwargs=None):\n        return fn(*args, **(kwargs or {}))\ndef f(x): return mm(x, 2)\ndef case():\n    with @@: return run(f, X)\n", "contextlib.nullcontext()", "T()")
change("saved-tensors hook", "def f(x): return mm(x, 2)\ndef case():\n    x = X.clone().requires_grad_()\n    with @@: out = torch.compile(f)(x)\n    out.backward(torch.ones(3, 3))\n    return out.detach(), x.grad\n", "contextlib.nullcontext()", "torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)")
change("forward-mode differentiation", "def f(x): return mm(x, 2)\ndef case():\n    with @@: return run(f, X)\n", "contextlib.nullcontext()", "torch.autograd.forward_ad.dual_level()")
change("setting of Dynamo", "def f(x, k): return mm(x, k)\ndef case():\n    with torch._dynamo.config.patch(specialize_float=@@): return run(f, X, 2.5)\n", "True", "False")
change("setting of Inductor", "def f(x): return mm(x, 2)\ndef case():\n    import torch._inductor.config as c\n    with c.patch(epilogue_fusion=@@): return run(f, X)\n", "True", "False")
change("option of torch.compile", "def f(x): return mm(x, 2)\ndef case(): return run(f, X, options={'epilogue_fusion': @@})\n", "True", "False")
change("full graph", "def f(x): return mm(x, 2)\ndef case(): return run(f, X, fullgraph=@@)\n", "False", "True")
change("dynamic", "def f(x): return mm(x, 2)\ndef case(): return run(f, X, dynamic=@@)\n", "False", "True")

# -- what must not matter --------------------------------------------------------------------------------------------------
change("lines moved", "@@\ndef g(x): return mm(x, 2)\ndef f(x): return g(x)\n" + F, "", "\n# a comment\n\n", HIT)
change("unrelated function", "def g(x): return @@\ndef f(x): return mm(x, 2)\n" + F, "2", "3", HIT)
change("unrelated global", "K = @@\ndef f(x): return mm(x, 2)\n" + F, "2", "3", HIT)
change("unrelated attribute", "class A: pass\nA0 = A()\nA0.k = 2\nA0.j = @@\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3", HIT)
change("global of an inlined function that it does not read", "K = @@\ndef h(): return K\ndef g(x): return mm(x, 2)\ndef f(x): return g(x)\n" + F, "2", "3", HIT)
change("documentation", "def g(x):\n    '''@@'''\n    return mm(x, 2)\ndef f(x): return g(x)\n" + F, "old", "new", ANY)
change("values of the input", "def f(x): return mm(x, 2)\ndef case(): return run(f, @@)\n", "X", "X + 1", HIT)

change("unrelated method of the class", "class A:\n    def g(self, x): return mm(x, 2)\n    def h(self): return @@\nA0 = A()\ndef f(x): return A0.g(x)\n" + F, "2", "3", HIT)
change("constructor that leads to the same", "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.k = @@\n    def forward(self, x): return mm(x, self.k)\ndef case(): return run(M(), X)\n", "2", "1 + 1", HIT)

# -- effects that the bytecode replays -------------------------------------------------------------------------------------
change("list appended to", "L = [@@]\ndef f(x):\n    L.append(2)\n    return mm(x, 2)\ndef case(): return run(f, X), L\n", "1", "1, 1")
change("attribute counted", "class A: n = 0\nA0 = A()\nA0.n = @@\ndef f(x):\n    A0.n += 1\n    return mm(x, 2)\ndef case(): return run(f, X), A0.n\n", "1", "5")
change("global stored", "N = 0\nK = @@\ndef f(x):\n    global N\n    N = 5\n    return mm(x, 2)\ndef case(): return run(f, X), N\n", "1", "2", HIT)
change("cell stored", "def case():\n    n = 0\n    def f(x):\n        nonlocal n\n        n = n + 1\n        return mm(x, 2)\n    k = @@\n    return run(f, X), n\n", "1", "2", HIT)
change("object returned", "class A:\n    def __init__(self, k): self.k = k\ndef f(x): return mm(x, 2), A(@@)\ndef case():\n    y, a = run(f, X)\n    return y, a.k\n", "1", "2")

# -- what Python itself does while Dynamo traces ---------------------------------------------------------------------------
change("order of a set of numbers", "K = {@@}\ndef f(x):\n    for k in K: x = mm(x, k + 1)\n    return x\n" + F, "0, 8", "8, 0")
change("order of a set that is a constant", "def f(x):\n    for k in {@@}: x = mm(x, k + 1)\n    return x\n" + F, "0, 8", "8, 0")
change("order of a set of words", "K = frozenset([@@])\ndef f(x): return mm(x, 2 if 'b' in K else 3)\n" + F, "'a', 'b'", "'b', 'a'", HIT)
change("global that __subclasshook__ reads", "K = [@@]\nclass B(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, c): return K[0] == 2\ndef f(x): return mm(x, 2 if isinstance(x, B) else 3)\n" + F, "2", "3")
change("global that __class_getitem__ reads", "K = [@@]\nclass A:\n    def __class_getitem__(cls, i): return K[0]\ndef f(x): return mm(x, A[0])\n" + F, "2", "3")
change("attribute of a function looked for", "def g(): pass\n@@\ndef f(x): return mm(x, 2 if hasattr(g, 'q') else 3)\n" + F, "", "g.q = 1")
change("attribute of a module looked for", "import sys\nlib = types.ModuleType('frames_lib4')\nsys.modules['frames_lib4'] = lib\n@@\ndef f(x): return mm(x, 2 if hasattr(lib, 'q') else 3)\n" + F, "", "lib.q = 1")
change("attribute of a module with a default", "import sys\nlib = types.ModuleType('frames_lib5')\nsys.modules['frames_lib5'] = lib\n@@\ndef f(x): return mm(x, getattr(lib, 'q', 3))\n" + F, "", "lib.q = 2")

# -- what the process has, read without a guard ----------------------------------------------------------------------------
change("variable of the environment with a default", "import os\n@@\ndef f(x): return mm(x, 2 if os.environ.get('FRAMES_1', '1') == '1' else 3)\n" + F, "", "os.environ['FRAMES_1'] = '2'")
change("variable of the environment by another name", "import os\nE = os.environ\n@@\ndef f(x): return mm(x, int(E.get('FRAMES_2', 2)))\n" + F, "", "E['FRAMES_2'] = '3'")
change("variable of the environment by a name that is not constant", "import os\ndef g(n): return os.environ.get(n, '1')\ndef f(x): return mm(x, 2 if g('FRAMES_4') == '1' else 3)\n@@\n" + F, "", "os.environ['FRAMES_4'] = '2'", BYPASS)
change("module that can be imported", "import importlib, os\nfrom importlib.util import find_spec\nFILE = os.path.join(os.path.dirname(__file__), 'frames_lib6.py')\n@@\nimportlib.invalidate_caches()\ndef f(x): return mm(x, 2 if find_spec('frames_lib6') is None else 3)\n" + F, "", "open(FILE, 'w').close()")
change("line of the code", "@@def g(): pass\ndef f(x): return mm(x, g.__code__.co_firstlineno)\n" + F, "", "\n", BYPASS)
change("another number of dimensions", "def f(x, s): return torch.addmm(s, x, x)\ndef case(): return run(f, X, torch.tensor(@@))\n", "2.0", "[2.0]")

from hook import frames_chance, frames_found, frames_programs, frames_reads, frames_values  # noqa: E402, F401
