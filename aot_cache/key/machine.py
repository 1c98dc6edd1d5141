"""What of a machine decides whether entries can hit on it, as far as that is known without torch. Pure: no torch."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

# As torch/version.py spells them, and as the key part `environment` does.
_TORCH = {"__version__": "torch.torch", "git_version": "torch.git", "cuda": "torch.cuda", "hip": "torch.hip"}
_VECTOR = tuple("amx avx fma f16c sse4_2 asimd neon sve bf16 fphp i8mm vx altivec vsx".split())


@functools.cache
def python_facts() -> Mapping[str, str]:
    """This Python, the platform it runs on, and the packages beside torch that take part in a compile."""
    found = {
        "python": f"{sys.implementation.cache_tag} {platform.python_version()} {sysconfig.get_config_var('SOABI')}",
        "machine": f"{platform.system()} {platform.machine()} {sys.byteorder} {sys.maxsize.bit_length()}",
    }
    for name in ("triton", "numpy", "sympy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return MappingProxyType(found)


@functools.cache
def vector_features() -> str:
    """The vector and matrix instructions that the kernel reports: they decide which source code Inductor writes.

    What else `-march=native` code needs is checked where an entry's libraries are loaded.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return " ".join(sorted(flag for flag in flags if flag.startswith(_VECTOR)))


def torch_facts() -> dict[str, str]:
    """The version, git revision, CUDA and ROCm of the installed torch, read from its file; empty without a torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    try:
        tree = ast.parse(Path(spec.origin).with_name("version.py").read_text())
    except (OSError, SyntaxError):
        return {}
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id in _TORCH and isinstance(value, ast.Constant):
            found[_TORCH[target.id]] = str(value.value)
    return found


def here() -> dict[str, str]:
    """What the key part `environment` of an entry made here would say, by the names of its summary, without torch."""
    return {**torch_facts(), **python_facts(), "cpu.vector": vector_features()}
