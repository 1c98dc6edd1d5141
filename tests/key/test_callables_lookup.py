"""What code reaches through modules, imports and the environment counts, and only that."""

from __future__ import annotations

import pytest

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


def test_what_is_read_of_one_of_two_modules_counts(load: Load) -> None:
    reader = "import math, other\ndef f(x):\n    return (other if x else math).helper(x)"
    assert identify(load, reader) == identify(load, reader) != identify(load, reader, deep=2)


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
