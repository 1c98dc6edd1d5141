"""What can be said of one code object for good: its digest, and the names that it looks up outside itself.

Both are memoised, since a code object never changes.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

from ..parts import digest
from .leaf import encode, sized, text
from .node import Unidentified, type_name

# Attributes that an identity leaves out, or through which code reaches what bytecode does not show.
UNSEEN = frozenset(
    "__doc__ __annotations__ __globals__ __subclasses__ __builtins__ f_globals f_locals f_back f_code co_filename "
    "co_firstlineno read_text read_bytes _version".split()
)
_SKIPPED = frozenset("EXTENDED_ARG CACHE PUSH_NULL NOP RESUME PRECALL NOT_TAKEN COPY_FREE_VARS".split())
_GLOBAL = frozenset("LOAD_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS".split())
_ATTRIBUTE = frozenset("LOAD_ATTR LOAD_METHOD STORE_ATTR DELETE_ATTR".split())
_SUBSCRIPT = frozenset("BINARY_SUBSCR STORE_SUBSCR DELETE_SUBSCR".split())
_CALLS = frozenset("CALL CALL_FUNCTION CALL_METHOD".split())
_SIMPLE = frozenset("LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_BORROW LOAD_GLOBAL LOAD_DEREF".split())
_LOOKUPS = ("getattr", "hasattr")


class Use(NamedTuple):
    """`name.attrs...` is loaded, and then used with the string constant `const` ("" if there is none).

    how: "item" (`x[const]`), "in" (`const in x`), "argument" (`x(const, ...)`), "getattr" (`getattr(x, const)`) or "".
    """

    name: str
    attrs: tuple[str, ...] = ()
    const: str = ""
    how: str = ""


class Import(NamedTuple):
    """`import module` (attr None) or `from module import attr`, stored in the variable `bound` ("" if not seen)."""

    module: str
    level: int
    attr: str | None
    bound: str


@dataclass(frozen=True)
class Code:
    """uses: of global names; locals: of local and closure variables; unseen: members of UNSEEN that it reads."""

    digest: str
    uses: tuple[Use, ...]
    locals: tuple[Use, ...]
    imports: tuple[Import, ...]
    unseen: tuple[str, ...]


_memo: dict[int, tuple[weakref.ref[CodeType], Code]] = {}


def read(code: CodeType) -> Code:
    """The facts of `code` and of all code inside it."""
    key = id(code)
    known = _memo.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    uses, variables, imports, unseen = set(), set(), set(), set()
    found = _Scan(code)
    for scan in (found, *(read(const) for const in code.co_consts if isinstance(const, CodeType))):
        uses.update(scan.uses)
        variables.update(scan.locals)
        imports.update(scan.imports)
        unseen.update(scan.unseen)
    facts = Code(
        digest(_encode_code(code)),
        tuple(sorted(uses)),
        tuple(sorted(variables)),
        tuple(sorted(imports, key=repr)),
        tuple(sorted(unseen)),
    )
    _memo[key] = (weakref.ref(code, lambda ref: _memo.pop(key, None)), facts)
    return facts


def _encode_code(code: CodeType) -> bytes:
    """Everything of `code` that can change what it does: not its file, lines and columns."""
    if "__firstlineno__" in code.co_names:
        body = _class_body(code)
    else:
        # co_code, not _co_code_adaptive: it is the same before and after the interpreter specialised the code.
        body = sized("body", code.co_code, *map(_encode_const, code.co_consts))
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    table = getattr(code, "co_exceptiontable", b"")
    return sized("code", text(code.co_name), body, table, *(encode(part) or b"" for part in (*names, counts)))


def _encode_const(const: object) -> bytes:
    if isinstance(const, CodeType):
        return sized("code", read(const).digest.encode())
    data = encode(const)
    if data is None:
        raise Unidentified(f"a code object with a constant of type {type_name(type(const))}")
    return data


def _class_body(code: CodeType) -> bytes:
    # Python 3.13 stores the line of a class and the (unordered) attributes its methods set as constants of its body.
    steps = []
    for step, after in _pairs(_instructions(code)[0]):
        if after is not None and after.argval in ("__firstlineno__", "__static_attributes__"):
            continue
        if step.opcode in dis.hasconst or step.opname == "LOAD_SMALL_INT":
            name = "RETURN_CONST" if step.opname == "RETURN_CONST" else "LOAD_CONST"
            steps.append(sized(name, _encode_const(step.argval)))
        else:
            steps.append(sized(step.opname, str(step.arg).encode()))
    return sized("class", *steps)


def _instructions(code: CodeType) -> tuple[list[dis.Instruction], frozenset[int]]:
    """The instructions that count, and the indices of those that are jumped to."""
    steps: list[dis.Instruction] = []
    targets, jumped = set(), False
    for step in dis.get_instructions(code):
        jumped = jumped or step.is_jump_target
        if step.opname not in _SKIPPED:
            if jumped:
                targets.add(len(steps))
            steps.append(step)
            jumped = False
    return steps, frozenset(targets)


def _pairs(steps: list[dis.Instruction]) -> Iterator[tuple[dis.Instruction, dis.Instruction | None]]:
    return zip(steps, [*steps[1:], None])


class _Scan:
    """One pass over one code object, without the code inside it."""

    def __init__(self, code: CodeType) -> None:
        self.uses: set[Use] = set()
        self.locals: set[Use] = set()
        self.imports: set[Import] = set()
        self.unseen: set[str] = set()
        self._steps, self._targets = _instructions(code)
        self._cells, self._outer = frozenset(code.co_cellvars + code.co_freevars), frozenset(code.co_freevars)
        for index, step in enumerate(self._steps):
            if step.opname in _GLOBAL:
                self.uses.add(self._use(index, step.argval))
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in UNSEEN:
                self.unseen.add(step.argval)
            if step.opname == "IMPORT_NAME":
                self._import(index)
            else:
                self._local(index, step)

    def _at(self, index: int) -> dis.Instruction | None:
        return self._steps[index] if 0 <= index < len(self._steps) else None

    def _local(self, index: int, step: dis.Instruction) -> None:
        name = step.opname
        if "LOAD_" not in name or not ("_FAST" in name or "DEREF" in name or name == "LOAD_NAME"):
            return
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if name.startswith("STORE_FAST_"):
            names = names[1:]
        if "_FAST" in name:  # a cell loaded so is only handed to inner code, whose own loads are seen there
            names = tuple(n for n in names if n not in self._cells)
        for earlier in names[:-1]:
            self.locals.add(Use(earlier))
        for last in names[-1:]:
            self.locals.add(self._use(index, last))

    def _use(self, index: int, name: str) -> Use:
        start, attrs, index = index, [], index + 1
        while (step := self._at(index)) is not None and step.opname in _ATTRIBUTE:
            attrs.append(step.argval)
            index += 1
        const = step.argval if step and step.opname == "LOAD_CONST" and type(step.argval) is str else ""
        before = self._at(start - 1)
        if before is None or start in self._targets:  # another value may be on the stack
            return Use(name, tuple(attrs), *self._const(index, const))
        if before.opname in _GLOBAL and before.argval in _LOOKUPS:
            const = const if self._called(index, 2) else ""
            self.unseen.update(UNSEEN & {const})
            return Use(name, tuple(attrs), const, "getattr")
        if step is not None and step.opname == "CONTAINS_OP" and type(before.argval) is str:
            if before.opname == "LOAD_CONST":
                return Use(name, tuple(attrs), before.argval, "in")
        return Use(name, tuple(attrs), *self._const(index, const))

    def _const(self, index: int, const: str) -> tuple[str, str]:
        """How the constant string at `index` is used together with what was loaded before it."""
        after = self._at(index + 1)
        if const and after is not None:
            if after.opname in _SUBSCRIPT or (after.opname == "BINARY_OP" and after.argrepr == "[]"):
                return const, "item"
            if self._called(index, 1):
                return const, "argument"
        return "", ""

    def _called(self, index: int, arguments: int) -> bool:
        """Whether the constant at `index` is the last argument of so many, or the last but one before a default."""
        after, then = self._at(index + 1), self._at(index + 2)
        if after is not None and after.opname in _CALLS:
            return after.argval == arguments
        simple = after is not None and after.opname in _SIMPLE
        return simple and then is not None and then.opname in _CALLS and then.argval == arguments + 1

    def _import(self, index: int) -> None:
        step, level, wanted = self._steps[index], self._steps[index - 2].argval, self._steps[index - 1].argval
        module = step.argval
        after = self._at(index + 1)
        if wanted:
            found = 0
            for place, later in enumerate(self._steps[index + 1 :], index + 1):
                if later.opname != "IMPORT_FROM" and not later.opname.startswith("STORE_"):
                    break
                if later.opname == "IMPORT_FROM":
                    found += 1
                    self.imports.add(Import(module, level, later.argval, self._stored(place + 1)))
            if found != len(wanted):
                self.imports.add(Import(module, level, None, ""))
        elif after is not None and after.opname == "IMPORT_FROM":  # import a.b.c as d
            while after is not None and not after.opname.startswith("STORE_"):
                index += 1
                after = self._at(index)
            self.imports.add(Import(module, level, None, self._stored(index)))
        else:
            self.imports.add(Import(module.partition(".")[0], level, None, self._stored(index + 1)))
            if "." in module:
                self.imports.add(Import(module, level, None, "-"))

    def _stored(self, index: int) -> str:
        step = self._at(index)
        # Stored in a global, a class or an outer function, it is used where this pass does not see it.
        if step is None or step.opname not in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_LOAD_FAST"):
            return ""
        name = step.argval[0] if isinstance(step.argval, tuple) else step.argval
        return "" if name in self._outer else name
