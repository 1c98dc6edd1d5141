"""Stored kernels on a machine that has nothing: no compiler, no processes, empty directories, nothing written.

One compile of every model, for all tests here; they only differ in what the process that loads finds and may do.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.artifact import native

pytestmark = pytest.mark.slow

CHILD = '''
import contextlib, json, os, pickle, sys, tempfile, threading
from pathlib import Path

mode, stored, *options = sys.argv[1:]
stored = Path(stored)
processes, written = [], []
forbidden = "bare" in options

def watch(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system"):
        processes.append(f"{event} {args[0]}")
        if forbidden:
            raise PermissionError(f"a process was started: {args[0]}")
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(str(args[0]))

# Python writes a file to find out whether the directory can be written; torch asks for its name when it is imported.
tempfile.tempdir = os.environ["TMPDIR"]
sys.addaudithook(watch)
os.environ["AOT_CACHE"] = "0"  # an installed hook would join too; this is about the kernels alone

import torch
import torch._functorch.config
import torch._inductor.config
from torch._functorch._aot_autograd.aot_autograd_result import BundledAOTAutogradResult as Result
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

from aot_cache.artifact import native
from aot_cache.torch_compat import kernels

@contextlib.contextmanager
def configured():  # for this thread only, as torch's configuration is
    cpp_wrapper = torch._inductor.config.patch(cpp_wrapper="cpp_wrapper" in options)
    with cpp_wrapper, torch._functorch.config.patch(bundled_autograd_cache=True, strict_autograd_cache=True):
        yield

counts = {"loaded": 0, "rebuilt": [], "hits": 0}

def save(key, entry, remote):
    graphs = [graph for graph in (entry.compiled_fw, entry.compiled_bw) if graph is not None]
    made = native.bundle([graph.result.source_code for graph in graphs])
    assert not made.left_out, made.left_out
    for digest, data in made.libraries.items():
        (stored / native.store_name(digest)).write_bytes(data)
    (stored / f"{key}.json").write_text(json.dumps(made.table))
    entry.pre_save()
    (stored / f"{key}.pickle").write_bytes(pickle.dumps(entry))

def look_up(key, *ignored, **more):
    path = stored / f"{key}.pickle"
    if mode == "save":
        return None
    content = path.read_bytes()
    entry = pickle.loads(content)
    entry.our_key = key
    return entry, content

def fetch(name):
    path = stored / name
    return path.read_bytes() if path.exists() else None

def revive(original):
    def wrap_post_compile(self, *args, **kwargs):
        table = json.loads((stored / f"{self.our_key}.json").read_text())
        serving = native.serve(table, fetch) if "serve" in options else contextlib.nullcontext()
        with serving as done:
            result = original(self, *args, **kwargs)
        counts["hits"] += 1
        if done is not None:
            counts["loaded"] += len(done.loaded)
            counts["rebuilt"] += done.rebuilt.values()
        return result
    return wrap_post_compile

AOTAutogradCache.save, AOTAutogradCache._lookup = staticmethod(save), staticmethod(look_up)
if mode == "load":
    Result.wrap_post_compile = revive(Result.wrap_post_compile)
if mode == "save" or "serve" in options:
    kernels.install()

def data(*shape, grad=False):
    values = torch.linspace(-2, 2, steps=torch.Size(shape).numel()).reshape(shape).sin()
    return values.requires_grad_(grad)

def training():
    step = torch.compile(lambda x, w: (torch.nn.functional.gelu(x @ w) * 2).softmax(-1).sum(0))
    x, w = data(8, 16), data(16, 16, grad=True)
    y = step(x, w)
    (y * y).sum().backward()
    return [y, w.grad]

def inference():
    normal = torch.compile(lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3))
    with torch.no_grad():
        return [normal(data(33, 65))]

def dynamic():
    step = torch.compile(lambda x: (x.tanh() * x).sum(-1).exp(), dynamic=True)
    results = []
    for rows in (5, 9, 1000):
        x = data(rows, 40, grad=True)
        y = step(x)
        y.sum().backward()
        results += [y, x.grad]
    return results

models = {"training": training, "inference": inference, "dynamic": dynamic}
values, errors = {}, {}

def run(name):
    try:
        with configured():
            values[name] = [tensor.detach().numpy().tobytes().hex() for tensor in models[name]()]
    except Exception as error:
        errors[name] = f"{type(error).__name__}: {error}"

if "threads" in options:
    threads = [threading.Thread(target=run, args=(name,)) for name in models]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
else:
    for name in models: run(name)
print(json.dumps({"values": values, "errors": errors, "processes": processes, "written": written, **counts}))
'''


class Machine:
    """One machine with a compiler, where `stored` was compiled, and any number of bare ones."""

    def __init__(self, root: Path, options: tuple[str, ...]) -> None:
        self.root, self.options, self.stored = root, options, root / "stored"
        self.stored.mkdir(parents=True)
        self.compiler = FreshProcess(root / "compiler")
        self.saved = self.compiler(CHILD, "save", str(self.stored), *options, env={"PYTHONDONTWRITEBYTECODE": "1"})
        assert not self.saved["errors"]

    def tables(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in self.stored.glob("*.json")]

    def bare(self, name: str, *options: str, stored: Path | None = None) -> tuple[dict[str, Any], list[Path]]:
        """What a process on a new machine without a compiler reports, and the files it left there."""
        process = FreshProcess(self.root / name)
        env = {"PATH": str(self.root / "nothing"), "PYTHONDONTWRITEBYTECODE": "1"}
        arguments = ("load", str(stored or self.stored), "bare", *self.options, *options)
        report = process(CHILD, *arguments, env=env)
        return report, [path for path in process.home.rglob("*") if not path.is_dir()]

    def with_compiler(self, stored: Path, **env: str) -> dict[str, Any]:
        """What a process reports that may build, on the first machine, from which the built kernels were removed."""
        for library in (self.compiler.home / "inductor").rglob("*.main.so"):
            library.unlink()
        return self.compiler(CHILD, "load", str(stored), *self.options, "serve", env=env)

    def copy(self, to: Path, change: Callable[[Path], object] = lambda library: None) -> Path:
        """The stored entries, after `change` on each library's file."""
        shutil.copytree(self.stored, to)
        for library in to.glob("k-*"):
            change(library)
        return to


@pytest.fixture(scope="module")
def python_wrapper(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("python"), ())


@pytest.fixture(scope="module")
def cpp_wrapper(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("cpp"), ("cpp_wrapper",))


@pytest.fixture(params=["python_wrapper", "cpp_wrapper"])
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.getfixturevalue(request.param)


def damage(library: Path) -> None:
    content = library.read_bytes()
    library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_the_machine_that_compiled_had_to_run_compilers_and_write_files(machine: Machine) -> None:
    assert machine.saved["processes"] and machine.saved["written"]
    assert all(table["libraries"] and table["isa"] for table in machine.tables())


@pytest.mark.parametrize("order", ["one after the other", "threads"])
def test_a_bare_machine_computes_the_same_bits_without_a_process_or_a_file(machine: Machine, order: str) -> None:
    report, left = machine.bare(order, "serve", *(["threads"] if order == "threads" else []))
    assert report["errors"] == {} and report["values"] == machine.saved["values"]
    assert report["hits"] == 3 and report["rebuilt"] == []
    assert report["loaded"] == sum(len(table["libraries"]) for table in machine.tables()) >= 5
    assert (report["processes"], report["written"], left) == ([], [], [])


def test_without_serving_the_same_entries_do_not_start_there(machine: Machine) -> None:
    report, _ = machine.bare("control")
    assert report["values"] == {} and set(report["errors"]) == {"training", "inference", "dynamic"}
    assert report["processes"] or "InvalidCxxCompiler" in str(report["errors"])


def test_damaged_and_lost_kernels_are_rebuilt_where_there_is_a_compiler(machine: Machine, tmp_path: Path) -> None:
    stored = machine.copy(tmp_path / "stored")
    for number, library in enumerate(sorted(stored.glob("k-*"))):
        (damage if number % 2 else Path.unlink)(library)
    report = machine.with_compiler(stored)
    assert report["errors"] == {} and report["values"] == machine.saved["values"]
    assert report["hits"] == 3 and report["loaded"] == 0 and report["processes"] and len(report["rebuilt"]) >= 5
    reasons = {"its bytes are damaged: the digest does not agree", "the store does not hold it any more"}
    assert set(report["rebuilt"]) == reasons


def test_a_lost_kernel_on_a_bare_machine_is_an_error_that_says_so(python_wrapper: Machine, tmp_path: Path) -> None:
    report, _ = python_wrapper.bare("lost", "serve", stored=python_wrapper.copy(tmp_path / "stored", Path.unlink))
    assert report["values"] == {} and len(report["errors"]) == 3
    assert all("ForeignEntry" in e and "cannot be rebuilt" in e for e in report["errors"].values())


def test_kernels_are_not_rebuilt_for_a_narrower_cpu(python_wrapper: Machine, tmp_path: Path) -> None:
    if not all(table["isa"].startswith("avx512") for table in python_wrapper.tables()):
        pytest.skip("needs AVX-512 to be narrowed from")
    report = python_wrapper.with_compiler(python_wrapper.copy(tmp_path / "stored", damage), ATEN_CPU_CAPABILITY="avx2")
    assert report["values"] == {} and len(report["errors"]) == 3
    assert all("ForeignEntry" in e and "would rebuild it for 'avx2" in e for e in report["errors"].values())


def test_equal_kernels_of_several_entries_are_stored_once(machine: Machine) -> None:
    rows = [row for table in machine.tables() for row in table["libraries"]]
    names = {native.store_name(row["digest"]) for row in rows}
    assert {path.name for path in machine.stored.glob("k-*")} == names
