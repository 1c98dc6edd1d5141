"""Changes to where an attribute is found, and to what a class says of an object; see `frames_changes`."""

from __future__ import annotations

from hook.frames_changes import HIT, F, change

# -- an attribute that is found after Python has looked elsewhere -----------------------------------------------------------
DEFAULT = "class A:\n    def __init__(self, **given): self.__dict__.update(given)\n    def __getattr__(self, name):\n        if name.startswith('__'): raise AttributeError(name)\n        return None\nA0 = A(d=2@@)\ndef f(x): return mm(x, A0.d if A0.k is None else A0.k)\n" + F
change("attribute that is only a default", DEFAULT, "", ", k=3")
change("other attribute beside a default", DEFAULT, "", ", j=3", HIT)
change("attribute before a fallback to a dictionary", "class A(dict):\n    def __getattr__(self, name): return self[name]\nA0 = A(k=2)\n@@\ndef f(x): return mm(x, A0.k)\n" + F, "", "A0.__dict__['k'] = 3")
change("method of a dictionary that an instance replaces", "class A(dict): pass\nA0 = A(k=2)\n@@\ndef f(x): return mm(x, A0.get('k'))\n" + F, "", "A0.get = lambda k: 3")
change("cached method that an instance replaces", "class A:\n    @functools.lru_cache\n    def g(self): return 2\nA0 = A()\n@@\ndef f(x): return mm(x, A0.g())\n" + F, "", "A0.g = lambda: 3")

WRAPPED = "class In(nn.Module):\n    def extra(self, x): return mm(x, 2)\n    def forward(self, x): return x\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = In()\n    def __getattr__(self, name):\n        try: return super().__getattr__(name)\n        except AttributeError: return getattr(self.inner, name)\n    def forward(self, x): return self.extra(x)\ndef case():\n    m = M()\n    @@\n    return run(m, X)\n"
change("method before a fallback to an inner module", WRAPPED, "pass", "m.extra = lambda x: mm(x, 3)")
change("other attribute beside a fallback", WRAPPED, "pass", "m.other = 3", HIT)

HOLDS = "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {0}\n    def forward(self, x): return torch.mm(x, {1})\ndef case():\n    m = M()\n    @@\n    return run(m, X)\n"
BUFFER = HOLDS.format("self.register_buffer('b', X * 2)", "self.b")
change("instance before a buffer", BUFFER, "pass", "m.__dict__['b'] = X * 3")
change("parameter before a buffer", BUFFER, "pass", "m._parameters['b'] = nn.Parameter(X * 3, requires_grad=False)")
change("value of a buffer", BUFFER, "pass", "m.b.mul_(3)", HIT)
change("instance before a parameter", HOLDS.format("self.b = nn.Parameter(X * 2, requires_grad=False)", "self.b"), "pass", "m.__dict__['b'] = X * 3")
change("instance before a submodule", HOLDS.format("self.b = nn.Identity()", "self.b(x)"), "pass", "m.__dict__['b'] = lambda x: mm(x, 3)")
change("attribute that the frame sets", "class A:\n    def __getattr__(self, name): return 3\ndef f(x, a):\n    a.k = 2\n    return mm(x, a.k)\ndef case():\n    a = A()\n    @@\n    return run(f, X, a)\n", "pass", "a.k = 4", HIT)

# -- what a class says of an object ----------------------------------------------------------------------------------------
CHECK = "class Meta(type):\n    def __instancecheck__(cls, value): return getattr(value, 'n', 0) > 3\nclass I(metaclass=Meta): pass\nclass A:\n    def __init__(self, **given): self.__dict__.update(given)\ndef f(x, a): return mm(x, 2 if isinstance(a, I) else 3)\ndef case(): return run(f, X, A(@@))\n"
change("attribute that a class looks at", CHECK, "n=2", "n=5")
change("attribute that does not change what a class says", CHECK, "n=2", "n=3", HIT)
PROTOCOL = "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass I(Protocol):\n    {0}\nclass A:\n    def __init__(self, **given): self.__dict__.update(given)\nA0 = A(@@)\ndef f(x): return mm(x, 2 if isinstance(A0, I) else 3)\n" + F
change("attribute that a protocol looks for", PROTOCOL.format("k: int"), "j=1", "k=1")
change("method of an instance that a protocol looks for", PROTOCOL.format("def k(self): ..."), "j=1", "k=lambda: 1")
change("attribute that a protocol does not look for", PROTOCOL.format("k: int"), "j=1", "i=1", HIT)
