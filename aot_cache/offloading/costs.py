"""Named cost tables: what a node costs by the roofline, without a clock. Pure: no torch.

A name stands for its numbers forever: a schedule records only the name. Other numbers get another name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Roofline:
    """A machine: floating-point operations and bytes of memory per second, and the seconds that any node takes."""

    flops: float
    bandwidth: float
    overhead: float

    def seconds(self, flops: float, moved: float) -> float:
        """Seconds of a node that computes `flops` and reads and writes `moved` bytes."""
        return max(flops / self.flops, moved / self.bandwidth) + self.overhead


# The name says the machine whose order of magnitude it has; overhead is that of starting a kernel.
TABLES = {
    "roofline-cpu-1": Roofline(flops=200e9, bandwidth=20e9, overhead=2e-6),
    "roofline-gpu-1": Roofline(flops=250e12, bandwidth=1.6e12, overhead=4e-6),
}


def table(name: str) -> Roofline:
    """The cost table of that name.

    Raises:
        KeyError: says which names there are.
    """
    if name not in TABLES:
        raise KeyError(f"no cost table {name!r}: there are {', '.join(TABLES)}")
    return TABLES[name]
