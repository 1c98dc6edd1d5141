"""Kernel libraries inside the cache: bundled when a graph is saved, loaded on a hit without a toolchain or a file.

A library is stored once for all entries, under `k-<digest of its bytes>`; an entry's manifest holds the table:

    {"isa": vector instruction set the sources are written for, "cpu": [features the libraries may use],
     "libraries": [{"fingerprint": ..., "digest": ..., "name": ..., "bytes": ...}, ...]}

A library runs native code, so two things are checked before it is loaded: its digest, and that this CPU has all the
features of the one it was built on. If not, torch builds that kernel again, from the source in the wrapper.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import itertools
import os
import platform
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import AotCacheError, EnvelopeError, ForeignEntry, NotSerializable, told
from ..key import machine
from ..key.parts import digest
from ..torch_compat import kernels

Fetch = Callable[[str], "bytes | None"]

# Flags in /proc/cpuinfo that name no instruction a compiler may emit: topology, power, virtualisation, mitigations.
# One that is missing here costs a needless rebuild, nothing else.
_NOT_INSTRUCTIONS = frozenset(
    """acpi amd_dcm amd_lbr_v2 aperfmperf apic arat arch_capabilities arch_lbr arch_perfmon art bts cat_l2 cat_l3 cdp_l2
    cdp_l3 constant_tsc cpb cppc cpuid cpuid_fault cqm cqm_llc cqm_mbm_local cqm_mbm_total cqm_occup_llc dca de ds_cpl
    dtes64 dtherm dts epb erms est extapic extd_apicid flush_l1d fsrc fsrm fsrs fzrm hfi ht hwp hwp_act_window hwp_epp
    hwp_notify hwp_pkg_req hw_pstate hypervisor ibpb ibrs ibrs_enhanced ibs ibt ida intel_pt intel_ppin lam mba mca mce
    md_clear monitor msr mtrr nonstop_tsc nonstop_tsc_s3 nopl npt nrip_save nx osvw pae pat pbe pcid pdcm pdpe1gb pebs
    perfctr_core perfctr_llc perfctr_nb pge pln pni_hint pse pse36 pti pts rapl rdt_a rep_good sdbg sep smap smca smep
    smx spec_ctrl split_lock_detect ss ssbd stibp svm svm_lock syscall tm tm2 tme tpr_shadow tsc tsc_adjust
    tsc_deadline_timer tsc_known_freq tsc_scale umip user_shstk v_spec_ctrl vgif vme vmmcall vmx vnmi vpid x2apic x2avic
    xtopology xtpr""".split()
)

_loaded: dict[tuple[str, str], Any] = {}
_served: dict[str, _Source] = {}
_loading = threading.Lock()
_serial = itertools.count(2)


@dataclass(frozen=True)
class Bundle:
    """table: for the manifest's `extra["kernels"]`. libraries: bytes by digest. left_out: fingerprint -> why."""

    table: dict[str, Any]
    libraries: dict[str, bytes]
    left_out: dict[str, str]


def store_name(digest: str) -> str:
    """The name in the store of the library with this digest."""
    return f"k-{digest}"


def library_names(table: Mapping[str, Any]) -> list[str]:
    """The names in the store of the libraries of an entry with this table of kernels."""
    return [store_name(str(row["digest"])) for row in table["libraries"]]


@functools.cache
def cpu_features() -> frozenset[str] | None:
    """What native code may use on this machine; None where that cannot be told (no /proc/cpuinfo)."""
    flags = machine.cpu_flags()
    return None if flags is None else _features(flags - _NOT_INSTRUCTIONS)


def _features(flags: frozenset[str]) -> frozenset[str]:
    return flags | {f"machine:{platform.machine()}"}


@dataclass(frozen=True)
class _Source:
    """Where the library of a request comes from: its name and vector instruction set, and what of a CPU it may use."""

    name: str
    isa: str
    needs: frozenset[str]
    read: Callable[[], bytes]


def bundle(wrappers: Iterable[str], level: str = "") -> Bundle:
    """The kernels of the graphs with these wrapper sources, all of which were executed in this process.

    level: the CPU level that the graphs' key says; "" for this CPU.

    Raises:
        NotSerializable: the sources are not all written for one vector instruction set, or a library for `level`.
    """
    rows, libraries, left_out, isas = [], {}, {}, set()
    features = _features(machine.LEVELS[level]) if level else cpu_features()
    for fingerprint in dict.fromkeys(f for source in wrappers for f in kernels.of_graph(source) or ()):
        source = _source(fingerprint, level, features)
        if source is None:
            left_out[fingerprint] = "it was neither built by torch nor loaded from an entry in this process"
            continue
        isas.add(source.isa)
        if features is None:
            left_out[fingerprint] = "the features of this CPU are unknown"
            continue
        try:
            data = source.read()
        except (OSError, AotCacheError) as error:
            left_out[fingerprint] = f"its file is gone: {error}"
            continue
        libraries[digest(data)] = data
        rows.append({"fingerprint": fingerprint, "digest": digest(data), "name": source.name, "bytes": len(data)})
    isas.discard("")
    if len(isas) > 1:
        raise NotSerializable(f"the graph has kernels for more than one instruction set: {', '.join(sorted(isas))}")
    table = {"isa": next(iter(isas), ""), "cpu": sorted(features or ()), "libraries": rows}
    return Bundle(table, libraries, left_out)


def _source(fingerprint: str, level: str, features: frozenset[str] | None) -> _Source | None:
    """What torch built for this request, else what an entry served for it."""
    built, served = kernels.built(fingerprint), _served.get(fingerprint)
    if built is not None and built.level == level:
        return _Source(built.name, built.isa, features or frozenset(), built.path.read_bytes)
    if served is not None and features is not None and served.needs <= features:
        return served
    if built is not None or served is not None:
        there = built.level if built is not None else " ".join(sorted(served.needs)) if served else ""
        raise NotSerializable(f"a kernel is there for {there or 'this CPU'}, and not for {level or 'this CPU'}")
    return None


@contextlib.contextmanager
def serve(table: Mapping[str, Any], fetch: Fetch, features: frozenset[str] | None = None) -> Iterator[kernels.Serving]:
    """While an entry is loaded in this thread, answer for its kernels from `fetch(store name)`; yields the counts.

    features: what this CPU has, `cpu_features()` by default.

    Raises:
        EnvelopeError: the table is not one of ours.
        ForeignEntry: (where the graph is loaded) a kernel could not be served, nor rebuilt for this CPU's vector width.
    """
    try:
        isa, needed = str(table["isa"]), frozenset(map(str, table["cpu"]))
        rows = [(str(r["fingerprint"]), str(r["digest"]), str(r["name"])) for r in table["libraries"]]
    except (KeyError, TypeError) as error:
        raise EnvelopeError(f"the table of kernels is not one of ours: {told(error)}") from None
    lacking = sorted(needed - (features if features is not None else cpu_features() or frozenset()))
    loaders = {
        fingerprint: functools.partial(_function, digest, name.rpartition(".")[2], fetch, lacking)
        for fingerprint, digest, name in rows
    }
    with kernels.serving(loaders, isa) as counts:
        yield counts
    for fingerprint, content, name in rows:
        if fingerprint in counts.loaded:
            _served[fingerprint] = _Source(name, isa, needed, functools.partial(_fetched, content, fetch))


def _function(expected: str, function: str, fetch: Fetch, lacking: list[str]) -> Any:
    """The function of the library with digest `expected`, which is loaded once a process."""
    if lacking:
        raise ForeignEntry(f"this CPU lacks {', '.join(lacking)}")
    with _loading:
        if (expected, function) not in _loaded:
            _loaded[expected, function] = _load(_fetched(expected, fetch), f"{expected}.{function}")
        return _loaded[expected, function]


def _fetched(expected: str, fetch: Fetch) -> bytes:
    data = fetch(store_name(expected))
    if data is None:
        raise AotCacheError("the store does not hold it any more")
    if digest(data) != expected:
        raise EnvelopeError("its bytes are damaged: the digest does not agree")
    return data


def _load(data: bytes, module: str) -> Any:
    """The function that extension module `module` is named after, from the module's bytes."""
    trouble: Exception | None = None
    for place in (_memory_file, _private_file):
        try:
            with place(data) as path:
                return _import(module, path)
        except (AttributeError, ImportError, OSError) as error:
            trouble = error
    raise ImportError(f"it cannot be loaded here: {trouble}")


def _import(module: str, path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(module, path)
    spec = importlib.util.spec_from_file_location(module, path, loader=loader)
    assert spec is not None
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return getattr(loaded, module.rpartition(".")[2])


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """A path of a file that exists in memory only, until its last mapping goes."""
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no files in memory")
    descriptor = os.memfd_create("aot_cache", os.MFD_CLOEXEC)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        # The dynamic loader takes a path it has seen for the library it has, though the number now names another file.
        # So no two paths are spelled alike: a serial number in binary, each 1 as "./" and each 0 as "/".
        unique = f"{next(_serial):b}".replace("0", "/").replace("1", "./")
        yield f"/proc/self/fd/{unique}{descriptor}"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A path in a directory of mode 0700, removed once the library is loaded."""
    with tempfile.TemporaryDirectory(prefix="aot_cache-", ignore_cleanup_errors=True) as directory:
        path = Path(directory) / "kernel.so"
        path.write_bytes(data)
        yield str(path)
