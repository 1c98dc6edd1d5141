"""The machine and the process: environment variables that reach the compiled code."""

from __future__ import annotations

from table import Change, Expect, program

CPU = "CPU features"

# With code generation, which asks for the instruction set.
KERNEL = program("""
def run():
    yield torch.compile(lambda x: torch.mm(x, x))(torch.ones(4, 4))
""")


def _variable(name: str, row: str, variable: str, value: str) -> Change:
    return Change(name, row, Expect.OTHER_KEY, KERNEL, KERNEL, {variable: value}, equal=True)


CHANGES = [
    _variable("cpu_capability", CPU, "ATEN_CPU_CAPABILITY", "avx2"),
    _variable("compiler_flags", CPU, "CXXFLAGS", "-O1"),
    _variable("inductor_variable", "Inductor and functorch configuration", "TORCHINDUCTOR_SHAPE_PADDING", "0"),
]
