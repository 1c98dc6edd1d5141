"""The rules of the house as functions on a package directory: each returns what breaks its rule, as lines of text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Higher may import lower. Rooms of one level may not import each other, except for the single files at the bottom.
LEVELS = {
    "errors": 0, "outcome": 0, "settings": 0, "units": 0,
    "torch_compat": 1,
    "offloading": 2,
    "key": 3, "store": 3,
    "artifact": 4,
    "hook": 5, "cli": 5,
    "__init__": 6, "__main__": 6,
    "pytest_plugin": 7,
}  # fmt: skip
# The half of offloading that imports torch; the rest is pure.
_OFFLOADING = ["passes", "transfer", "weights", "operators", "storages", "groups", "names", "handles", "work", "tier_disk", "tier_host", "partition", "joins", "active", "cut", "far", "fusing", "marks", "report", "session", "wishes"]
OUT_OF_REACH = {"cli": ("hook", "torch_compat", *(f"offloading.{name}" for name in _OFFLOADING))}
# What goes through the front door only, as any user's program does.
GUESTS = ("pytest_plugin",)
OWNERS = {"diskcache": "store.disk", "filelock": "store.locks", "pickle": "artifact.codec", "_pickle": "artifact.codec"}
PRIVATE_TORCH = "torch_compat"
PURE = ("errors", "outcome", "settings", "units", "key.parts", "key.machine", "store")
PURE += ("artifact.envelope", "artifact.archive", "artifact.frame_view")
PURE += ("offloading.problem", "offloading.fields", "offloading.schedule", "offloading.legality", "offloading.simulate")
PURE += ("offloading.place", "offloading.choose", "offloading.planner", "offloading.costs", "offloading.draw")
PURE += ("offloading.record", "offloading.bound", "offloading.improve")
TOP_LEVEL = {"pyproject.toml", "aot_cache", "tests", "tools", "README.md", "LICENSE"}
FILE_LINES, FUNCTION_LINES = 300, 40

# Operators are public whatever their names: torch.ops.aten._softmax.
_PRIVATE = re.compile(r"torch(?!\.ops\.)(\.\w+)*\._(?!_)\w+(\.\w+)*")


@dataclass
class Module:
    """One file: `inner` are the modules of the package that it imports, `outer` every foreign dotted name it uses."""

    name: str
    inner: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]


def read(package: Path) -> dict[str, Module]:
    """The modules of `package` by dotted name without the package's own: `store.disk`; a room's __init__ is `store`."""
    trees = {_name(package, path): ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    modules = {name: Module(name) for name in trees}
    packages = {_name(package, path) for path in package.rglob("__init__.py")}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            for target in _imports(node, package.name, name, name in packages):
                own = _own(target, package.name, modules)
                (modules[name].inner if own else modules[name].outer).add(own or target)
        modules[name].outer |= set(_used(tree))
        modules[name].inner.discard(name)
    return modules


def imports_up(modules: dict[str, Module]) -> list[str]:
    found = []
    for module in modules.values():
        if module.room not in LEVELS:
            found.append(f"{module.name}: {module.room} is not in the picture")
            continue
        for target in sorted(module.inner):
            room = target.partition(".")[0]
            here, there = LEVELS[module.room], LEVELS.get(room, 99)
            if room != module.room and (there > here or there == here > 0):
                found.append(f"{module.name} imports {target}")
    return found


def out_of_reach(modules: dict[str, Module]) -> list[str]:
    """Imports that lead, by any number of steps, from a room to where it may not go."""
    found = []
    for start in (m for m in modules.values() if m.room in OUT_OF_REACH):
        for reached in sorted(_closure(start.name, modules)):
            if any(_within(reached, barred) for barred in OUT_OF_REACH[start.room]):
                found.append(f"{start.name} reaches {reached}")
    return found


def past_the_door(modules: dict[str, Module]) -> list[str]:
    """Imports of a guest that are not of the package's public names."""
    guests = [module for module in modules.values() if module.room in GUESTS]
    return [f"{guest.name} imports {name}" for guest in guests for name in sorted(guest.inner - {"__init__"})]


def foreign(modules: dict[str, Module]) -> list[str]:
    """Uses of a foreign library outside of the one file that owns it."""
    return [
        f"{module.name} uses {name}"
        for module in modules.values()
        for name in sorted(module.outer)
        if (owner := OWNERS.get(name.partition(".")[0])) and module.name != owner
    ]


def private_torch(modules: dict[str, Module]) -> list[str]:
    return [
        f"{module.name} uses {name}"
        for module in modules.values()
        for name in sorted(module.outer)
        if module.room != PRIVATE_TORCH and _PRIVATE.fullmatch(name)
    ]


def impure(modules: dict[str, Module]) -> list[str]:
    """Pure modules from which an import of torch is reached."""
    return [
        f"{name} reaches torch in {reached}"
        for name in pure(modules)
        for reached in sorted(_closure(name, modules))
        if any(_within(outer, "torch") for outer in modules[reached].outer)
    ]


def pure(modules: dict[str, Module]) -> list[str]:
    return [name for name in modules if any(_within(name, root) for root in PURE)]


def cycles(modules: dict[str, Module]) -> list[str]:
    return [
        f"{name} imports itself by way of {', '.join(sorted(back))}"
        for name, module in modules.items()
        if (back := {target for target in module.inner if name in _closure(target, modules, parents=False)})
    ]


def too_long(paths: Iterable[Path]) -> list[str]:
    found = []
    for path in paths:
        text = path.read_text()
        if (lines := len(text.splitlines())) >= FILE_LINES:
            found.append(f"{path}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if (lines := (node.end_lineno or 0) - node.lineno + 1) >= FUNCTION_LINES:
                    found.append(f"{path}: {node.name} has {lines} lines")
    return found


def unlisted(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name not in TOP_LEVEL and not name.startswith("."))


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _imports(node: ast.AST, package: str, name: str, is_package: bool) -> Iterator[str]:
    """Absolute dotted names that an import statement may bind or load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [node.module] if node.module else []
        if node.level:
            here = [package, *(name.split(".") if name != "__init__" else [])]
            up = node.level - (1 if is_package else 0)
            base = here[: len(here) - up] + base if name != "__init__" else [package] + base
        yield from (".".join([*base, alias.name]) for alias in node.names)


def _own(target: str, package: str, modules: dict[str, Module]) -> str | None:
    """The module of this package that `target` names, or names something in; None if it is foreign."""
    if target != package and not target.startswith(package + "."):
        return None
    name = target[len(package) + 1 :]
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or "__init__"


def _used(tree: ast.AST) -> Iterator[str]:
    """Dotted uses of imported foreign names (`torch._dynamo.config`), and strings that are a dotted name of torch."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound |= {a.asname: a.name for a in node.names if a.asname}
            bound |= {root: root for a in node.names if not a.asname for root in [a.name.partition(".")[0]]}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            bound |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (chain := _chain(node)) and chain[0] in bound:
            yield ".".join([bound[chain[0]], *chain[1:]])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _PRIVATE.fullmatch(node.value):
            yield node.value


def _chain(node: ast.expr) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _closure(start: str, modules: dict[str, Module], parents: bool = True) -> set[str]:
    """`start` and everything it leads to; with `parents`, importing `a.b` also runs the file of the room `a`."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        todo += modules[name].inner
        if parents:
            todo.append(name.rpartition(".")[0])
    return seen


def _within(name: str, root: str) -> bool:
    return name == root or name.startswith(root + ".")
