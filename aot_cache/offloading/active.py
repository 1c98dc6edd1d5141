"""Which block of `aot_cache.offload` the caller is in. Apart, so that asking costs nothing where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session

_SESSION: ContextVar[Session | None] = ContextVar("the innermost block of offload", default=None)


def session() -> Session | None:
    """That of the innermost block in this thread; None outside of any."""
    return _SESSION.get()


@contextmanager
def entered(session: Session) -> Iterator[None]:
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)
