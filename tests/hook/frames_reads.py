"""Changes to what Dynamo reads, runs or imports while it traces, without a guard; see `frames_changes`."""

from __future__ import annotations

from hook.frames_changes import ALONE, ANY, BYPASS, HIT, F, change

# -- keys of dictionaries, and their order ---------------------------------------------------------------------------------
change("keys as a list", "K = {@@: 1}\ndef f(x): return mm(x, list(K)[0])\n" + F, "2", "3")
change("keys unpacked", "K = {@@: 1}\ndef f(x): return mm(x, [*K][0])\n" + F, "2", "3")
change("keys unpacked, of an argument", "def f(x, d): return mm(x, [*d][0])\ndef case(): return run(f, X, {@@: 1})\n", "2", "3")
change("keys unpacked, of an attribute", "class A: pass\nA0 = A()\nA0.d = {@@: 1}\ndef f(x): return mm(x, [*A0.d][0])\n" + F, "2", "3")
change("type of a key", "K = {@@: 2}\ndef f(x): return torch.full((3, 3), list(K)[0]), mm(x)\n" + F, "1", "True")
change("float for int as a key", "K = {@@: 2}\ndef f(x): return torch.full((3, 3), list(K)[0]), mm(x)\n" + F, "1", "1.0")
change("key that is a dtype", "K = {torch.@@: 1}\ndef f(x): return torch.mm(x.to(list(K)[0]), x.to(list(K)[0]))\n" + F, "float32", "float64")
change("hook registered before the others", "L = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\na = lambda m, i, y: mm(y, 2)\nb = lambda m, i, y: torch.mm(y, y)\nL.register_forward_hook(a)\nL.register_forward_hook(b@@)\ndef case(): return run(lambda x: L(x), X)\n", "", ", prepend=True")
change("other hooks registered before", "L = nn.Linear(3, 3)\nnn.init.eye_(L.weight), nn.init.ones_(L.bias)\n@@\nL.register_forward_hook(lambda m, i, y: mm(y, 2))\ndef case(): return run(lambda x: L(x), X)\n", "", "nn.ReLU().register_forward_hook(lambda m, i, y: y)", HIT)
change("key moved to the end", "K = collections.OrderedDict(a=2, b=3)\n@@\ndef f(x):\n    for k in K.values(): x = mm(x, k)\n    return x\n" + F, "", "K.move_to_end('a')")
change("key moved to the end, of an argument", "def f(x, d):\n    for k in d.values(): x = mm(x, k)\n    return x\ndef case():\n    d = collections.OrderedDict(a=2, b=3)\n    @@\n    return run(f, X, d)\n", "pass", "d.move_to_end('a')")

# -- what runs while it is traced ------------------------------------------------------------------------------------------
change("key function of max", "K = [@@]\ndef key(v): return v * K[0]\ndef f(x): return mm(x, max([2, 3], key=key))\n" + F, "1", "-1", BYPASS)
change("built-in key function of max", "K = [@@]\ndef f(x): return mm(x, len(max(K, key=len)))\n" + F, "'aa', 'b'", "'aaa', 'b'")
change("function that a pattern calls", "import re\nK = ['@@']\ndef f(x): return mm(x, len(re.sub('a', lambda m: K[0], 'a')))\n" + F, "bb", "bbb", BYPASS)
change("truth of a number of a class", "K = [@@]\nclass A(int):\n    def __bool__(self): return K[0] == 2\nA0 = A(2)\ndef f(x): return mm(x, 2 if A0 else 3)\n" + F, "2", "3")
change("text of a string of a class", "K = ['@@']\nclass A(str):\n    def __format__(self, spec): return K[0]\nA0 = A('q')\ndef f(x): return mm(x, len(f'{A0}'))\n" + F, "aa", "aaa")
change("helper of a number's class", "K = [@@]\ndef h(): return K[0] == 2\nclass A(int):\n    def __bool__(self): return h()\nA0 = A(2)\ndef f(x): return mm(x, 2 if A0 else 3)\n" + F, "2", "3")

# -- the process -----------------------------------------------------------------------------------------------------------
change("built-in name added", "import builtins\nbuiltins.FRAMES_K = @@\ndef f(x): return mm(x, FRAMES_K)\ndef case():\n    try: return run(f, X)\n    finally: del builtins.FRAMES_K\n", "2", "3")
change("built-in name shadowed", "import builtins\nbuiltins.FRAMES_J = 2\n@@\ndef f(x): return mm(x, FRAMES_J)\ndef case():\n    try: return run(f, X)\n    finally: del builtins.FRAMES_J\n", "", "FRAMES_J = 3")
change("recursion limit", "import sys\ndef f(x): return mm(x, sys.getrecursionlimit() % 7)\ndef case():\n    old = sys.getrecursionlimit()\n    sys.setrecursionlimit(@@)\n    try: return run(f, X)\n    finally: sys.setrecursionlimit(old)\n", "5000", "5001")
change("limit that is set", "import sys\ndef f(x):\n    sys.set_int_max_str_digits(@@)\n    return mm(x, 2)\ndef case():\n    old = sys.get_int_max_str_digits()\n    try: return run(f, X), sys.get_int_max_str_digits()\n    finally: sys.set_int_max_str_digits(old)\n", "5000", "6000", BYPASS)

PACKAGE = """
import pathlib, sys
d = pathlib.Path(__file__).parent / '{0}'
d.mkdir(exist_ok=True)
(d / '__init__.py').write_text('seen = []')
(d / 'sub.py').write_text('import {0}; {0}.seen.append(1)')
import {0}
@@
def f(x):
    {1}
    return mm(x, 2)
def case(): return run(f, X), {0}.seen, '{0}.sub' in sys.modules
"""
change("module that is imported for its effect", PACKAGE.format("frames_p1", "import frames_p1.sub"), "import frames_p1.sub", "")
change("submodule that is imported for its effect", PACKAGE.format("frames_p2", "from frames_p2 import sub"), "import frames_p2.sub", "")

# -- tensors ---------------------------------------------------------------------------------------------------------------
change("buffer", "def f(x): return mm(x, 2 if isinstance(x, nn.Buffer) else 3)\ndef case(): return run(f, @@)\n", "X.clone()", "nn.Buffer(X.clone())")
change("attribute that becomes a buffer", "class M(nn.Module):\n    def forward(self, x):\n        self.b = x\n        return mm(x)\ndef case():\n    m = M()\n    return run(m, @@), list(dict(m.named_buffers())), 'b' in m.__dict__\n", "X.clone()", "nn.Buffer(X.clone())", ANY)
change("base of a view", "def f(x): return mm(x, 2 if x._base is None else 3)\ndef case():\n    b = torch.ones(3, 3)\n    return run(f, @@)\n", "b", "b[:]", BYPASS)
change("weight that is normalised", "from torch.nn.utils.parametrizations import weight_norm\nL = nn.Linear(3, 3, bias=False)\nL.weight.data = X + 1\nL = weight_norm(L, dim=@@)\ndef f(x): return torch.mm(L(x), x)\n" + F, "0", "1", ALONE)

# -- sizes that Dynamo has seen --------------------------------------------------------------------------------------------
SIZES = "def f(x, k=1): return torch.mm(x.t(), x) * k\ndef case():\n    g = torch.compile(f)\n    with torch.no_grad(): return [{0} for n in @@]\n"
change("size that nothing has made dynamic yet", SIZES.format("g(torch.ones(n, 3))"), "(7, 9)", "(9,)")
change("number that nothing has made dynamic yet", SIZES.format("g(X, n)"), "(7, 9)", "(9,)")
change("another size after the same ones", SIZES.format("g(torch.ones(n, 3))"), "(7, 9)", "(7, 9, 11)", HIT)
change("sizes in another order", SIZES.format("g(torch.ones(n, 3))"), "(7, 9, 5)", "(9, 7, 5)", ANY)
change("another size where all are dynamic", SIZES.format("g(torch.ones(n, 3))").replace("compile(f)", "compile(f, dynamic=True)"), "(7, 9)", "(9,)", HIT)

# -- what is found missing, or to be the same ------------------------------------------------------------------------------
change("key found missing by an exception", "D = {@@}\ndef f(x):\n    try: k = D['k']\n    except KeyError: k = 2\n    return mm(x, k)\n" + F, "", "'k': 3")
change("key found missing in a chain of maps", "D = collections.ChainMap({@@}, {'k': 2})\ndef f(x): return mm(x, D['k'])\n" + F, "", "'k': 3")
change("attribute found missing by an exception", "class A: pass\nA0 = A()\n@@\ndef f(x):\n    try: k = A0.k\n    except AttributeError: k = 2\n    return mm(x, k)\n" + F, "", "A0.k = 3")
change("attribute of a class found missing", "class A: pass\n@@\ndef f(x):\n    try: k = A.k\n    except AttributeError: k = 2\n    return mm(x, k)\n" + F, "", "A.k = 3")
change("attribute of a module found missing", "class M(nn.Module):\n    def forward(self, x):\n        try: k = self.k\n        except AttributeError: k = 2\n        return mm(x, k)\ndef case():\n    m = M()\n    @@\n    return run(m, X)\n", "pass", "m.k = 3")
change("attribute of a new object found missing", "class A: pass\n@@\ndef f(x):\n    a = A()\n    try: k = a.k\n    except AttributeError: k = 2\n    return mm(x, k)\n" + F, "", "A.k = 3")
change("key of a new dictionary found missing", "def g(): return {@@}\ndef f(x):\n    try: k = g()['k']\n    except KeyError: k = 2\n    return mm(x, k)\n" + F, "", "'k': 3", BYPASS)
change("argument that is a global", "T = X@@\ndef f(x): return mm(x, 2 if x is T else 3)\n" + F, "", ".clone()")
change("hash of a text", "def f(x): return mm(x, hash('@@') % 1000)\n" + F, "a", "b", BYPASS)

# -- marks on tensors, and switches ----------------------------------------------------------------------------------------
KNOWN = "from torch.fx.experimental.symbolic_shapes import guard_or_false, optimization_hint, statically_known_true as known\n"
MARKED = KNOWN + "D = torch._dynamo.decorators\ndef f(x): return mm(x, (2 if known(x.shape[0] < 10) else 3) * (5 if known(x.shape[1] < 10) else 7))\ndef case():\n    x = X.clone()\n    @@\n    return run(f, x{0})\n"
TALL = KNOWN + "D = torch._dynamo.decorators\ndef f(x): return torch.addmm(X, x.t(), x, alpha={0})\ndef case():\n    x = torch.ones(4, 3)\n    D.mark_dynamic(x, 0, @@)\n    return run(f, x)\n"
change("mark static", MARKED.format(", dynamic=True"), "pass", "D.mark_static(x, 0)")
change("mark static, no more", MARKED.format(", dynamic=True"), "D.mark_static(x, 0)", "pass")
change("mark static of another size", MARKED.format(", dynamic=True"), "D.mark_static(x, 0)", "D.mark_static(x, 1)")
change("mark static of all sizes", MARKED.format(", dynamic=True"), "D.mark_static(x, 0)", "D.mark_static(x)")
change("mark static in another order", MARKED.format(", dynamic=True"), "D.mark_static(x, [0, 1])", "D.mark_static(x, [1, 0])", HIT)
change("mark static of a global", "T = X.clone()\n" + MARKED.format(", dynamic=True").replace("def f(x): return mm(x,", "def f(y):\n    x = T\n    return mm(y,").replace("case():\n", "case():\n    global T\n    T = X.clone()\n"), "pass", "D.mark_static(T, 0)")
change("hint of mark_dynamic", TALL.format("optimization_hint(x.shape[0], fallback=7)"), "hint_override=5", "hint_override=6")
change("range of mark_dynamic", TALL.format("2 if known(x.shape[0] < 10) else 3"), "min=2, max=100", "min=2, max=8")
change("mark dynamic in another order", MARKED.format(""), "D.mark_dynamic(x, [0, 1])", "D.mark_dynamic(x, [1, 0])", HIT)
UNBACKED = KNOWN + "D = torch._dynamo.decorators\ndef f(x, y): return x.sum() * torch.ones(2) * y.sum() * (2 if known(x.shape[0] < 10) else 3) * (5 if known(x.shape[0] == y.shape[0]) else 7) * optimization_hint(x.shape[0], fallback=7)\ndef case():\n    x, y = torch.ones(4), torch.ones(4)\n    D.mark_unbacked(x, 0@@)\n    return run(f, x, y)\n"
change("range of mark_unbacked", UNBACKED.replace("(x, 0@@", "(x, 0, min=0, max=@@"), "50", "8")
change("hint of mark_unbacked", UNBACKED, ", hint_override=5", ", hint_override=6")
change("shape that mark_unbacked names", UNBACKED.replace("(x, 0@@)", "(x, 0, shape_id='p'), D.mark_unbacked(y, 0, shape_id='@@')"), "p", "q")
change("sizes of a result that become dynamic", "def f(x): return torch.mm(x, x.t())\ndef g(x): return torch.mm(x, x)\ndef case():\n    f2, g2 = torch.compile(f, dynamic=True), torch.compile(g)\n    with torch.no_grad(): return g2(f2(torch.ones(@@, 3)))\n", "4", "5", HIT)
CONFIGURED = MARKED.format("").replace("pass", "").replace("    x = X.clone()\n    @@\n    return run(f, x)", "    with torch.compiler.config.patch(@@): return run(f, X)")
change("sources that are dynamic", CONFIGURED, "dynamic_sources=''", "dynamic_sources=\"L['x']\"")
change("values that are dynamic", CONFIGURED, "dynamic_values=''", "dynamic_values='3'")
change("sources that are unbacked", CONFIGURED, "unbacked_sources=''", "unbacked_sources=\"L['x']:0\"")
change("job that torch's memory of sizes is for", CONFIGURED, "pgo_extra_write_key=None", "job_id=None", HIT)
change("break that is an error", "@torch._dynamo.error_on_graph_break(@@)\ndef f(x):\n    x = mm(x)\n    torch._dynamo.graph_break()\n    return mm(x, 2)\n" + F, "False", "True")
change("break that is an error, by a global", "K = torch._dynamo.error_on_graph_break(@@)\ndef f(x):\n    with K: return mm(x, 2)\n" + F, "False", "True")
change("setting that a frame makes", "K = torch._dynamo.patch_dynamo_config(capture_scalar_outputs=@@)\ndef f(x):\n    with K: return mm(x, 2)\n" + F, "False", "True")

# -- functions and classes that Dynamo knows, and makes no guard of ---------------------------------------------------------
change("function in place of checkpoint", "from torch.utils.checkpoint import checkpoint\ndef other(g, x, use_reentrant): return mm(x, 3)\ng = lambda x: mm(x, 2)\nK = @@\ndef f(x): return K(g, x, use_reentrant=False)\n" + F, "checkpoint", "other")
change("other enumeration that is looped over", "class A(enum.Enum):\n    a = 2\nclass B(enum.Enum):\n    b = 3\nK = @@\ndef f(x):\n    for v in K: x = mm(x, v.value)\n    return x\n" + F, "A", "B")
change("other enumeration that is asked for its length", "class A(enum.Enum):\n    a = 2\nclass B(enum.Enum):\n    b = 3\n    c = 4\nK = @@\ndef f(x): return mm(x, len(K))\n" + F, "A", "B")
change("other enumeration of a type check", "class A(enum.Enum):\n    a = 2\nclass B(enum.Enum):\n    b = 3\nK, V = @@, A.a\ndef f(x): return mm(x, 2 if isinstance(V, K) else 3)\n" + F, "A", "B")
change("enumeration with another member that is not read", "class A(enum.Enum):\n    a = 2\n    b = @@\nV = A.a\ndef f(x): return mm(x, 2 if V is A.a else 3)\n" + F, "3", "4", ANY)
change("function that tells of an exception", "import sys\ndef other(): return 1, 2\nK = @@\ndef f(x): return mm(x, 2 if K()[0] is None else 3)\n" + F, "sys.exc_info", "other")
