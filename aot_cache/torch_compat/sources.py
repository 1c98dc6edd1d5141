"""Files of the installed torch that somebody edited: its version does not stand for them any more."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import os
from collections.abc import Iterator

import torch

# What turns a graph into code, and the libraries that run it.
_FOLDERS = (
    "_decomp _dynamo _functorch _functorch/_aot_autograd _higher_order_ops _inductor _inductor/codegen "
    "_inductor/codegen/cuda _inductor/fx_passes _inductor/fx_passes/serialized_patterns _inductor/kernel "
    "_inductor/runtime _inductor/template_heuristics _library _logging _prims _prims_common _refs _subclasses "
    "fx fx/experimental fx/passes lib"
).split()


@functools.cache
def edited() -> dict[str, str]:
    """Digests of the files that are not as the distribution brought them, by path below torch.

    Only files that changed after the distribution's file list was written are read. Where there is no such list (a
    build from source), nothing is known, and nothing is returned.
    """
    try:
        distribution = importlib.metadata.distribution("torch")
        record = distribution.locate_file(f"torch-{distribution.version}.dist-info/RECORD")
        written = os.stat(str(record)).st_mtime_ns
    except (importlib.metadata.PackageNotFoundError, OSError):
        return {}
    root = os.path.dirname(torch.__file__)
    suspects = [path for path, modified in _files(root) if modified > written]
    return changed(root, suspects, distribution.read_text("RECORD") or "") if suspects else {}


def changed(root: str, paths: list[str], record: str) -> dict[str, str]:
    """Those of `paths`, below `root`, whose SHA-256 is not the one in `record`."""
    listed = dict(line.rsplit(",", 2)[:2] for line in record.splitlines() if line.count(",") >= 2)
    found = {}
    for path in paths:
        name = f"{os.path.basename(root)}/{os.path.relpath(path, root).replace(os.sep, '/')}"
        with open(path, "rb") as file:
            digest = (
                hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
            )
        text = "sha256=" + base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
        if listed.get(name) not in (None, "", text):
            found[name] = text
    return found


def _files(root: str) -> Iterator[tuple[str, int]]:
    """Code in the folders that matter, with the time of its last change in nanoseconds."""
    for folder in ("", *_FOLDERS):
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                for entry in found:
                    if entry.name.endswith((".py", ".so", ".dll", ".dylib")):
                        yield entry.path, entry.stat().st_mtime_ns
        except FileNotFoundError:  # not in this release
            continue
