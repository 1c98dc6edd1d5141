"""Changes to a program between two processes: what each does to a stored frame.

A change is the source of a module with `@@` in one or more places, the two texts that stand there, and what must happen
when the second is run on what the first has stored:

    MISS    no frame of it is taken from the store
    HIT     all of them are, because the change does not matter or only changes what the frame computes with
    ANY     either; the values must be right
    BYPASS  it is never stored, not even for the same program again

In all of them the values must be those of a run without any cache. Matrix products keep the C++ compiler out.
"""

from __future__ import annotations

from typing import NamedTuple

MISS, HIT, ANY, BYPASS = "miss", "hit", "any", "bypass"

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

# -- values ----------------------------------------------------------------------------------------------------------------
G = "K = @@\ndef f(x): return mm(x, K)\n" + F
change("global int", G, "2", "3")
change("global float", G, "2.5", "3.5")
change("global of another type", G, "2", "2.0", ANY)
change("global bool", G, "True", "False")
change("global that is deleted", "@@\ndef f(x): return mm(x, globals().get('K', 3) if False else (K if 'K' else 1))\ndef case():\n    try: return run(f, X)\n    except NameError: return 'NameError'\n", "K = 2", "")
change("global string", "K = @@\ndef f(x): return mm(x, 2 if K == 'a' else 3)\n" + F, "'a'", "'b'")
change("global None", "K = @@\ndef f(x): return mm(x, 2 if K is None else 3)\n" + F, "None", "5")
change("global list item", "K = [1, @@]\ndef f(x): return mm(x, K[1])\n" + F, "2", "3")
change("global list length", "K = [1, @@]\ndef f(x): return mm(x, len(K))\n" + F, "2", "2, 3")
change("global dictionary value", "K = {'a': @@}\ndef f(x): return mm(x, K['a'])\n" + F, "2", "3")
change("global dictionary key", "K = {'a': 2@@}\ndef f(x): return mm(x, 2 if 'b' in K else 3)\n" + F, "", ", 'b': 1")
change("global dictionary order", "K = {@@}\ndef f(x):\n    for k in K.values(): x = mm(x, k)\n    return x\n" + F, "'a': 2, 'b': 3", "'b': 3, 'a': 2")
change("global set", "K = {1, @@}\ndef f(x): return mm(x, 2 if 5 in K else 3)\n" + F, "2", "5")
change("global tuple", "K = (1, @@)\ndef f(x): return mm(x, K[1])\n" + F, "2", "3")
change("global function", "def a(x): return mm(x, 2)\ndef b(x): return mm(x, 3)\nK = @@\ndef f(x): return K(x)\n" + F, "a", "b")
change("global class", "class P: k = 2\nclass Q: k = 3\nK = @@\ndef f(x): return mm(x, K.k)\n" + F, "P", "Q")
change("global partial", "K = functools.partial(mm, k=@@)\ndef f(x): return K(x)\n" + F, "2", "3")
change("global dtype", "K = torch.@@\ndef f(x): return mm(x.to(K), 2)\n" + F, "float32", "float64")
change("global enum member", "class E(enum.Enum):\n    A = 2\n    B = 3\nK = E.@@\ndef f(x): return mm(x, 2 if K is E.A else 3)\n" + F, "A", "B")
change("value of an enum member", "class E(enum.Enum):\n    A = @@\nK = E.A\ndef f(x): return mm(x, K.value)\n" + F, "2", "3")
change("global range", "K = range(@@)\ndef f(x):\n    for k in K: x = mm(x, 2)\n    return x\n" + F, "2", "3")
change("global named tuple", "T = collections.namedtuple('T', 'a b')\nK = T(@@)\ndef f(x): return mm(x, K.a)\n" + F, "2, 3", "3, 2")
change("global deque", "K = collections.deque([@@])\ndef f(x): return mm(x, K[0])\n" + F, "2", "3")
change("global mapping proxy", "K = types.MappingProxyType({'a': @@})\ndef f(x): return mm(x, K['a'])\n" + F, "2", "3")
change("global int subclass", "class I(int): pass\nK = I(@@)\ndef f(x): return mm(x, int(K))\n" + F, "2", "3")
change("global tensor's value", "K = torch.full((3, 3), @@)\ndef f(x): return torch.mm(x, K)\n" + F, "2.0", "3.0", HIT)
change("closure value", "def make(k):\n    def f(x): return mm(x, k)\n    return f\nf = make(@@)\n" + F, "2", "3")
change("closure list", "def make():\n    l = [@@]\n    def f(x): return mm(x, l[0])\n    return f\nf = make()\n" + F, "2", "3")
change("closure of an inlined function", "def make(k):\n    def g(x): return mm(x, k)\n    return g\nG = make(@@)\ndef f(x): return G(x)\n" + F, "2", "3")
change("default argument", "def g(x, k=@@): return mm(x, k)\ndef f(x): return g(x)\n" + F, "2", "3")
change("keyword default", "def g(x, *, k=@@): return mm(x, k)\ndef f(x): return g(x)\n" + F, "2", "3")
change("default argument changed later", "def g(x, k=2): return mm(x, k)\n@@\ndef f(x): return g(x)\n" + F, "", "g.__defaults__ = (3,)")
change("function attribute", "def g(x): return mm(x, g.k)\ng.k = @@\ndef f(x): return g(x)\n" + F, "2", "3")
change("instance attribute", "class A: pass\nA0 = A()\nA0.k = @@\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("attribute of a configuration object", "class C:\n    def __init__(self, k): self.k = k\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.config = C(@@)\n    def forward(self, x): return mm(x, self.config.k)\ndef case(): return run(M(), X)\n", "2", "3")
change("configuration in a dataclass", "@dataclasses.dataclass\nclass C:\n    k: int = 2\nA0 = C(@@)\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("configuration in a namespace", "A0 = types.SimpleNamespace(k=@@)\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("attribute added", "class A:\n    pass\nA0 = A()\n@@\ndef f(x): return mm(x, 2 if hasattr(A0, 'k') else 3)\n" + F, "", "A0.k = 1")
change("attribute with a default", "class A:\n    pass\nA0 = A()\n@@\ndef f(x): return mm(x, getattr(A0, 'k', 3))\n" + F, "", "A0.k = 2")
change("slot", "class A:\n    __slots__ = ('k',)\nA0 = A()\nA0.k = @@\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("class attribute", "class A: k = @@\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("class attribute of a base", "class B: k = @@\nclass A(B): pass\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("class attribute by the class", "class A: k = @@\ndef f(x): return mm(x, A.k)\n" + F, "2", "3")
change("class attribute that is a list", "class A: k = [@@]\nA0 = A()\ndef f(x): return mm(x, A0.k[0])\n" + F, "2", "3")
change("class attribute that is an object", "class P: pass\nclass A: p = P()\nA.p.k = @@\nA0 = A()\ndef f(x): return mm(x, A0.p.k)\n" + F, "2", "3")
change("environment variable", "os.environ['FRAMES_K'] = '@@'\ndef f(x): return mm(x, int(os.environ['FRAMES_K']))\n" + F, "2", "3")
change("environment variable by getenv", "os.environ['FRAMES_L'] = '@@'\ndef f(x): return mm(x, int(os.getenv('FRAMES_L', '1')))\n" + F, "2", "3", BYPASS)
change("result that is taken for a constant", "K = [@@]\n@torch._dynamo.assume_constant_result\ndef k(): return K[0]\ndef f(x): return mm(x, k())\n" + F, "2", "3", BYPASS)
change("function put into the graph", "@torch._dynamo.allow_in_graph\ndef g(x): return mm(x, @@)\ndef f(x): return g(x)\n" + F, "2", "3", BYPASS)
change("attribute of another module", "import types as t\nlib = t.ModuleType('lib')\nimport sys\nsys.modules['frames_lib'] = lib\nlib.__name__ = 'frames_lib'\nlib.k = @@\ndef f(x): return mm(x, lib.k)\n" + F, "2", "3")
change("attribute of math", "OLD = math.pi\nmath.pi = @@\ndef f(x): return mm(x, math.pi)\ndef case():\n    try: return run(f, X)\n    finally: math.pi = OLD\n", "2.0", "3.0")

change("attributes as a dictionary", "class A: pass\nA0 = A()\nA0.a, A0.b = @@\ndef f(x):\n    for k in vars(A0).values(): x = mm(x, k)\n    return x\n" + F, "2, 3", "3, 2")
change("number of attributes", "class A: pass\nA0 = A()\nA0.a = 2\n@@\ndef f(x): return mm(x, len(A0.__dict__) + 1)\n" + F, "", "A0.b = 2")
change("counter of itertools", "import itertools\nK = itertools.count(@@)\ndef f(x): return mm(x, next(K))\n" + F, "2", "3")
change("iterator of a list", "K = iter([@@])\ndef f(x): return mm(x, next(K))\n" + F, "2, 3", "3, 2", ANY)
change("iterator of a tuple", "K = iter((@@))\ndef f(x): return mm(x, next(K))\n" + F, "2, 3", "3, 2")
change("iterator of a range", "K = iter(range(@@))\ndef f(x): return mm(x, next(K))\n" + F, "2, 9", "3, 9")
change("numpy scalar", "import numpy as np\nK = np.float64(@@)\ndef f(x): return mm(x, float(K))\n" + F, "2", "3", BYPASS)
change("numpy array", "import numpy as np\nK = np.ones((3, 3)) * @@\ndef f(x): return torch.mm(x.double(), torch.as_tensor(K))\n" + F, "2", "3", ANY)
change("size", "K = torch.Size([@@])\ndef f(x): return mm(x, K[0])\n" + F, "2", "3")
change("key that is a class", "class A: pass\nclass B: pass\nD = {A: 2, B: 3}\nK = @@\ndef f(x): return mm(x, D[K])\n" + F, "A", "B")
change("value under a key that is a class", "class A: pass\nD = {A: @@}\ndef f(x): return mm(x, D[A])\n" + F, "2", "3")
change("ordered dictionary", "D = collections.OrderedDict([@@])\ndef f(x):\n    for k in D.values(): x = mm(x, k)\n    return x\n" + F, "('a', 2), ('b', 3)", "('b', 3), ('a', 2)")
change("default dictionary", "D = collections.defaultdict(lambda: @@)\ndef f(x): return mm(x, D['a'])\ndef case():\n    D.clear()\n    return run(f, X)\n", "2", "3")
change("nested containers", "K = {'a': [1, {'b': (1, @@)}]}\ndef f(x): return mm(x, K['a'][1]['b'][1])\n" + F, "2", "3")
change("frozen set", "K = frozenset([1, @@])\ndef f(x): return mm(x, 2 if 5 in K else 3)\n" + F, "2", "5")
change("sum of a set", "K = {1, @@}\ndef f(x): return mm(x, sum(K))\n" + F, "2", "5")
change("string's length", "K = '@@'\ndef f(x): return mm(x, len(K))\n" + F, "aa", "aaa")
change("bytes", "K = b'@@'\ndef f(x): return mm(x, len(K))\n" + F, "aa", "aaa")
change("complex", "K = @@\ndef f(x): return mm(x, K.real)\n" + F, "2j + 2", "2j + 3")
change("negative zero", "K = @@\ndef f(x): return mm(x, math.copysign(2, K))\n" + F, "0.0", "-0.0")
change("not a number", "K = float('@@')\ndef f(x): return mm(x, 2 if K != K else 3)\n" + F, "nan", "1")
change("True for 1", "K = @@\ndef f(x): return mm(x, 2 if K is True else 3)\n" + F, "True", "1")
change("weight shared between modules", "A0, B0 = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)\nnn.init.eye_(A0.weight), nn.init.eye_(B0.weight)\n@@\ndef case():\n    torch.compile(lambda x: B0(A0(x)))(X).backward(torch.ones(3, 3))\n    return A0.weight.grad, B0.weight.grad\n", "", "B0.weight = A0.weight")
change("flag of a library of the user", "class Config:\n    use = @@\nclass M(nn.Module):\n    config = Config\n    def forward(self, x): return mm(x, 2 if self.config.use else 3)\ndef case(): return run(M(), X)\n", "True", "False")
change("registry", "R = {}\ndef reg(h):\n    R[h.__name__] = h\n    return h\n@reg\ndef a(x): return mm(x, @@)\ndef f(x): return R['a'](x)\n" + F, "2", "3")
change("decomposition", "def f(x): return torch.mm(x, x)\ndef case():\n    from torch._inductor.decomposition import decompositions as d\n    mine = @@\n    old = dict(d)\n    d.update(mine)\n    try: return run(f, X)\n    finally:\n        d.clear()\n        d.update(old)\n", "{}", "{torch.ops.aten.mm.default: lambda a, b: torch.addmm(a, a, b)}", ANY)

O = "class A: pass\nA0, B0 = A(), A()\n"
change("which object", O + "K = @@\ndef f(x): return mm(x, 2 if K is A0 else 3)\n" + F, "A0", "B0")
change("object in a list", O + "L = [@@]\ndef f(x): return mm(x, 2 if A0 in L else 3)\n" + F, "A0", "B0")
change("list in two places", "L = [1]\nM = @@\ndef f(x):\n    L.append(5)\n    return mm(x, len(M))\n" + F, "L", "[1]")
change("documentation that is read", "def g():\n    '@@'\ndef f(x): return mm(x, len(g.__doc__))\n" + F, "aa", "aaa")
change("documentation of a class", "class A:\n    '@@'\ndef f(x): return mm(x, len(A.__doc__))\n" + F, "aa", "aaa")
change("annotations of a class", "class A:\n    a: int\n    @@\ndef f(x): return mm(x, len(A.__annotations__) + 1)\n" + F, "pass", "b: int")
change("fields of a dataclass", "@dataclasses.dataclass\nclass A:\n    a: int = 2\n    @@\nA0 = A()\ndef f(x):\n    for q in dataclasses.fields(A0): x = mm(x, 2)\n    return x\n" + F, "pass", "b: int = 3")
change("subclasses of a class", "class A: pass\n@@\ndef f(x): return mm(x, len(A.__subclasses__()) + 2)\n" + F, "", "class B(A): pass")
change("members of an enum", "class E(enum.Enum):\n    A = 1\n    @@\ndef f(x): return mm(x, len(list(E)) + 1)\n" + F, "B_ = lambda: 1", "C = 3")
change("global looked for", "@@\ndef f(x): return mm(x, 2 if 'QQ' in globals() else 3)\n" + F, "", "QQ = 1", BYPASS)
change("dir of an object", O + "@@\ndef f(x): return mm(x, 2 if 'k' in dir(A0) else 3)\n" + F, "", "A0.k = 1")
change("context variable", "import contextvars\nV = contextvars.ContextVar('v', default=1)\nV.set(@@)\ndef f(x): return mm(x, V.get())\n" + F, "2", "3", ANY)
change("thread-local value", "import threading\nV = threading.local()\nV.k = @@\ndef f(x): return mm(x, V.k)\n" + F, "2", "3")
change("weak reference", "import weakref\n" + O + "A0.k, B0.k = 2, 3\nW = weakref.ref(@@)\ndef f(x): return mm(x, W().k)\n" + F, "A0", "B0", BYPASS)
change("cached property", "class A:\n    @functools.cached_property\n    def k(self): return @@\nA0 = A()\ndef f(x): return mm(x, A0.k)\n" + F, "2", "3")
change("cached property that is known", "class A:\n    @functools.cached_property\n    def k(self): return 2\nA0 = A()\n@@\ndef f(x): return mm(x, A0.k)\n" + F, "A0.k", "A0.__dict__['k'] = 3")
change("__missing__ of a dictionary", "class D(dict):\n    def __missing__(self, key): return @@\nD0 = D()\ndef f(x): return mm(x, D0['a'])\n" + F, "2", "3")
change("user dictionary", "D = collections.UserDict(a=@@)\ndef f(x): return mm(x, D['a'])\n" + F, "2", "3")
change("chain map", "D = collections.ChainMap({@@}, {'a': 3})\ndef f(x): return mm(x, D['a'])\n" + F, "'a': 2", "")
change("string enum", "class E(str, enum.Enum):\n    A = 'aa'\n    B = 'bbb'\nK = E.@@\ndef f(x): return mm(x, len(K.value))\n" + F, "A", "B")
change("flag enum", "class E(enum.Flag):\n    A = 1\n    B = 2\nK = E.@@\ndef f(x): return mm(x, 2 if K & E.A else 3)\n" + F, "A", "B")
change("attribute of a tensor", "K = torch.ones(3, 3)\nK.k = @@\ndef f(x): return mm(torch.mm(x, K), K.k)\n" + F, "2", "3")
change("gradient that is there", "K = torch.ones(3, 3, requires_grad=True)\n@@\ndef f(x): return mm(torch.mm(x, K), 2 if K.grad is None else 3)\n" + F, "", "K.grad = torch.ones(3, 3)")
change("storage offset", "K = torch.ones(64)[@@:][:9].view(3, 3)\ndef f(x): return mm(torch.mm(x, K), 2 if K.storage_offset() == 16 else 3)\n" + F, "16", "32", ANY)
change("view", "K = torch.ones(3, 3)@@\ndef f(x): return mm(torch.mm(x, K), 2 if K._is_view() else 3)\n" + F, "", ".view(3, 3)", ANY)
change("leaf", "K = torch.ones(3, 3, requires_grad=True)@@\ndef f(x): return mm(torch.mm(x, K), 2 if K.is_leaf else 3)\n" + F, "", " * 1")
change("version of a tensor", "K = torch.ones(3, 3)\n@@\ndef f(x): return mm(torch.mm(x, K), K._version + 2)\n" + F, "", "K.fill_(1)", ANY)
change("parameter that is only counted", "class M(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.l = nn.ParameterList(torch.ones(1) for _ in range(n))\n    def forward(self, x): return mm(x, len(list(self.parameters())))\ndef case(): return run(M(@@), X)\n", "2", "3")
change("elements of parameters", "class M(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.w = nn.Parameter(torch.ones(n))\n    def forward(self, x): return mm(x, sum(p.numel() for p in self.parameters()))\ndef case(): return run(M(@@), X)\n", "2", "3")
change("name of a parameter", "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        setattr(self, '@@', nn.Parameter(torch.ones(1)))\n    def forward(self, x): return mm(x, len([n for n, _ in self.named_parameters()][0]))\ndef case(): return run(M(), X)\n", "aa", "aaa")
change("parametrized weight", "class P(nn.Module):\n    def forward(self, w): return w * 2\nL = nn.Linear(3, 3, bias=False)\nnn.init.eye_(L.weight)\n@@\ndef case(): return run(lambda x: L(x), X)\n", "", "nn.utils.parametrize.register_parametrization(L, 'weight', P())")
change("object copied", "import copy\n" + O + "A0.k = @@\ndef f(x): return mm(x, copy.copy(A0).k)\n" + F, "2", "3", BYPASS)
change("object with attributes copied", "import copy\n" + O + "A0.k = 2\n@@\ndef f(x): return mm(x, 2 if hasattr(copy.copy(A0), 'j') else 3)\n" + F, "", "A0.j = 1", BYPASS)
change("registered pytree", "from torch.utils import _pytree as p\nclass A:\n    def __init__(self, x): self.x = x\np.register_pytree_node(A, lambda a: ([a.x], None), lambda c, _: A(c[0]))\nA0 = A(X)\ndef f(x): return p.tree_map(lambda t: mm(t, @@), [x, A0])[1].x\n" + F, "2", "3")
change("compiled function inside", "@torch.compile\ndef g(x): return mm(x, @@)\ndef f(x): return g(x)\n" + F, "2", "3")
change("function of a graph break in a loop", "def g(x, k):\n    torch._dynamo.graph_break()\n    return mm(x, k)\ndef f(x):\n    for k in (1, @@): x = g(x, k)\n    return x\n" + F, "2", "3", ANY)
change("graph break in a branch", "K = @@\ndef f(x):\n    x = mm(x)\n    if K == 2:\n        torch._dynamo.graph_break()\n        return mm(x, 2)\n    return mm(x, 3)\n" + F, "2", "3", ANY)
change("no_grad inside", "def f(x):\n    with torch.@@(): y = mm(x, 2)\n    return y\ndef case():\n    out = torch.compile(f)(X.clone().requires_grad_())\n    needs = out.requires_grad\n    needs and out.sum().backward()\n    return out.detach(), needs\n", "no_grad", "enable_grad")
change("graph break in no_grad", "def f(x):\n    with torch.no_grad():\n        y = mm(x, 2)\n        torch._dynamo.graph_break()\n        return mm(y, @@)\ndef case(): return torch.compile(f)(X)\n", "2", "3")
change("closure after a graph break", "def make(k):\n    def f(x):\n        y = mm(x)\n        torch._dynamo.graph_break()\n        return mm(y, k)\n    return f\nf = make(@@)\n" + F, "2", "3", ANY)
change("cell after a graph break", "def f(x):\n    k = @@\n    def g(y): return mm(y, k)\n    y = mm(x)\n    torch._dynamo.graph_break()\n    return g(y)\n" + F, "2", "3", BYPASS)
change("print", "def f(x):\n    y = mm(x, 2)\n    print('frames', file=__import__('sys').stderr)\n    return mm(y, @@)\n" + F, "2", "3", BYPASS)
change("try and except", "def g(): raise ValueError\ndef f(x):\n    try: g()\n    except @@: return mm(x, 3)\n    return mm(x, 2)\ndef case():\n    try: return run(f, X)\n    except ValueError: return 'ValueError'\n", "ValueError", "TypeError")

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
