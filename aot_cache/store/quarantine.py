"""Entries that gave wrong numbers, kept out of reach for whoever wants to know why.

quarantine/<name>         the entry's bytes
quarantine/<name>.json    what was wrong
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .base import check_name, store_errors
from .locks import make_private

_FOLDER = "quarantine"


def put(directory: Path, name: str, data: bytes, report: Mapping[str, Any]) -> Path:
    """Keep an entry with its report, whose path is returned; replaces what was there. Raises StoreError."""
    check_name(name)
    folder = directory / _FOLDER
    path = folder / f"{name}.json"
    with store_errors("write", path):
        make_private(folder)
        for file, content in ((folder / name, data), (path, json.dumps(report, indent=1).encode() + b"\n")):
            _write(file, content)
    return path


def clear(directory: Path, dry_run: bool = False) -> tuple[int, int]:
    """Remove all of it; returns how many files and bytes went, or with `dry_run` would go. Raises StoreError."""
    folder = directory / _FOLDER
    with store_errors("clear", folder):
        try:
            files = [file for file in os.scandir(folder) if file.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return 0, 0
        size = sum(file.stat(follow_symlinks=False).st_size for file in files)
        if not dry_run:
            for file in files:
                os.unlink(file)
        return len(files), size


def _write(file: Path, content: bytes) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    os.replace(temporary, file)
