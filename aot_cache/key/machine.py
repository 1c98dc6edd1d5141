"""What of a machine decides whether entries can hit on it, as far as that is known without torch. Pure: no torch."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

# As torch/version.py spells them, and as the key part `environment` does.
_TORCH = {"__version__": "torch.torch", "git_version": "torch.git", "cuda": "torch.cuda", "hip": "torch.hip"}
_VECTOR = tuple("amx avx fma f16c sse4_2 asimd neon sve bf16 fphp i8mm vx altivec vsx".split())

_V2 = frozenset("cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3".split())
_V3 = _V2 | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())
LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V3 | {f"avx512{part}" for part in "f bw cd dq vl".split()}}
"""What the CPUs of a level have, by the names in /proc/cpuinfo."""


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
def cpu_flags() -> frozenset[str] | None:
    """What the kernel says that this CPU has; None where that cannot be told (no /proc/cpuinfo)."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    line = re.search(r"^(?:flags|Features|isa|features)\s*:\s*(.*)$", text, re.MULTILINE)
    return None if line is None else frozenset(line[1].split())


def vector_features() -> str:
    """The vector and matrix instructions that the kernel reports: they decide which source code Inductor writes.

    What else `-march=native` code needs is checked where an entry's libraries are loaded.
    """
    flags = cpu_flags()
    if flags is None:
        return platform.processor()
    return " ".join(sorted(flag for flag in flags if flag.startswith(_VECTOR)))


def lacking(level: str) -> list[str]:
    """What of a CPU level, a name in LEVELS, this machine does not have; for people."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return [f"all of it: the machine is {platform.machine()}"]
    return sorted(LEVELS[level] - (cpu_flags() or frozenset()))


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
