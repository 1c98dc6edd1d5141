"""What has no identity is refused, with what it is and how it was reached; ordinary code is not."""

from __future__ import annotations

import sys
import types

import pytest

from aot_cache.key.build import identify
from aot_cache.key.callables import Unidentified, identity

from .callables_support import Load, digest, load  # noqa: F401

REFUSED = {
    "globals": ("def f(x):\n    return globals()[x]", "`globals` finds"),
    "eval": ("def f(x):\n    return eval(x)", "`eval` finds"),
    "exec": ("def f(x):\n    exec(x)", "`exec` finds"),
    "eval in a helper": (
        "def g(x):\n    return eval(x)\ndef f(x):\n    return g(x)",
        "global `eval` of `mylib.g`, reached by",
    ),
    "__import__": ("def f(x):\n    return __import__(x)", "`__import__` finds"),
    "import_module": ("import importlib\ndef f(x):\n    return importlib.import_module(x)", "`import_module` finds"),
    "import_module by name": (
        "from importlib import import_module as i\ndef f(x):\n    return i(x)",
        "`import_module` finds",
    ),
    "sys.modules": ("import sys\ndef f(x):\n    return sys.modules[x]", "reads `sys.modules`"),
    "a frame": ("import sys\ndef f(x):\n    return sys._getframe(1)", "`_getframe` finds"),
    "computed attribute of a module": ("import math\ndef f(x):\n    return getattr(math, x)", "by a computed name"),
    "computed variable": ("import os\ndef f(x):\n    return os.environ[x]", "by a computed name"),
    "computed getenv": ("import os\ndef f(x):\n    return os.getenv(x)", "by a computed name"),
    "variable by a name built from a constant": (
        "import os\ndef f(x):\n    return os.environ.get('A' + x)",
        "by a computed name",
    ),
    "variable by a name built by a call": (
        "import os\ndef f(x):\n    return os.getenv('A' + x())",
        "by a computed name",
    ),
    "variable by a formatted name": ("import os\ndef f(x):\n    return os.environ[f'A{x}']", "by a computed name"),
    "variable by one of two names": (
        "import os\ndef f(x):\n    return (x if x else 'A') in os.environ",
        "by a computed name",
    ),
    "attribute by a name built from a constant": (
        "import math\ndef f(x):\n    return getattr(math, 'a' + x)",
        "by a computed name",
    ),
    "attribute by a formatted name": (
        "import math\ndef f(x):\n    return getattr(math, f'a{x}', None)",
        "by a computed name",
    ),
    "the whole environment": ("import os\ndef f(x):\n    return dict(os.environ)", "by a computed name"),
    "__file__": ("def f(x):\n    return __file__", "reads `__file__`"),
    "__file__ of a module": ("import colorsys\ndef f(x):\n    return colorsys.__file__", "reads `__file__`"),
    "__globals__": ("def f(x):\n    return x.__globals__", "reads `__globals__`"),
    "__doc__": ("def f(x):\n    return x.__doc__", "reads `__doc__`"),
    "__subclasses__": ("def f(x):\n    return x.__subclasses__()", "reads `__subclasses__`"),
    "a native library": ("import ctypes\ndef f(x):\n    return ctypes.CDLL(x)", "`CDLL` finds"),
    "a file that is read": ("def f(x):\n    return open(x)", "`open` reads a file"),
    "a file by its path": ("import pathlib\ndef f(x):\n    return pathlib.Path(x).read_text()", "reads `read_text`"),
    "a file of torch's": ("import torch\ndef f(x):\n    return torch.load(x)", "`load` reads a file"),
    "a file of NumPy's": ("import numpy as np\ndef f(x):\n    return np.load(x)", "`load` reads a file"),
    "the directory": ("import os\ndef f(x):\n    return os.getcwd()", "`getcwd` tells of the process"),
    "whether a file exists": ("import os\ndef f(x):\n    return os.path.exists(x)", "`exists` tells of the process"),
    "a limit": ("import sys\ndef f(x):\n    return sys.getrecursionlimit()", "`getrecursionlimit` tells of the process"),
    "a context of numbers": (
        "import decimal\ndef f(x):\n    return decimal.getcontext().prec",
        "`getcontext` tells of the process",
    ),
    "the thread": (
        "import threading\ndef f(x):\n    return threading.current_thread().name",
        "`current_thread` tells of the process",
    ),
    "the seed": ("import torch\ndef f(x):\n    return torch.initial_seed()", "`initial_seed` tells of the process"),
    "a loaded library": (
        "import ctypes\nLIB = ctypes.CDLL(None)\ndef f(x):\n    return LIB",
        "object of type ctypes.CDLL",
    ),
    "a socket": (
        "import socket\nSTATE = socket.socket()\ndef f(x):\n    return STATE",
        "global `STATE` of `mylib.f`: object of type socket.socket",
    ),
    "a generator": ("STATE = (i for i in ())\ndef f(x):\n    return STATE", "object of type builtins.generator"),
    "a coroutine": (
        "async def c(): pass\nSTATE = c()\ndef f(x):\n    return STATE",
        "object of type builtins.coroutine",
    ),
    "a weak reference": (
        "import weakref\nclass A: pass\nSTATE = weakref.ref(A)\ndef f(x):\n    return STATE",
        "object of type",
    ),
    "a random generator": ("import random\nSTATE = random.Random(0)\ndef f(x):\n    return STATE", "random.Random"),
    "an open file": ("import os\nSTATE = open(os.devnull)\ndef f(x):\n    return STATE", "TextIOWrapper"),
    "an iterator": ("STATE = iter([1])\ndef f(x):\n    return STATE", "list_iterator"),
    "a code object": ("STATE = (lambda: 1).__code__\ndef f(x):\n    return STATE", "builtins.code"),
    "an exception": ("STATE = ValueError(1)\ndef f(x):\n    return STATE", "ValueError"),
    "thread-local state": ("import threading\nSTATE = threading.local()\ndef f(x):\n    return STATE", "_local"),
    "a context variable": (
        "import contextvars\nSTATE = contextvars.ContextVar('a')\ndef f(x):\n    return STATE",
        "ContextVar",
    ),
    "an item of a container": ("STATE = {'a': [1, (iter([]),)]}\ndef f(x):\n    return STATE", "item `0` of `a tuple`"),
    "something in a set": ("STATE = {1, iter([])}\ndef f(x):\n    return STATE", "item of `a set`"),
}


@pytest.mark.parametrize("source, message", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_cannot_be_known_is_refused_and_named(load: Load, source: str, message: str) -> None:
    module = load(source)
    with pytest.raises(Unidentified) as caught:
        identity(module.f)
    assert message in str(caught.value)
    state = vars(module).get("STATE")
    if hasattr(state, "close"):
        state.close()


def test_a_refusal_says_how_the_thing_was_reached(load: Load) -> None:
    source = "STATE = iter([])\nclass A:\n    def g(self):\n        return STATE\n"
    source += "def h():\n    return A()\ndef f(x):\n    return h()"
    with pytest.raises(Unidentified) as caught:
        identity(load(source).f)
    assert caught.value.reason == "object of type builtins.list_iterator"
    assert caught.value.path == (
        "global `STATE` of `mylib.A.g`, reached by member `g` of `mylib.A`, reached by global `A` of `mylib.h`, "
        "reached by global `h` of `mylib.f`"
    )
    assert caught.value.remedy


ALLOWED = {
    "method of a parameter": "def f(x):\n    return x.anything(1).else_()",
    "computed attribute of a parameter": "def f(x, n):\n    return getattr(x, n)",
    "locals": "def f(x):\n    return locals()",
    "standard streams": "import sys\ndef f(x):\n    print(x, file=sys.stderr)",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK:\n        return x",
    "an event": "import threading\nLOCK = threading.Event()\ndef f(x):\n    return LOCK.is_set()",
    "module name": "def f(x):\n    return __name__",
    "a lazily read attribute of a distribution": "import os\ndef f(x):\n    return os.no_such_thing(x)",
    "a module that is not installed": "def f(x):\n    import no_such_module_at_all\n    return x",
    "a module of the standard library that is not loaded": "def f(x):\n    import this\n    return this.s",
    "hasattr of a module": "import math\ndef f(x):\n    return hasattr(math, 'cbrt')",
    "item getter": "import operator\nG = operator.itemgetter(1, 'a')\ndef f(x):\n    return G(x)",
    "method caller": "import operator\nG = operator.methodcaller('a', 1, b=2)\ndef f(x):\n    return G(x)",
    "partial method": (
        "import functools\nclass A:\n    def g(self, n): pass\n    h = functools.partialmethod(g, 1)\n"
        "def f(x):\n    return A"
    ),
    "single dispatch method": (
        "import functools\nclass A:\n    @functools.singledispatchmethod\n    def g(self, n): pass\ndef f(x):\n"
        "    return A"
    ),
    "an exception class": "class E(ValueError): pass\ndef f(x):\n    raise E(x)",
    "typing": (
        "import typing\nT = typing.TypeVar('T', bound=int)\ndef f(x):\n"
        "    return typing.cast(typing.Optional[T], x), list[T], typing.Any"
    ),
    "generator function": "def f(x):\n    yield x",
    "coroutine function": "async def f(x):\n    async with x as y:\n        return [z async for z in y]",
    "match": "def f(x):\n    match x:\n        case {'a': int(y)}: return y",
    "patterns and paths": "import re, pathlib\nP = re.compile('a'), pathlib.Path('a')\ndef f(x):\n    return P",
    "walrus, star and unpacking": "def f(*a, b=1, **c):\n    return (d := [*a]), {**c}, d",
    "try and with": "def f(x):\n    try:\n        with x: pass\n    except* ValueError: pass\n    finally: pass",
}


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED.keys())
def test_ordinary_code_is_identified(load: Load, source: str) -> None:
    if "except*" in source and sys.version_info < (3, 11):
        pytest.skip("syntax of Python 3.11")
    assert digest(load(source).f) == digest(load("\n# moved\n" + source).f)


def test_an_import_of_a_user_module_that_is_not_loaded_yet_is_refused(
    load: Load, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "not_loaded_yet.py").write_text("def g(x): return x")  # type: ignore[operator]
    f = load("def f(x):\n    import not_loaded_yet\n    return not_loaded_yet.g(x)").f
    with pytest.raises(Unidentified, match="not loaded yet"):
        identity(f)
    assert "not_loaded_yet" not in sys.modules


def test_a_module_that_makes_its_attributes_itself_is_refused_as_a_value(load: Load) -> None:
    class Lazy(types.ModuleType):
        pass

    f = load("def f(x):\n    return x(lazy)", lazy=Lazy("lazy")).f
    with pytest.raises(Unidentified, match="module `lazy` of type"):
        identity(f)


def test_a_user_module_that_computes_an_attribute_is_refused(load: Load) -> None:
    load("def __getattr__(name):\n    return name", name="other", file="/somewhere/other.py")
    with pytest.raises(Unidentified, match="computes its attribute `gone`"):
        identity(load("import other\ndef f(x):\n    return other.gone").f)


LIAR = """
class Liar:
    def __init__(self, k):
        self.k = k

    def __str__(self):
        return "torch.float32"

    def __getattribute__(self, name):
        return {0} if name == "__class__" else object.__getattribute__(self, name)

LIAR = Liar({1})

def f(x):
    return x * LIAR.k
"""


@pytest.mark.parametrize("says", ["7", "torch.dtype", "torch.Tensor", "torch.nn.Parameter", "type", "dict", "str"])
def test_what_an_object_says_of_its_class_does_not_count(load: Load, says: str) -> None:
    found = [identify(load("import torch" + LIAR.format(says, k)).f) for k in (2, 2, 3)]
    assert found[0] == found[1] != found[2]


def test_a_value_that_cannot_be_asked_about_is_refused_by_name(load: Load) -> None:
    def ask(value: object) -> None:
        if type(value).__name__ == "Liar":
            raise TypeError("no")

    with pytest.raises(Unidentified, match="type Liar, which cannot be looked at .TypeError: no"):
        identity(load(LIAR.format(7, 2)).f, ask)
