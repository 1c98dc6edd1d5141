"""Which edits of a function, and of what it reads, change its identity."""

from __future__ import annotations

import functools
import re

import pytest

from aot_cache.key.callables import identity

from .callables_support import Load, digest, load  # noqa: F401

BASE = """
    import math
    SCALE = 2.0
    TABLE = {"a": [1, 2], "b": (3,)}
    def helper(x):
        return x + 1
    def other(x):
        return x - 1
    def f(x, eps=1e-5, *, flag=True):
        def inner(y):
            return helper(y) * SCALE
        return [inner(i) for i in x] + [TABLE, math.pi, eps, flag]
"""

COUNTS = {
    "the body": ("* SCALE", "/ SCALE"),
    "a constant": ("x + 1", "x + 2"),
    "the type of a constant": ("x + 1", "x + 1.0"),
    "a constant from 1 to True": ("x + 1", "x + True"),
    "the sign of zero": ("SCALE = 2.0", "SCALE = -0.0"),
    "a default": ("eps=1e-5", "eps=1e-6"),
    "a keyword default": ("flag=True", "flag=False"),
    "a parameter's name": ("def helper(x):\n        return x + 1", "def helper(z):\n        return z + 1"),
    "the body of a helper": ("return x + 1", "return x + 1 if x else 0"),
    "which helper is called in inner code": ("return helper(y)", "return other(y)"),
    "the value of a global": ("SCALE = 2.0", "SCALE = 3.0"),
    "a value deep in a global": ("[1, 2]", "[1, 3]"),
    "the order of a global dict": ('{"a": [1, 2], "b": (3,)}', '{"b": (3,), "a": [1, 2]}'),
    "an attribute of a module": ("math.pi", "math.tau"),
    "the name of the function a helper stands for": ("def helper(x)", "def helper_(x)"),
    "a helper becomes a generator": ("return x + 1", "yield x + 1"),
    "a global is shadowed": ("def f(x, eps=1e-5, *, flag=True):", "len = 3\n    def f(x, eps=1e-5, *, flag=len):"),
}
COUNTS_NOT = {
    "shifted lines": ("    import math", "\n\n\n    import math"),
    "a comment": ("return x + 1", "return x + 1  # plus one"),
    "a comment line inside": ("        def inner(y):", "        # here\n\n        def inner(y):"),
    "an annotation": ("def helper(x):", "def helper(x: int) -> float:"),
    "a global that nothing reads": ("SCALE = 2.0", "SCALE = 2.0; UNUSED = 5"),
    "a function that nothing calls": ("return x - 1", "return x - 7"),
    "the spelling of a number": ("SCALE = 2.0", "SCALE = 0.2e1"),
}


@pytest.mark.parametrize("edit", COUNTS.values(), ids=COUNTS.keys())
def test_an_edit_that_counts_gives_another_digest(load: Load, edit: tuple[str, str]) -> None:
    before, after = edit
    source = BASE.replace(before, after)
    assert source != BASE
    source = source.replace("return helper(y)", "return helper_(y)") if "helper_" in after else source
    assert digest(load(BASE).f) != digest(load(source).f)


@pytest.mark.parametrize("edit", COUNTS_NOT.values(), ids=COUNTS_NOT.keys())
def test_an_edit_that_does_not_count_gives_the_same_digest(load: Load, edit: tuple[str, str]) -> None:
    before, after = edit
    source = BASE.replace(before, after)
    assert source != BASE
    assert digest(load(BASE).f) == digest(load(source, file="/somewhere/else/mylib.py").f)


def test_a_digest_is_32_hexadecimal_digits(load: Load) -> None:
    assert re.fullmatch("[0-9a-f]{32}", digest(load(BASE).f))


def test_parts_name_what_was_read(load: Load) -> None:
    parts = identity(load(BASE).f).parts
    assert parts["module"] == "mylib" and parts["qualname"] == "f"
    assert parts["default: eps"] == "1e-05" and parts["global: SCALE"] == "2.0"
    assert {"code", "global: helper", "global: TABLE", "global: math.pi", "default: flag"} <= parts.keys()


def test_a_changed_helper_changes_its_own_part_only(load: Load) -> None:
    old = identity(load(BASE).f).parts
    new = identity(load(BASE.replace("x + 1", "x + len(TABLE)")).f).parts
    assert {name for name in old if old[name] != new[name]} == {"global: helper"}


def test_no_part_holds_the_path_of_the_file(load: Load) -> None:
    parts = identity(load(BASE, file="/somewhere/very/special/mylib.py").f).parts
    assert not any("special" in text for item in parts.items() for text in item)


def test_the_module_counts(load: Load) -> None:
    assert digest(load(BASE).f) != digest(load(BASE, name="yourlib").f)


def test_the_main_module_has_one_name_in_a_worker_too(load: Load) -> None:
    source = "def f(x):\n    return __name__, x"
    made = [load(source, name=name).f for name in ("__main_x__", "__main_x__")]
    for function, name in zip(made, ("__main__", "__mp_main__")):
        function.__module__ = function.__globals__["__name__"] = name
    assert digest(made[0]) == digest(made[1])


def test_code_that_the_interpreter_specialised_has_the_same_digest(load: Load) -> None:
    source = "def f(x):\n    total = 0\n    for i in x:\n        total += i * 2\n    return total"
    fresh, warm = load(source).f, load(source).f
    for _ in range(100):
        warm(range(100))
    if hasattr(warm.__code__, "_co_code_adaptive"):
        assert warm.__code__._co_code_adaptive != fresh.__code__._co_code_adaptive
    assert digest(fresh) == digest(warm)


def test_equal_code_objects_with_other_globals_are_told_apart(load: Load) -> None:
    source = "K = {}\ndef f(x):\n    return x * K"
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


def test_mutual_recursion_ends_and_each_body_counts(load: Load) -> None:
    source = "def f(x):\n    return g(x)\ndef g(x):\n    return f(x) + {}"
    assert digest(load(source.format(1)).f) == digest(load(source.format(1)).f)
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


def test_a_chain_of_calls_may_be_longer_than_the_recursion_limit(load: Load) -> None:
    source = "\n".join(f"def f{i}(x):\n    return f{i + 1}(x)" for i in range(1200))
    last = "\ndef f1200(x):\n    return x + {}"
    assert digest(load(source + last.format(1)).f0) != digest(load(source + last.format(2)).f0)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.f, "__code__", (lambda x: x).__code__),
        lambda m: setattr(m.f, "__defaults__", (7,)),
        lambda m: setattr(m.f, "__kwdefaults__", {"flag": 7}),
        lambda m: setattr(m, "SCALE", 9.0),
        lambda m: setattr(m, "helper", m.other),
        lambda m: setattr(m, "len", m.other),
        lambda m: m.TABLE["a"].append(1),
        lambda m: setattr(m.f, "tag", 1),
    ],
    ids=["code", "defaults", "kwdefaults", "global", "helper", "builtin shadowed", "mutated global", "attribute"],
)
def test_a_patch_between_two_calls_is_seen(load: Load, change: object) -> None:
    module = load(BASE.replace("[TABLE,", "[len(x), TABLE,"))
    before = digest(module.f)
    assert digest(module.f) == before
    change(module)  # type: ignore[operator]
    assert digest(module.f) != before


def test_a_closure_counts_by_value(load: Load) -> None:
    make = load("def make(n):\n    return lambda x: x + n").make
    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


def test_an_empty_closure_cell_is_not_an_error(load: Load) -> None:
    source = "def make(n):\n    def f():\n        return late\n    if n:\n        late = None\n    return f"
    make = load(source).make
    assert digest(make(0)) == digest(make(0)) != digest(make(1))


def test_two_lambdas_of_one_scope_are_told_apart(load: Load) -> None:
    pair = load("PAIR = (lambda x: x + 1, lambda x: x + 2)").PAIR
    assert digest(pair[0]) != digest(pair[1])


def test_a_decorated_function_counts_with_its_body_and_its_decorator(load: Load) -> None:
    source = """
        import functools
        def twice(fn):
            @functools.wraps(fn)
            def wrapper(*args):
                return {outer}
            return wrapper
        @twice
        def f(x):
            return {inner}
    """
    made = [("fn(*args)", "x"), ("fn(*args)", "x + 1"), ("fn(*args) * 2", "x")]
    digests = {digest(load(source.format(outer=outer, inner=inner)).f) for outer, inner in made}
    assert len(digests) == 3
    assert digest(load(source.format(outer="fn(*args)", inner="x")).f) in digests


def test_a_wrapper_of_the_standard_library_does_not_hide_the_user_function(load: Load) -> None:
    source = "import contextlib\n@contextlib.contextmanager\ndef f(x):\n    yield x + {}"
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


@pytest.mark.parametrize("wrap", ["functools.lru_cache(maxsize=None)(g)", "functools.partial(g, 1)", "staticmethod(g)"])
def test_what_a_standard_wrapper_wraps_counts(load: Load, wrap: str) -> None:
    source = f"import functools\ndef g(*x):\n    return {{}}\nf = {wrap}"
    assert digest(load(source.format(1)).f) == digest(load(source.format(1)).f)
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


def test_the_arguments_of_a_partial_count() -> None:
    assert digest(functools.partial(len, [1])) == digest(functools.partial(len, [1]))
    assert digest(functools.partial(int, "11", base=2)) != digest(functools.partial(int, "11", base=3))
    assert digest(functools.partial(int, "11")) != digest(functools.partial(int, "12"))


def test_what_a_cache_holds_does_not_count(load: Load) -> None:
    f = load("import functools\n@functools.lru_cache\ndef f(x):\n    return x").f
    before = digest(f)
    f(1)
    assert digest(f) == before


def test_every_registration_of_a_singledispatch_function_counts(load: Load) -> None:
    source = "import functools\n@functools.singledispatch\ndef f(x):\n    return 1\n"
    source += "@f.register\ndef _(x: int):\n    return {}"
    module = load(source.format(2))
    before = digest(module.f)
    assert before == digest(load(source.format(2)).f) != digest(load(source.format(3)).f)
    module.f(1)
    assert digest(module.f) == before
    module.f.register(str, len)
    assert digest(module.f) != before


def test_builtin_functions_are_known_by_name_and_by_what_they_are_bound_to() -> None:
    assert digest(len) != digest(abs)
    assert digest("a".join) == digest("a".join) != digest("b".join)
    assert digest(str.upper) != digest(str.lower)
    assert digest([1].append) != digest([2].append)


def test_a_patched_builtin_is_followed(load: Load) -> None:
    source = "def mine(x):\n    return {}\ndef f(x):\n    return abs(x)"
    made = []
    for value in (1, 2):
        module = load(source.format(value))
        module.__builtins__ = {"abs": module.mine}
        rebuilt = type(module.f)(module.f.__code__, vars(module))
        made.append(digest(rebuilt))
    assert made[0] != made[1]


def test_written_globals_count_by_their_value_when_they_are_read(load: Load) -> None:
    f = load("COUNT = 0\ndef f(x):\n    global COUNT\n    COUNT += 1\n    return COUNT").f
    before = digest(f)
    f(0)
    assert digest(f) != before


def test_written_globals_that_nothing_reads_do_not_count(load: Load) -> None:
    f = load("LAST = 0\ndef f(x):\n    global LAST\n    LAST = x").f
    before = digest(f)
    f(object())
    assert digest(f) == before


def test_a_logger_counts_by_its_name_only(load: Load) -> None:
    source = "import logging\nlog = logging.getLogger('{}')\ndef f(x):\n    log.info('x')"
    f = load(source.format("a")).f
    before = digest(f)
    logging = __import__("logging")
    logging.getLogger("a").addHandler(logging.NullHandler())
    assert digest(f) == before != digest(load(source.format("b")).f)


def test_an_undefined_global_is_known_as_such(load: Load) -> None:
    source = "def f(x):\n    return missing(x)\n"
    assert digest(load(source).f) == digest(load(source).f)
    assert digest(load(source).f) != digest(load(source + "def missing(x): pass").f)


def test_a_class_made_inside_a_function_does_not_depend_on_its_line(load: Load) -> None:
    source = "def f(x):\n    class A:\n        def g(self):\n            self.b = {}\n"
    source += "            self.a = 1\n    return A"
    before = digest(load(source.format(1)).f)
    assert digest(load("\n" * 300 + source.format(1)).f) == before
    assert digest(load(source.format(2)).f) != before
