"""Two libraries of operators that differ in nothing but a number, for programs that load them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The number is read from a text, so that the second library is a copy of the first with another text in it.
SOURCE = """
#include <ATen/ATen.h>
#include <cstdlib>
#include <torch/library.h>
static const char factor[] = "factor 2.0";
at::Tensor scale(const at::Tensor& x) { return x * std::atof(factor + 7); }
TORCH_LIBRARY(snd_native, m) { m.def("scale(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(snd_native, CompositeImplicitAutograd, m) { m.impl("scale", &scale); }
"""
PATHS = "from torch.utils import cpp_extension as c; print(*c.include_paths(), *c.library_paths(), sep='\\n')"


def build(folder: Path) -> None:
    """Write one.so and two.so into `folder`.

    Raises:
        subprocess.CalledProcessError: the C++ compiler failed; its output is on stderr.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source, one = folder / "operators.cpp", folder / "one.so"
    source.write_text(SOURCE)
    listed = subprocess.run([sys.executable, "-c", PATHS], capture_output=True, text=True, check=True)
    paths = [path for line in listed.stdout.splitlines() for path in (f"-I{line}", f"-L{line}")]
    flags = ["-shared", "-fPIC", "-O0", "-std=c++20", *paths, "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", str(source), "-o", str(one), *flags], check=True)
    (folder / "two.so").write_bytes(one.read_bytes().replace(b"factor 2.0", b"factor 3.0"))
