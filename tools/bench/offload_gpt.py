"""A stack of GPT blocks as a planner sees it: activations only, seconds by a roofline, with a knob of recomputation.

A layer in mode 0 saves all that its backward reads. Each mode after it makes more anew, cheapest by the byte first: the
output of GELU, those of layer norms, what attention reads, what GELU reads, ..., until only its own input is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aot_cache.offloading import costs
from aot_cache.offloading.bound import compute
from aot_cache.offloading.place import unmoved
from aot_cache.offloading.problem import BACKWARD, START, Problem, Step, Storage
from aot_cache.offloading.schedule import Link

TABLE = "roofline-gpu-1"
BATCH, LENGTH, WIDTH = 8, 1024, 1024
TOKENS = BATCH * LENGTH
UNIT = TOKENS * WIDTH * 2  # Bytes of one activation of the model's width, in bfloat16.


@dataclass(frozen=True)
class Op:
    """One node of a block: widths of its output, what it reads, and what its backward reads."""

    name: str
    width: int
    reads: tuple[str, ...]
    needs: tuple[str, ...] = ()
    flops: float = 0.0


MATMUL = 2.0 * TOKENS * WIDTH * WIDTH
BLOCK = (
    Op("ln1", 1, ("x",), ("x",)),
    Op("qkv", 3, ("ln1",), ("ln1",), 3 * MATMUL),
    Op("attn", 1, ("qkv",), ("qkv", "attn"), 2.0 * TOKENS * LENGTH * WIDTH),
    Op("proj", 1, ("attn",), ("attn",), MATMUL),
    Op("add1", 1, ("x", "proj")),
    Op("ln2", 1, ("add1",), ("add1",)),
    Op("fc1", 4, ("ln2",), ("ln2",), 4 * MATMUL),
    Op("gelu", 4, ("fc1",), ("fc1",)),
    Op("fc2", 1, ("gelu",), ("gelu",), 4 * MATMUL),
    Op("x", 1, ("add1", "fc2")),
)
NEEDED = {name for op in BLOCK for name in op.needs} - {"x"}
CHEAPEST_FIRST = (("gelu",), ("ln1", "ln2"), ("qkv",), ("fc1",), ("add1",), ("attn",))
MODES = tuple(frozenset(name for names in CHEAPEST_FIRST[:n] for name in names) for n in range(len(CHEAPEST_FIRST) + 1))
assert MODES[-1] == NEEDED
WIDTHS = {op.name: op.width for op in BLOCK}


@dataclass
class _Life:
    """Steps of one storage, as indices; -1 where there is none."""

    name: str
    bytes: int
    produced: int
    last_forward: int = -1
    uses: list[int] = field(default_factory=list)


@dataclass
class _Graphs:
    forward: list[Step] = field(default_factory=list)
    backward: list[Step] = field(default_factory=list)
    lives: dict[str, _Life] = field(default_factory=dict)

    def use(self, name: str) -> None:
        self.lives[name].uses.append(len(self.backward))

    def make(self, name: str, width: int, produced: int) -> None:
        self.lives[name] = _Life(name, width * UNIT, produced)


def gpt(modes: Sequence[int]) -> Problem:
    """A stack of len(modes) layers, each with its mode."""
    graphs = _Graphs()
    graphs.make("x_0", 1, START)
    for layer in range(len(modes)):
        _forward(graphs, layer)
    graphs.forward.append(Step("output", 0.0))
    graphs.make(f"grad_x_{len(modes)}", 1, BACKWARD)
    for layer in reversed(range(len(modes))):
        _recompute(graphs, layer, MODES[modes[layer]])
        _backward(graphs, layer, MODES[modes[layer]])
    graphs.backward.append(Step("output", 0.0))
    # The gradient of the output is there when the backward begins.
    graphs.lives[f"grad_x_{len(modes)}"].uses.insert(0, 0)
    storages = tuple(map(_storage, graphs.lives.values()))
    return Problem(tuple(graphs.forward), tuple(graphs.backward), storages, "forward", "backward")


def sweep(layers: int, stride: int) -> list[tuple[float, Problem]]:
    """Candidates from no recomputation (1) to all (0), each with `stride` more of the first layers in the next mode.

    The last layer saves all: what it made anew would be there again at the peak, which is where its backward begins.
    """
    top = (layers - 1) * (len(MODES) - 1)
    found = []
    for level in range(0, top + 1, stride):
        mode, more = divmod(level, max(1, layers - 1))
        found.append((1 - level / max(1, top), gpt([mode + (i < more) for i in range(layers - 1)] + [0])))
    return found


def shortest(layers: int, link: Link, near: int) -> float:
    """Seconds that a step takes at least, whatever is recomputed and whatever moves.

    When the backward of the last layer is where the most is near, all that does not fit has moved, which takes the link
    its time in the forward, or is made anew later, for the seconds of its operator. Cheapest by the byte first, and the
    last by the part. What the last layer makes anew is there already.
    """
    base = gpt([0] * layers)
    left = float(max(map(max, unmoved(base))) - near)
    begin = next(i for i, step in enumerate(base.forward) if step.name == "attn_0")  # Before it nothing is done with.
    prices = [(0.0, link.d2h * sum(step.seconds for step in base.forward[begin + 1 :])), (1 / link.d2h, left)]
    for op in BLOCK:
        if op.name in NEEDED:
            # What nothing saves that it reads is made anew with it.
            again = [op, *(other for other in BLOCK if other.name in op.reads and other.name not in {"x", *NEEDED})]
            prices.append((sum(map(_seconds, again)) / (op.width * UNIT), (layers - 1.0) * op.width * UNIT))
    found = compute(base)
    for price, most in sorted(prices):
        found += price * min(left, most)
        left -= min(left, most)
    return found


def _seconds(op: Op, times: float = 1.0) -> float:
    moved = UNIT * (op.width + sum(WIDTHS[name] for name in op.reads))
    return costs.table(TABLE).seconds(op.flops * times, moved * times)


def _full(name: str, layer: int, output: bool = False) -> str:
    """The storage `name` of a layer; its input is the output of the one before."""
    return f"x_{layer + output}" if name == "x" else f"{name}_{layer}"


def _forward(graphs: _Graphs, layer: int) -> None:
    for op in BLOCK:
        index, name = len(graphs.forward), _full(op.name, layer, output=True)
        graphs.make(name, op.width, index)
        for read in op.reads:
            graphs.lives[_full(read, layer)].last_forward = index
        graphs.forward.append(Step(name, _seconds(op)))


def _recompute(graphs: _Graphs, layer: int, again: frozenset[str]) -> None:
    """The steps that make what is needed and not saved, with what they read on the way."""
    made = set(again)
    for op in reversed(BLOCK[:-1]):
        if op.name in made:
            made |= {name for name in op.reads if name == "proj" or (name in again and name != "x")}
    for op in BLOCK[:-1]:
        if op.name in made:
            for read in op.reads:
                graphs.use(f"again_{read}_{layer}" if read in made else _full(read, layer))
            graphs.make(f"again_{op.name}_{layer}", op.width, BACKWARD)
            graphs.use(f"again_{op.name}_{layer}")
            graphs.backward.append(Step(f"again_{op.name}_{layer}", _seconds(op)))


def _backward(graphs: _Graphs, layer: int, again: frozenset[str]) -> None:
    """One step an operator: it reads the gradient of its output and what it needs, and makes the gradients it reads."""
    for op in reversed(BLOCK):
        graphs.use("grad_" + _full(op.name, layer, output=True))
        for need in op.needs:
            graphs.use(f"again_{need}_{layer}" if need in again else _full(need, layer))
        for read in op.reads:
            name = "grad_" + _full(read, layer)
            if name not in graphs.lives:
                graphs.make(name, WIDTHS[read], BACKWARD)
            graphs.use(name)
        graphs.backward.append(Step(f"back_{_full(op.name, layer, output=True)}", _seconds(op, 2.0)))


def _storage(life: _Life) -> Storage:
    uses = (life.last_forward, min(life.uses, default=-1), max(life.uses, default=-1))
    if life.produced == BACKWARD:
        return Storage(life.name, life.bytes, "other", BACKWARD, *uses)
    if life.produced == START:
        return Storage(life.name, life.bytes, "other", START, *uses, refused="an input of the graph")
    return Storage(life.name, life.bytes, "act", life.produced, *uses, eligible=bool(life.uses))
