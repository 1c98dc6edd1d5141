"""What code reaches through modules, imports and the environment counts, and only that."""

from __future__ import annotations

import sys
import types

import pytest

from aot_cache.key.callables import Unidentified, identity

from .callables_support import Load, digest, load  # noqa: F401

OTHER = """
    SCALE = {scale}
    UNUSED = {unused}
    def helper(x):
        return deeper(x) * SCALE
    def deeper(x):
        return x + {deep}
    def unused(x):
        return {unused}
"""
READERS = {
    "attribute of a global module": "import other\ndef f(x):\n    return other.helper(x)",
    "attribute of a module under another name": "import other as o\ndef f(x):\n    return o.helper(x)",
    "name imported at the top": "from other import helper\ndef f(x):\n    return helper(x)",
    "import in the body": "def f(x):\n    import other\n    return other.helper(x)",
    "import in the body under another name": "def f(x):\n    import other as o\n    return [o.helper(i) for i in x]",
    "name imported in the body": "def f(x):\n    from other import helper\n    return helper(x)",
    "name imported in the body, not called": "def f(x):\n    from other import helper as h\n    return h",
    "import in the body for an inner function": "def f(x):\n    import other\n    return lambda: other.helper(x)",
    "name imported for an inner function": "def f(x):\n    from other import helper\n    return lambda: helper(x)",
    "module in a closure": (
        "import other\ndef make(m):\n    def f(x):\n        return m.helper(x)\n    return f\nf = make(other)"
    ),
    "getattr by a constant name": "import other\ndef f(x):\n    return getattr(other, 'helper')(x)",
    "getattr with a default": "import other\ndef f(x):\n    return getattr(other, 'helper', None)(x)",
    "attribute that is not called": "import other\ndef f(x):\n    return map(other.helper, x)",
    "default": "import other\ndef f(x, h=other.helper):\n    return h(x)",
    "in a comprehension": "import other\ndef f(x):\n    return {i: other.helper(i) for i in x}",
    "in a class body in the function": "import other\ndef f(x):\n    class A:\n        h = other.helper\n    return A",
}
WHOLE = {
    "module passed to one of two functions": (
        "import other\ndef f(x):\n    return (x if x else getattr)(other, 'helper')"
    ),
    "one of two modules": "import math, other\ndef f(x):\n    return (other if x else math).helper(x)",
    "module passed on": "import other\ndef f(x):\n    return x(other)",
    "module under a local name": "import other\ndef f(x):\n    o = other\n    return o.helper(x)",
    "vars of a module": "import other\ndef f(x):\n    return vars(other)[x]",
    "dictionary of a module": "import other\ndef f(x):\n    return other.__dict__[x]",
    "module in a list": "import other\nALL = [other]\ndef f(x):\n    return ALL[0].helper(x)",
    "import in a class body": "def f(x):\n    class A:\n        import other\n    return A.other.helper(x)",
    "import into a global": (
        "def f(x):\n    global other\n    import other\n    return g(x)\ndef g(x):\n    return other.helper(x)"
    ),
    "module as default": "import other\ndef f(x, o=other):\n    return o.helper(x)",
}


def identify(load: Load, reader: str, **values: int) -> str:
    load(OTHER.format(**{"scale": 1, "unused": 1, "deep": 1} | values), name="other", file="/somewhere/other.py")
    return digest(load(reader).f)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_what_is_read_of_a_user_module_counts_and_nothing_else(load: Load, reader: str) -> None:
    before = identify(load, reader)
    assert identify(load, reader, unused=2) == before
    assert identify(load, reader, scale=2) != before
    assert identify(load, reader, deep=2) != before


@pytest.mark.parametrize("reader", WHOLE.values(), ids=WHOLE.keys())
def test_all_of_a_user_module_counts_where_it_is_used_as_a_value(load: Load, reader: str) -> None:
    before = identify(load, reader)
    assert identify(load, reader) == before
    assert identify(load, reader, unused=2) != before
    assert identify(load, reader, deep=2) != before


def test_a_submodule_is_followed_by_its_dotted_name(load: Load) -> None:
    made = []
    for value in (1, 1, 2):
        package = load("", name="pack", file="/somewhere/pack/__init__.py", __path__=["/somewhere/pack"])
        package.sub = load(f"def helper(x):\n    return {value}", name="pack.sub", file="/somewhere/pack/sub.py")
        for source in ("import pack.sub\ndef f(x):\n    return pack.sub.helper(x)",
                       "def f(x):\n    import pack.sub\n    return pack.sub.helper(x)",
                       "def f(x):\n    import pack.sub as s\n    return s.helper(x)",
                       "def f(x):\n    from pack import sub\n    return sub.helper(x)"):  # fmt: skip
            made.append(digest(load(source).f))
        relative = load("def f(x):\n    from .sub import helper\n    return helper(x)", name="pack.user")
        made.append(digest(relative.f))
    assert made[:5] == made[5:10]
    assert not set(made[5:10]) & set(made[10:])


def test_both_modules_that_one_name_may_stand_for_count(load: Load) -> None:
    reader = "def f(x):\n    try:\n        import one as m\n    except ImportError:\n"
    reader += "        import two as m\n    return m.g(x)"

    def identify(one: int, two: int) -> str:
        load(f"def g(x):\n    return {one}", name="one", file="/somewhere/one.py")
        load(f"def g(x):\n    return {two}", name="two", file="/somewhere/two.py")
        return digest(load(reader).f)

    assert len({identify(1, 1), identify(1, 2), identify(2, 1)}) == 3


def test_a_patched_attribute_of_a_distributions_module_is_followed(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import colorsys

    reader = load("import colorsys\ndef f(x):\n    return colorsys.hls_to_rgb(x)").f
    made = [digest(reader)]
    for value in (1, 2):
        monkeypatch.setattr(colorsys, "hls_to_rgb", load(f"def mine(x):\n    return {value}").mine)
        made.append(digest(reader))
    assert len(set(made)) == 3


def test_a_patch_that_a_distributions_decorator_wraps_is_followed(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import colorsys

    source = """
        import contextlib
        class Around(contextlib.ContextDecorator):
            def __init__(self, n):
                self.n = n
            def __enter__(self): pass
            def __exit__(self, *args): pass
        @Around([{state}])
        def mine(x):
            return {body}
    """
    reader = load("import colorsys\ndef f(x):\n    return colorsys.hls_to_rgb(x)").f
    made = []
    for state, body in ((1, 1), (2, 1), (1, 2)):
        monkeypatch.setattr(colorsys, "hls_to_rgb", load(source.format(state=state, body=body), name="mine").mine)
        made.append(digest(reader))
    assert len(set(made)) == 3


def test_an_attribute_hung_on_a_distributions_function_counts_where_it_is_read(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    import colorsys

    reader = load("import colorsys\ndef f(x):\n    return colorsys.hls_to_rgb.rate * x").f
    made = []
    for value in (1, 2):
        monkeypatch.setattr(colorsys.hls_to_rgb, "rate", value, raising=False)
        made.append(digest(reader))
    assert made[0] != made[1]


ENVIRONMENT = {
    "item": "import os\ndef f(x):\n    return os.environ['AOT_TEST']",
    "get without default": "import os\ndef f(x):\n    return os.environ.get('AOT_TEST')",
    "get": "import os\ndef f(x):\n    return os.environ.get('AOT_TEST', '1')",
    "getenv": "import os\ndef f(x):\n    return os.getenv('AOT_TEST')",
    "in": "import os\ndef f(x):\n    return 'AOT_TEST' in os.environ",
    "imported": "from os import environ\ndef f(x):\n    return environ['AOT_TEST']",
    "imported in the body": "def f(x):\n    from os import getenv as g\n    return g('AOT_TEST')",
    "in a closure": "import os\ndef make(e):\n    return lambda x: e['AOT_TEST']\nf = make(os.environ)",
}


@pytest.mark.parametrize("source", ENVIRONMENT.values(), ids=ENVIRONMENT.keys())
def test_an_environment_variable_that_is_read_counts_and_no_other(
    load: Load, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AOT_TEST", raising=False)
    f = load(source).f
    made = [digest(f)]
    for value in ("1", "2"):
        monkeypatch.setenv("AOT_TEST", value)
        made.append(digest(f))
    assert len(set(made)) == 3
    monkeypatch.setenv("AOT_OTHER", "1")
    assert digest(f) == made[-1]


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
