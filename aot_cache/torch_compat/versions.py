"""Which torch this is, and whether its seams are the ones we know."""

from __future__ import annotations

import functools
import importlib.metadata
import re

import torch

from ..errors import HookMismatch

SUPPORTED = ((2, 11), (2, 16))
"""First supported minor release, first unsupported one."""


def version() -> tuple[int, int]:
    """Major and minor number of the installed torch."""
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if match is None:
        raise HookMismatch(f"torch {torch.__version__} has no version number we can read")
    return int(match[1]), int(match[2])


def require_supported() -> None:
    """Raises HookMismatch if this torch is outside the supported range."""
    low, high = SUPPORTED
    if not low <= version() < high:
        wanted = f"{low[0]}.{low[1]} to before {high[0]}.{high[1]}"
        raise HookMismatch(f"torch {torch.__version__} is not supported: aot_cache works with torch {wanted}")


@functools.cache
def build() -> dict[str, str]:
    """The facts that name this build of torch: version, git revision, CUDA and ROCm, digest of its file list.

    The file list (RECORD) of an installed wheel holds a SHA-256 of every file, C++ libraries included.
    """
    facts = {
        "torch": str(torch.__version__),
        "git": str(torch.version.git_version),
        "cuda": str(torch.version.cuda),
        "hip": str(torch.version.hip),
    }
    try:
        record = importlib.metadata.distribution("torch").read_text("RECORD")
    except importlib.metadata.PackageNotFoundError:
        record = None
    facts["files"] = _record_digest(record) if record else "unknown"
    return facts


def _record_digest(record: str) -> str:
    import hashlib

    # Bytecode, installer files and scripts (which name their interpreter) differ between installations of one wheel.
    lines = [
        line
        for line in record.splitlines()
        if "sha256=" in line and ".pyc," not in line and ".dist-info/" not in line and not line.startswith("../")
    ]
    return hashlib.blake2b("\n".join(sorted(lines)).encode(), digest_size=16).hexdigest()
