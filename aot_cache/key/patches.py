"""Monkey patches of torch's compiler: whose they are and what code they have."""

from __future__ import annotations

import os
from types import FunctionType

from ..torch_compat import patched
from .callables.bytecode import read
from .callables.origin import of_file


def patches(where: tuple[str, ...] = patched.COMPILER) -> dict[str, str]:
    """Digests of the code of functions that user code put into torch's compiler, by where they stand.

    Only the code: patches that count or time hold values that are different at every compile. What an installed
    distribution puts there is left to the distribution.
    """
    found = patched.functions(_is_users, where)
    return {f"patch of {place}": read(function.__code__).digest for place, function in found.items()}


def _is_users(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    written = os.path.isabs(file) or function.__globals__.get("__name__") == "__main__"
    return written and of_file(file) is None
