"""Joint graphs in the store, each under its graph's key without the offload plan: another budget needs no other trace."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..artifact import envelope
from ..errors import EnvelopeError, NotSerializable
from ..key.offload import base
from ..key.parts import CacheKey
from ..key.state import facts
from ..store.base import Store
from ..torch_compat import aot, moments
from .graph_entries import Pending, check_belongs, entry_name

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger("aot_cache")
PREFIX, KIND = "j-", "joint"
_SECTION = "joint"


def _name(key: CacheKey) -> str:
    """Where the joint graph is whose base key is `key`; there is but one, since shapes are static."""
    return entry_name(key.digest, None, PREFIX)


class Joints:
    """The keeper of joint graphs (see torch_compat.tracing.Keeper) over the store.

    look, write: whether to read and to write; discard: what to do with an entry that is damaged, and when it was found.
    """

    def __init__(
        self,
        look: bool,
        write: Callable[[], bool],
        store: Callable[[], Store],
        fail_open: Callable[..., Any],
        discard: Callable[[str, Exception, float], None],
    ) -> None:
        self._look, self._write, self._store = look, write, store
        self._fail_open, self._discard = fail_open, discard
        self._missed: tuple[GraphModule, Pending] | None = None

    def expect(self, graph: GraphModule, notes: Mapping[str, Any]) -> None:
        """This graph had no entry, so it will be compiled now."""
        pending: Pending = notes["pending"]
        # Shapes that are not static may be guarded on while the graph is traced.
        self._missed = None if pending.symbols else (graph, pending)

    def forget(self) -> None:
        self._missed = None

    # -- the keeper ----------------------------------------------------------------------------------------------------

    def source(self, ticket: str) -> GraphModule | None:
        pending = self._pending(ticket)
        return self._missed[0] if pending and self._missed else None

    def find(self, ticket: str, given: str) -> bytes | None:
        pending = self._pending(ticket)
        if pending is None or not self._look:
            return None
        key = base(pending.key)
        name = _name(key)

        def read() -> bytes | None:
            data = self._store().get(name)
            if data is None:
                return None
            opened = envelope.Envelope(data)
            check_belongs(opened.manifest, key)
            if opened.manifest.kind != KIND:
                raise EnvelopeError(f"{name} holds a {opened.manifest.kind}")
            return bytes(opened.section(_SECTION)) if opened.manifest.extra.get("given") == given else None

        try:
            return read()
        except Exception as error:
            self._drop(name, error)
            return None

    def used(self, ticket: str) -> None:
        if pending := self._pending(ticket):
            log.info("aot_cache: the joint graph of %s is in the cache: it is planned without a trace", pending.name)
        self.forget()

    def refuse(self, ticket: str, error: Exception) -> None:
        if pending := self._pending(ticket):
            wrong = EnvelopeError(f"the joint graph cannot be rebuilt: {type(error).__name__}: {error}")
            self._drop(_name(base(pending.key)), wrong)

    def keep(self, ticket: str, given: str, capture: bytes, seconds: float) -> None:
        pending = self._pending(ticket)
        self.forget()
        # What is stored was traced under what the key says.
        if pending is None or not self._write() or pending.handed is None or moments.handed() is not pending.handed:
            return
        key = base(pending.key)
        made = envelope.Manifest(
            key=key.digest,
            parts=key.parts,
            name=pending.name,
            kind=KIND,
            guards=None,
            created=time.time(),
            seconds={"trace": seconds},
            facts=facts(),
            extra={"given": given},
        )

        def publish() -> None:
            self._store().put(_name(key), envelope.pack(made, {_SECTION: capture}))

        self._fail_open(publish, lambda _: None, key.digest)

    def unkept(self, ticket: str, error: Exception) -> None:
        known = isinstance(error, NotSerializable)
        log.debug("aot_cache: a joint graph is not kept: %s", error, exc_info=not known)
        self.forget()

    def _drop(self, name: str, error: Exception) -> None:
        started = time.perf_counter()
        self._fail_open(lambda: self._discard(name, error, started), lambda _: None, name)

    def _pending(self, ticket: str) -> Pending | None:
        if self._missed is None or aot.key_of(ticket) != aot.PREFIX + self._missed[1].key.digest:
            return None
        return self._missed[1]
