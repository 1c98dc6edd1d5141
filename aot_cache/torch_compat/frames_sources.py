"""Dynamo's sources (where a value was found: `L['self'].config.n_layer`) as plain data, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Sources that read what they name, whenever they are asked, from the frame and its globals alone. Left out are those
# that stand for something of one process: weak references, temporaries, streams, random values, objects by number.
_KNOWN = frozenset(
    "AttrSource CallFunctionNoArgsSource CellContentsSource ClosureSource CodeSource ConstDictKeySource "
    "ConvertIntSource DataclassFieldsSource DefaultsSource DictGetItemSource DictSubclassGetItemSource "
    "GenericAttrSource GetItemSource GlobalSource GlobalStateSource GradSource ImportSource ListGetItemSource "
    "LocalSource NamedTupleFieldsSource NegateSource NNModuleSource NumpyTensorSource ParamBufferSource ShapeEnvSource "
    "SkipGuardSource TensorPropertySource TupleIteratorGetItemSource TypeDictSource TypeMROSource TypeSource "
    "UnspecializedBuiltinNNModuleSource UnspecializedNNModuleSource UnspecializedParamBufferSource".split()
)
_PLAIN = (type(None), bool, int, float, str)


class UnknownSource(Exception):
    """A source cannot be written down; says which."""


class Table:
    """Sources as rows `[class name, {field: value}]`, each once, after the rows that it refers to."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._known: dict[Any, int] = {}

    @classmethod
    def of(cls, rows: list[list[Any]]) -> Table:
        """A table that goes on after these rows."""
        table = cls()
        table.rows = rows
        table._known = {source: number for number, source in enumerate(rebuild(rows, {}))}
        return table

    def add(self, source: Any) -> int:
        """The number of the row of `source`.

        Raises:
            UnknownSource: it, or one that it is based on, is not of a known kind.
        """
        number = self._known.get(source)
        if number is None:
            kind = type(source)
            if kind.__name__ not in _KNOWN or kind is not getattr(_module(), kind.__name__, None):
                raise UnknownSource(f"a source of kind {kind.__name__} ({describe(source)})")
            fields = {
                f.name: self._field(getattr(source, f.name), source) for f in dataclasses.fields(source) if f.init
            }
            self.rows.append([kind.__name__, fields])
            number = self._known[source] = len(self.rows) - 1
        return number

    def _field(self, value: Any, owner: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, torch._guards.Source):
            return {"source": self.add(value)}
        if type(value) is frozenset and all(type(item) is str for item in value):
            return {"frozenset": sorted(value)}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if type(value) is tuple:
            return {"tuple": [self._field(item, owner) for item in value]}
        if isinstance(value, _module().TensorProperty):
            return {"property": value.name}
        raise UnknownSource(f"a source with a {type(value).__name__} ({describe(owner)})")


def rebuild(rows: Sequence[Sequence[Any]], names: Mapping[str, str]) -> list[Any]:
    """The sources of a table's rows; `names` renames globals, old to new.

    Raises:
        UnknownSource: a row is not one that `Table` writes.
    """
    made: list[Any] = []
    for kind, fields in rows:
        if kind not in _KNOWN:
            raise UnknownSource(f"a source of kind {kind}")
        values = {name: _value(value, made) for name, value in fields.items()}
        if kind == "GlobalSource":
            values["global_name"] = names.get(values["global_name"], values["global_name"])
        cls = getattr(_module(), kind)
        if kind == "ImportSource":  # its constructor installs a guard in the trace that is under way
            source = object.__new__(cls)
            for name, value in values.items():
                object.__setattr__(source, name, value)
        else:
            source = cls(**values)
        made.append(source)
    return made


def _value(value: Any, made: Sequence[Any]) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, inner), *more = value.items()
    if more:
        raise UnknownSource(f"a field {value!r}")
    if kind == "source":
        return made[inner]
    if kind == "frozenset":
        return frozenset(inner)
    if kind == "bytes":
        return bytes.fromhex(inner)
    if kind == "tuple":
        return tuple(_value(item, made) for item in inner)
    if kind == "property":
        return _module().TensorProperty[inner]
    raise UnknownSource(f"a field of kind {kind}")


def describe(source: Any) -> str:
    """The source as Python text, for a person."""
    try:
        return str(source.name)
    except Exception:  # temporaries have no name
        return type(source).__name__


def read(source: Any, scope: Mapping[str, Any], cache: dict[Any, Any]) -> Any:
    """What the source stands for; `scope` holds the locals as "L" and the globals as "G". Raises whatever it raises."""
    from torch._dynamo.guards import _get_closure_vars

    return source.get_value(scope, _get_closure_vars(), cache)


def _module() -> Any:
    import torch._dynamo.source as module

    return module
