"""The same digest in every process: hash seed, user, home, path, file name, lines, how the module was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aot_cache.key

LIBRARY = """
    import collections, dataclasses, enum, functools, logging, re, typing
    log = logging.getLogger(__name__)
    NAMES = {"alpha", "beta", "gamma", "delta", ("a", 1), 2.5, None}
    class Mode(enum.Enum):
        FAST = "fast"
        SLOW = "slow"
    ALLOWED = frozenset({Mode.FAST, Mode.SLOW})
    @dataclasses.dataclass
    class Config:
        mode: Mode = Mode.FAST
        names: list = dataclasses.field(default_factory=list)
    Point = collections.namedtuple("Point", "x y")
    @functools.lru_cache(maxsize=8)
    def slow(x):
        return re.sub("a", "b", x)
    class Base(typing.Generic[typing.TypeVar("T")]):
        registry = {}
        def __init_subclass__(cls, **kw):
            Base.registry[cls.__name__] = cls
    class Layer(Base):
        def __init__(self):
            self.config, self.point = Config(), Point(1, -0.0)
        def forward(self, x):
            log.info("forward")
            return slow(x) if x in NAMES else [y for y in x if y in {"one", "two", "three"}]
    def target(x):
        return Layer().forward(x), ALLOWED, functools.partial(slow, "x"), Mode.FAST
"""
MAIN = """
    from aot_cache.key.callables import identity
    print(identity(target).digest)
"""


def dedented(text: str) -> str:
    return "\n".join(line[4:] for line in text.splitlines()) + "\n"


def run(script: Path, **environ: str) -> str:
    root = Path(aot_cache.key.__file__).parents[2]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **environ}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=env, cwd=script.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    script = tmp_path_factory.mktemp("first") / "train.py"
    script.write_text(dedented(LIBRARY + MAIN))
    return script, run(script, PYTHONHASHSEED="1")


def test_neither_hash_seed_nor_user_nor_home_counts(base: tuple[Path, str], tmp_path: Path) -> None:
    script, digest = base
    assert len(digest) == 32
    assert run(script, PYTHONHASHSEED="77", HOME=str(tmp_path), USER="somebody", LOGNAME="somebody") == digest


def test_neither_directory_nor_name_of_the_script_counts(base: tuple[Path, str], tmp_path: Path) -> None:
    script = tmp_path / "deep" / "er" / "other_name.py"
    script.parent.mkdir(parents=True)
    script.write_text(base[0].read_text())
    assert run(script, PYTHONHASHSEED="2") == base[1]


def test_neither_lines_nor_comments_count(base: tuple[Path, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = base[0].read_text().replace("class ", "# a comment\n\n\nclass ")
    text = text.replace("    def forward", "\n\n    def forward")
    script.write_text("#!/usr/bin/env python\n" * 300 + text)
    assert run(script) == base[1]


def test_an_edit_counts(base: tuple[Path, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(base[0].read_text().replace('"a", "b", x', '"a", "c", x'))
    assert run(script) != base[1]


def test_compiled_files_make_no_difference(base: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "mylib.py").write_text(dedented(LIBRARY))
    script = tmp_path / "train.py"
    script.write_text("from mylib import target\n" + dedented(MAIN))
    made = [run(script, PYTHONDONTWRITEBYTECODE="") for _ in range(2)]
    assert (tmp_path / "__pycache__").is_dir()
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("mylib.py", "train.py"):
        (moved / name).write_text((tmp_path / name).read_text())
    assert {*made, run(moved / "train.py")} == {made[0]} != {base[1]}


def test_a_worker_of_multiprocessing_agrees_with_the_script(base: tuple[Path, str], tmp_path: Path) -> None:
    main = """
    def report(queue):
        from aot_cache.key.callables import identity
        queue.put(identity(target).digest)
    if __name__ == "__main__":
        import multiprocessing
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        worker = context.Process(target=report, args=(queue,))
        worker.start()
        print(queue.get(timeout=50))
        worker.join()
    """
    script = tmp_path / "train.py"
    script.write_text(dedented(LIBRARY + main))
    assert run(script) == base[1]
