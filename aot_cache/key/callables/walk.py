"""From one object over all that it reaches to one digest.

Nodes are numbered as they are found and described one after the other, so cycles end and the depth of the user's call
graph does not matter. Items of sets that have no order of their own each get a digest, and those are sorted.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Union

from ...errors import AotCacheError
from ..parts import digest
from . import library, process
from .classes import namespace
from .leaf import encode, in_order, sized, text
from .lookup import names_in
from .node import Edge, Node, Unidentified
from .objects import describe

Values = Callable[[object], Union[bytes, "tuple[bytes, object]", None]]
_MOST_VISITS = 100_000


@dataclass(frozen=True)
class Identity:
    """digest: 32 hexadecimal digits. parts: what it is made of, each with a short value or a digest, for a person."""

    digest: str
    parts: dict[str, str]


_LOCK = type(threading.Lock())
# Names through which code learns the order of attributes, or whether a lock is held.
_TELLING = frozenset(("vars", "__dict__", "getmembers", "getmembers_static", "locked"))


@dataclass
class _Reach:
    """What the traversals for one identity met. names: of process.names. users: whether user code is among it.

    asked: of _TELLING, what that code names. orders: the attributes, in order, of the user's functions and classes. locks:
    whether they are held.
    """

    visits: int = 0
    names: set[str] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    users: bool = False
    asked: set[str] = field(default_factory=set)
    orders: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    locks: list[bool] = field(default_factory=list)

    def add(self, value: object, node: Node | None = None) -> None:
        found = process.names(value)
        self.names.update(found)
        self.packages.update(found[:1])
        if node is None or "distribution" in node.facts:
            return
        if node.kind == "function":
            self.users = True
            self.asked |= _TELLING.intersection(names_in(value.__code__)) if type(value) is FunctionType else set()
        if node.kind in ("function", "class"):
            held = vars(value) if type(value) is FunctionType else namespace(value)
            self.orders[f"{node.facts.get('module')}.{node.facts.get('qualname')}"] = held

    def told(self) -> dict[str, Any]:
        """What the code may learn of what was reached, where it asks for it: orders of attributes, states of locks."""
        found: dict[str, Any] = {}
        if self.asked - {"locked"}:
            # By the key alone: two mappings do not compare.
            found["order of attributes"] = tuple(
                (name, tuple(held)) for name, held in sorted(self.orders.items(), key=lambda item: item[0])
            )
        if "locked" in self.asked and self.locks:
            found["state of locks"] = tuple(sorted(self.locks))
        return found


@dataclass(frozen=True)
class _Place:
    """How an object was reached, for messages."""

    edge: Edge
    owner: str
    before: _Place | None

    def __str__(self) -> str:
        step = f"{self.edge.kind} `{self.edge.name}`" if self.edge.name else self.edge.kind
        here = f"{step} of `{self.owner}`"
        return f"{here}, reached by {self.before}" if self.before else here


class Walk:
    """One traversal. sets: ids of the sets whose items are being told apart, outermost first."""

    def __init__(self, values: Values | None, reach: _Reach, sets: tuple[int, ...] = ()) -> None:
        self._values, self._reach, self._sets = values, reach, sets
        self._numbers: dict[int, str] = {}
        self._alive: list[object] = []
        self._waiting: deque[tuple[object, Node | None, _Place | None]] = deque()
        self._part, self._count = "", 0
        self._out: list[bytes] = []

    def identity(self, root: object, place: _Place | None = None) -> Identity:
        """The identity of `root`; `place` says where it was found."""
        data = encode(root)
        node = None if data is None else Node("value", {"value": digest(data)})
        node = node or self._node(root, place)
        self._number(root)
        parts = {"kind": node.kind, **node.facts}
        whole = [text(sys.implementation.cache_tag or ""), *(sized("fact", text(k), text(v)) for k, v in parts.items())]
        for edge in node.edges:
            self._part, self._count, self._out = edge.label, 0, []
            self._visit(edge.value, _Place(edge, node.name, place))
            self._drain()
            found = digest(b"".join(self._out))
            whole.append(sized("edge", text(edge.label), found.encode()))
            plain = type(edge.value) in (type(None), bool, int, float)
            parts[edge.label] = repr(edge.value) if plain else found
        return Identity(digest(b"".join(whole)), parts)

    def _node(self, obj: object, place: _Place | None) -> Node:
        known = _looked(self._values, obj, place) if self._values else None
        node = _looked(describe, obj, place) if known is None else _given(known)
        self._reach.add(obj, node)
        return node

    def _number(self, obj: object) -> str:
        number, self._count = f"{self._part}#{self._count}", self._count + 1
        self._numbers[id(obj)] = number
        self._alive.append(obj)  # an id is only good while its object lives
        return number

    def _visit(self, value: object, place: _Place) -> None:
        self._reach.visits += 1
        if self._reach.visits > _MOST_VISITS:
            raise Unidentified("too much to look at", str(place), "make large data an argument")
        data = encode(value)
        if data is not None:
            if type(value).__module__ != "builtins":
                self._reach.add(value)
            if type(value) is _LOCK:
                self._reach.locks.append(value.locked())
            self._out.append(data)
        elif type(value) is tuple:
            self._out.append(sized("items", len(value).to_bytes(8, "little")))
            for i, item in enumerate(value):
                self._visit(item, _Place(Edge("item", str(i), item), "a tuple", place))
        elif type(value) is frozenset:
            self._out.append(self._unordered(value, place))
        elif (number := self._numbers.get(id(value))) is not None:
            self._out.append(sized("again", text(number)))
        else:
            self._discover(value, place)

    def _discover(self, value: object, place: _Place) -> None:
        known = _looked(self._values, value, place) if self._values else None
        if known is not None:
            self._reach.add(value)
        if isinstance(known, bytes):
            self._out.append(sized("given", known))
            return
        self._waiting.append((value, None if known is None else _given(known), place))
        self._out.append(sized("node", text(self._number(value))))

    def _drain(self) -> None:
        while self._waiting:
            value, node, place = self._waiting.popleft()
            if type(value) is set:
                self._out.append(sized("set", self._unordered(value, place)))
                continue
            node = node or self._node(value, place)
            facts = (sized("fact", text(k), text(v)) for k, v in node.facts.items())
            self._out.append(sized("described", text(node.kind), b"".join(facts), str(len(node.edges)).encode()))
            for edge in node.edges:
                self._out.append(sized("edge", text(edge.label)))
                self._visit(edge.value, _Place(edge, node.name, place))

    def _unordered(self, values: frozenset[object] | set[object], place: _Place | None) -> bytes:
        if id(values) in self._sets:
            return sized("outer set", str(self._sets.index(id(values))).encode())
        found = []
        for value in values:
            inner = Walk(self._values, self._reach, (*self._sets, id(values)))
            found.append(inner.identity(value, _Place(Edge("item", "", value), "a set", place)).digest.encode())
        return sized("unordered", *in_order(values, found))


def _surroundings(reach: _Reach) -> dict[str, object]:
    """What else decides what the code does that was reached: state of the process, and patches inside of libraries."""
    found = process.states(reach.names, reach.users) | reach.told()
    return found | library.patches(reach.packages) if reach.users else found


def _surrounded(found: Identity, values: Values | None, reach: _Reach) -> Identity:
    """`found` together with the surroundings of what was reached, which may reach more."""
    extra: dict[str, str] = {}
    seen = -1
    while seen != len(reach.names):
        seen = len(reach.names)
        for name, value in sorted(_surroundings(reach).items()):
            if name not in extra:
                kind, _, where = name.rpartition(" of ")
                place = _Place(Edge(f"{kind} of", where, value), "this process", None)
                extra[name] = Walk(values, reach).identity(value, place).digest
    if not extra:
        return found
    whole = digest(sized("surrounded", found.digest.encode(), *(text(f"{k} {v}") for k, v in sorted(extra.items()))))
    return Identity(whole, found.parts | extra)


def _looked(look: Callable[[Any], Any], obj: object, place: _Place | None) -> Any:
    """`look(obj)`, and where it was if that cannot be told."""
    try:
        return look(obj)
    except Unidentified as problem:
        raise Unidentified(problem.reason, str(place or ""), problem.remedy) from None
    except (RecursionError, MemoryError, AotCacheError):
        raise
    except Exception as problem:  # user code may run after all: a property of a metaclass, a __getattr__
        trouble = f"{type(problem).__name__}: {problem}"
        reason = f"object of type {type(obj).__name__}, which cannot be looked at ({trouble})"
        raise Unidentified(reason, str(place or "")) from problem


def _given(known: bytes | tuple[bytes, object]) -> Node:
    if isinstance(known, bytes):
        return Node("value", {"value": digest(known)})
    tag, inner = known
    return Node("value", {"value": digest(tag)}, [Edge("parts", "", inner)])


def identity(obj: object, values: Values | None = None) -> Identity:
    """A digest of what `obj` does: equal in every process and on every machine for equal code, else different.

    values: asked first about every object that is not a plain value or container. It returns the object's identity as
    bytes, or as bytes and a further object to follow, or None to leave the object to the rules here.

    What a function is called with is input, not code: methods that it calls on its parameters (or on what it computes)
    and what it reads from files, clocks or the network are not followed. Nor is what installed distributions call and
    hold themselves: name and version stand for it. Of their process-wide state counts what process.py lists; of patches
    inside a package that user code reaches, functions and objects of the user's.

    Raises:
        Unidentified: something that it reaches has no identity; says what and how it was reached.
    """
    try:
        reach = _Reach()
        return _surrounded(Walk(values, reach).identity(obj), values, reach)
    except RecursionError:
        raise Unidentified(f"object of type {type(obj).__name__}, which is nested too deeply") from None
