"""Installed by the entry point or by `enable`, by nothing else; `disable` puts every patched name back."""

from __future__ import annotations

from support import FreshProcess

SNAPSHOT = """
import json, inspect
import torch, torch._dynamo, torch._inductor.compile_fx, torch._dynamo.backends.common, torch._dynamo.output_graph
import torch._inductor.output_code, torch._inductor.runtime.compile_tasks
import torch._functorch._aot_autograd.autograd_cache as AC
import torch._functorch.config
def names():
    owners = [AC, AC.AOTAutogradCache, torch._dynamo.backends.common.AotAutograd, torch._dynamo.output_graph.OutputGraph,
              torch._inductor.codecache, torch._inductor.codecache.CppPythonBindingsCodeCache,
              torch._inductor.output_code.CompiledFxGraph, torch._inductor.runtime.compile_tasks]
    return {f"{o.__name__}.{k}": id(v) for o in owners for k, v in vars(o).items()} | {
        "bundled": torch._functorch.config.bundled_autograd_cache}
def changed(a, b): return sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))
import aot_cache
from aot_cache.torch_compat import kernels
"""


def test_disable_restores_every_patched_name(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        "import os; os.environ['AOT_CACHE'] = '0'\n"
        + SNAPSHOT
        + """
before = names()
aot_cache.enable(enabled=True); kernels.install()
on = changed(before, names())
aot_cache.disable()
print(json.dumps({"on": on, "off": changed(before, names())}))
"""
    )
    assert {"AOTAutogradCache.save", "AOTAutogradCache._lookup", "AOTAutogradCache.try_load", "bundled"} <= set(done["on"])
    assert {"AotAutograd.__call__", "OutputGraph.call_user_compiler"} <= set(done["on"])
    assert done["off"] == []


def test_a_name_that_somebody_else_patched_after_us_is_left_alone(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        SNAPSHOT
        + """
aot_cache.enable()
theirs = staticmethod(lambda *a, **k: None)
AC.AOTAutogradCache.save = theirs
aot_cache.disable()
print(json.dumps(inspect.getattr_static(AC.AOTAutogradCache, "save") is theirs))
"""
    )
    assert done is True


def test_switched_off_it_leaves_nothing_behind_in_torch(fresh_process: FreshProcess) -> None:
    code = """
import json, sys, torch
import torch._dynamo
print(json.dumps([n for n in sys.modules if n.startswith("aot_cache.")] + [f for f in map(repr, sys.meta_path) if "aot_cache.torch_compat" in f]))
"""
    assert fresh_process(code, env={"AOT_CACHE": "0"}) == ["aot_cache.units", "aot_cache.errors"]


def test_the_environment_turns_it_off(fresh_process: FreshProcess) -> None:
    done = fresh_process(SNAPSHOT + "print(json.dumps(torch._functorch.config.bundled_autograd_cache))", env={"AOT_CACHE": "0"})
    assert done is False


def test_enabled_is_on_for_a_block_and_then_as_before(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        SNAPSHOT
        + """
from aot_cache.hook.install import current
seen = [current() is not None]
aot_cache.disable(); seen.append(current() is not None)
with aot_cache.enabled(mode="refresh"):
    seen.append(current().settings.mode)
seen.append(current() is not None)
aot_cache.enable(mode="readonly")
with aot_cache.enabled(mode="refresh"): pass
seen.append(current().settings.mode)
print(json.dumps(seen))
"""
    )
    assert done == [True, False, "refresh", False, "readonly"]


def test_an_unsupported_torch_is_refused_by_enable_and_left_alone_by_the_entry_point(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        """
import json, torch
torch.__version__ = "2.99.0"
import torch._dynamo, aot_cache
try: aot_cache.enable()
except aot_cache.errors.HookMismatch as error: said = str(error)
print(json.dumps([said, torch._functorch.config.bundled_autograd_cache, aot_cache.stats()["graph_bypass"]]))
"""
    )
    assert "2.99.0" in done[0] and "2.11" in done[0]
    assert done[1] is False and done[2] == 1


def test_a_torch_without_the_seams_is_left_alone(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        """
import json, logging, torch, aot_cache
aot_cache.disable()
import torch._functorch._aot_autograd.autograd_cache as AC
del AC.AOTAutogradCache.make_entry
aot_cache.enable()
value = torch.compile(lambda a, b: a @ b, backend="aot_eager")(torch.ones(2, 2), torch.ones(2, 2)).sum().item()
print(json.dumps([value, aot_cache.stats()["error"], [e.detail for e in aot_cache.events()][:1]]))
"""
    )
    assert done[0] == 8 and done[1] == 1 and "make_entry" in done[2][0]


def test_other_backends_are_a_bypass_with_the_reason(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        """
import json, torch, aot_cache
x = torch.ones(2, 2)
for backend in ("eager", "aot_eager", lambda gm, inputs: gm.forward):
    torch._dynamo.reset()
    torch.compile(lambda a: a @ a, backend=backend)(x)
torch._dynamo.reset()
with torch.compiler.config.patch(force_disable_caches=True):
    torch.compile(lambda a: a @ a)(x)
print(json.dumps([[e.reason.name, e.detail] for e in aot_cache.events()]))
"""
    )
    assert [reason for reason, _ in done] == ["BACKEND", "BACKEND", "BACKEND", "TORCH_OFF"]
    assert "aot_eager" in done[1][1] and "force_disable_caches" in done[3][1]


def test_torchs_portable_archive_keeps_our_entries(fresh_process: FreshProcess, tmp_path_factory: object) -> None:
    code = """
import json, sys, torch, aot_cache
if len(sys.argv) > 2: torch.compiler.load_cache_artifacts(open(sys.argv[2], "rb").read())
with torch.no_grad(): torch.compile(lambda a, b: a @ b)(torch.ones(2, 3), torch.ones(3, 2))
if len(sys.argv) == 2:
    data, info = torch.compiler.save_cache_artifacts()
    open(sys.argv[1], "wb").write(data)
print(json.dumps(aot_cache.stats()))
"""
    archive = fresh_process.home / "archive"
    assert fresh_process(code, str(archive))["graph_miss"] == 1
    elsewhere = {"AOT_CACHE_DIR": str(fresh_process.home / "other"), "TORCHINDUCTOR_CACHE_DIR": str(fresh_process.home / "i2")}
    assert fresh_process(code, str(archive), str(archive), env=elsewhere)["graph_hit"] == 1
