"""The stored graph that is most like a given one, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import AotCacheError
from ..key.parts import KeyPart, diff, nearest
from ..store.base import Store
from .envelope import Envelope, Manifest

# A store gives whole values only, so that reading the manifests of all entries could take minutes.
LOOKED_AT = 300
_NAMED = 20


def recent(store: Store, prefix: str) -> Iterator[Manifest]:
    """The manifests of the LOOKED_AT entries that were used last, unordered; what cannot be read is left out.

    `store` should be one whose `get` leaves no mark: looking is no use of an entry.
    """
    for stored in sorted(store.entries(prefix), key=lambda entry: entry.used, reverse=True)[:LOOKED_AT]:
        try:
            data = store.get(stored.name)
            if data is not None:
                yield Envelope(data).manifest
        except AotCacheError:
            continue


def differences(store: Store, prefix: str, name: str, parts: Iterable[KeyPart]) -> str:
    """In one line, what differs between a key, of a graph called `name`, and the entry of another key most like it."""
    near = nearest(name, parts := tuple(parts), recent(store, prefix))
    if near is None:
        return "there is no entry of another key"
    changes = [str(change) for change in diff(near.parts, parts)]
    more = [f"and {len(changes) - _NAMED} more"] if len(changes) > _NAMED else []
    return f"nearest entry {near.key} differs in " + "; ".join(changes[:_NAMED] + more)
