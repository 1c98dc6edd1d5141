"""Portable identity of Python callables: what code runs, whatever process, path, user or hash seed runs it."""

from __future__ import annotations

from .library import once
from .node import Unidentified
from .walk import Identity, identity

__all__ = ["Identity", "Unidentified", "identity", "once"]
