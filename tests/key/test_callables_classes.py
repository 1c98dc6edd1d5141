"""Which edits of a class or an object change the identity of what uses it."""

from __future__ import annotations

import pytest

from aot_cache.key.callables import Unidentified, identity

from .callables_support import Load, digest, load  # noqa: F401

BASE = """
    import abc, dataclasses, enum, functools
    LIMIT = 3
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)
    class Base:
        def shared(self):
            return LIMIT
    class f(Base, metaclass=Meta):
        rate = 0.5
        __slots__ = ("a", "b")
        def plain(self):
            return self.rate
        @staticmethod
        def static(x):
            return x
        @classmethod
        def klass(cls):
            return cls.rate
        @property
        def prop(self):
            return 1
        @functools.cached_property
        def cached(self):
            return 2
        class Inner:
            depth = 1
"""

COUNTS = {
    "a class attribute": ("rate = 0.5", "rate = 0.25"),
    "a method": ("return self.rate", "return -self.rate"),
    "a static method": (
        "        def static(x):\n            return x",
        "        def static(x):\n            return -x",
    ),
    "static or not": ("@staticmethod", "@classmethod"),
    "a class method": ("return cls.rate", "return -cls.rate"),
    "a property": ("return 1", "return 3"),
    "a cached property": ("return 2", "return 4"),
    "an inner class": ("depth = 1", "depth = 2"),
    "a slot": ('("a", "b")', '("a", "c")'),
    "a base's method": ("return LIMIT", "return -LIMIT"),
    "a global read by a base's method": ("LIMIT = 3", "LIMIT = 4"),
    "the metaclass": ("return super().__call__(*args)", "return None"),
    "the bases": ("(Base, metaclass", "(metaclass"),
    "a new member": ("rate = 0.5", "rate = 0.5\n        more = 1"),
}
COUNTS_NOT = {
    "a docstring": ("rate = 0.5", '"Words."\n        rate = 0.5'),
    "an annotation": ("rate = 0.5", "rate: float = 0.5\n        other: int"),
    "the order of members": ("        rate = 0.5\n        __slots__", "        __slots__"),
    "its line": ("    LIMIT = 3", "\n\n    # text\n    LIMIT = 3"),
}


@pytest.mark.parametrize("edit", COUNTS.values(), ids=COUNTS.keys())
def test_an_edit_that_counts_gives_another_digest(load: Load, edit: tuple[str, str]) -> None:
    source = BASE.replace(*edit)
    assert source != BASE
    assert digest(load(BASE).f) != digest(load(source).f)


@pytest.mark.parametrize("edit", COUNTS_NOT.values(), ids=COUNTS_NOT.keys())
def test_an_edit_that_does_not_count_gives_the_same_digest(load: Load, edit: tuple[str, str]) -> None:
    source = BASE.replace(*edit)
    if "__slots__" in edit[1] and "rate" not in edit[1]:
        source = source.replace('("a", "b")\n', '("a", "b")\n        rate = 0.5\n')
    assert source != BASE
    assert digest(load(BASE).f) == digest(load(source).f)


def test_a_method_patched_into_a_class_counts(load: Load) -> None:
    module = load(BASE)
    before = digest(module.f)
    module.Base.shared = lambda self: 7
    assert digest(module.f) != before


def test_a_function_counts_with_the_classes_it_names(load: Load) -> None:
    source = "class A:\n    def g(self):\n        return {}\ndef f(x):\n    return A().g() + x"
    assert digest(load(source.format(1)).f) == digest(load(source.format(1)).f)
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


def test_a_class_that_refers_to_itself_ends(load: Load) -> None:
    source = "class A:\n    def g(self):\n        return super().__init__(), A, {}\nA.me = A\nA.one = A()"
    assert digest(load(source.format(1)).A) == digest(load(source.format(1)).A)
    assert digest(load(source.format(1)).A) != digest(load(source.format(2)).A)


def test_a_bound_method_counts_with_code_and_state(load: Load) -> None:
    source = "class A:\n    def __init__(self, n):\n        self.n = n\n    def g(self):\n        return {}"
    one, two = load(source.format(1)), load(source.format(2))
    assert digest(one.A(1).g) == digest(one.A(1).g)
    assert digest(one.A(1).g) != digest(one.A(2).g)
    assert digest(one.A(1).g) != digest(two.A(1).g)


def test_a_callable_instance_counts_with_code_and_state(load: Load) -> None:
    source = "class A:\n    def __init__(self, n):\n        self.n = n\n    def __call__(self):\n        return {}"
    one, two = load(source.format(1)), load(source.format(2))
    assert digest(one.A(1)) == digest(one.A(1)) != digest(one.A(2))
    assert digest(one.A(1)) != digest(two.A(1))


def test_the_order_in_which_attributes_were_set_counts_since_vars_tells(load: Load) -> None:
    module = load("class A: pass\na, b, c = A(), A(), A()\na.x, a.y = 1, 2\nb.y, b.x = 2, 1\nc.x, c.y = 1, 2")
    assert digest(module.a) == digest(module.c) != digest(module.b)


def test_slots_count_and_an_empty_slot_is_not_none(load: Load) -> None:
    module = load("class A:\n    __slots__ = ('x',)\na, b, c = A(), A(), A()\nb.x = None\nc.x = 1")
    assert len({digest(module.a), digest(module.b), digest(module.c)}) == 3


def test_an_object_that_refers_to_itself_ends(load: Load) -> None:
    module = load("class A: pass\na, b = A(), A()\na.me, b.me = a, b\nb.n = 1")
    assert digest(module.a) != digest(module.b)


@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "str", "int", "set", "frozenset", "float", "bytes"])
def test_a_subclass_of_a_builtin_counts_with_content_class_and_state(load: Load, kind: str) -> None:
    value = {"dict": "{1: 2}", "int": "3", "float": "3.5", "str": "'ab'", "bytes": "b'ab'"}.get(kind, "[1, 2]")
    source = f"class A({kind}): pass\nclass B({kind}): pass\na, b, c, d = A({value}), A({value}), A(), B({value})\n"
    source += f"plain = {kind}({value})\nc.x = e = A({value})\ne.x = 1"
    module = load(source)
    assert digest(module.a) == digest(module.b)
    assert len({digest(v) for v in (module.a, module.c, module.d, module.e, module.plain)}) == 5


GENERATED = {
    "dataclass": (
        "@dataclasses.dataclass\nclass A:\n    x: int = {}\n    y: list = dataclasses.field(default_factory=list)"
    ),
    "frozen dataclass": "@dataclasses.dataclass(frozen=True, order=True)\nclass A:\n    x: int = {}",
    "slots dataclass": "@dataclasses.dataclass(slots=True)\nclass A:\n    x: int = {}",
    "namedtuple": "A = collections.namedtuple('A', 'x y', defaults=[{}])",
    "typed namedtuple": "class A(typing.NamedTuple):\n    x: int = {}",
    "enum": "class A(enum.Enum):\n    ONE = {}\n    TWO = 'two'\n    def g(self):\n        return self",
    "int enum": "class A(enum.IntEnum):\n    ONE = {}\n    TWO = 7",
    "flag": "class A(enum.Flag):\n    ONE = 1\n    TWO = {}",
    "generic": "T = typing.TypeVar('T')\nclass A(typing.Generic[T]):\n    x = {}",
    "abstract": "class A(abc.ABC):\n    @abc.abstractmethod\n    def g(self):\n        return {}",
    "protocol": "class A(typing.Protocol):\n    def g(self):\n        return {}",
    "typed dict": "class A(typing.TypedDict):\n    x: int\nA.extra = {}",
    "total ordering": "@functools.total_ordering\nclass A:\n    def __lt__(self, o):\n        return {}",
}


@pytest.mark.parametrize("source", GENERATED.values(), ids=GENERATED.keys())
def test_a_generated_class_is_identified(load: Load, source: str) -> None:
    source = "import abc, collections, dataclasses, enum, functools, typing\n" + source
    one, same, two = (digest(load(source.format(n)).A) for n in (4, 4, 8))
    assert one == same != two


def test_members_of_an_enum_are_told_apart_and_count_with_their_class(load: Load) -> None:
    source = "import enum\nclass A(enum.Enum):\n    ONE = {}\n    TWO = 2"
    one, two = load(source.format(1)).A, load(source.format(3)).A
    assert len({digest(one.ONE), digest(one.TWO), digest(two.ONE), digest(two.TWO)}) == 4


def test_using_an_enum_does_not_change_it(load: Load) -> None:
    flag = load("import enum\nclass A(enum.Flag):\n    ONE = 1\n    TWO = 2").A
    before = digest(flag)
    flag.ONE | flag.TWO
    assert digest(flag) == before
    assert digest(flag.ONE | flag.TWO) not in (digest(flag.ONE), digest(flag.TWO))


def test_what_a_member_of_an_enum_carries_counts(load: Load) -> None:
    source = "import enum\nclass A(enum.Enum):\n    ONE = 1\nA.ONE.extra = {}"
    assert digest(load(source.format(1)).A) != digest(load(source.format(2)).A)


def test_what_is_registered_with_an_abstract_class_counts_and_its_caches_do_not(load: Load) -> None:
    module = load("import abc\nclass A(abc.ABC): pass\nclass B: pass\nclass C: pass")
    before = digest(module.A)
    assert not isinstance(module.B(), module.A)
    assert digest(module.A) == before
    module.A.register(module.B)
    module.A.register(module.C)
    after = digest(module.A)
    other = load("import abc\nclass A(abc.ABC): pass\nclass B: pass\nclass C: pass\nA.register(C)\nA.register(B)")
    assert before != after == digest(other.A)


def test_an_object_that_fails_when_it_is_looked_at_is_refused(load: Load) -> None:
    source = "class M(type):\n    __module__ = property(lambda cls: 1 / 0)\nclass A(metaclass=M): pass\na = A()"
    with pytest.raises(Unidentified, match="cannot be looked at"):
        identity(load(source).a)


def test_hash_and_equality_of_the_items_of_a_set_are_not_called(load: Load) -> None:
    source = """
        CALLS = []
        class A:
            def __hash__(self):
                CALLS.append(1)
                return 1
        class S(set): pass
        ITEMS = [{A()}, S([A()])]
    """
    module = load(source)
    calls = len(module.CALLS)
    for item in module.ITEMS:
        item_digest = digest(item)
        assert item_digest == digest(item)
    assert len(module.CALLS) == calls


def test_an_instance_of_a_dataclass_counts_by_value(load: Load) -> None:
    a = load("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n    y: list").A
    assert digest(a(1, [2])) == digest(a(1, [2]))
    assert digest(a(1, [2])) != digest(a(1, [3]))


def test_a_set_of_members_that_their_class_reads_ends(load: Load) -> None:
    source = """
        import enum
        class A(enum.Enum):
            ONE = 1
            TWO = 2
            def cheap(self):
                return self in CHEAP
        CHEAP = {{{}}}
        def f(x):
            return x in CHEAP
    """
    one, same, two = (digest(load(source.format(s)).f) for s in ("A.ONE, A.TWO", "A.TWO, A.ONE", "A.ONE"))
    assert one == same != two


def test_a_method_of_the_users_in_a_class_of_a_distribution_counts(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    plain = digest(argparse.HelpFormatter)
    made = []
    for value in (1, 2):
        module = load(f"def patch(self):\n    return {value}")
        for wrapped in (module.patch, property(module.patch)):
            monkeypatch.setattr(argparse.HelpFormatter, "add_text", wrapped)
            made.append(digest(argparse.HelpFormatter))
    monkeypatch.undo()
    assert len({plain, *made}) == 5
    assert digest(argparse.HelpFormatter) == plain


def test_a_proxy_that_claims_to_be_a_function_is_not_taken_for_one(load: Load) -> None:
    source = """
        import types
        class Proxy:
            def __init__(self, n):
                object.__setattr__(self, "n", n)
            __class__ = property(lambda self: types.FunctionType)
    """
    module = load(source)
    assert digest(module.Proxy(1)) != digest(module.Proxy(2))


def test_an_object_that_hides_its_attributes_is_refused(load: Load) -> None:
    module = load("class A:\n    __dict__ = property(lambda self: {})\na = A()")
    with pytest.raises(Unidentified, match="hides its attributes"):
        identity(module.a)
