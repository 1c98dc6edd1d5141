"""State of the process that libraries compute with, and patches inside of them, count for code that reaches them."""

from __future__ import annotations

import csv
import decimal
import gc
import json
import locale
import os
import pathlib
import socket
import sys
import textwrap
import time
from collections.abc import Callable

import numpy
import numpy._core._methods as methods
import pytest
import torch

from aot_cache.key.callables import Unidentified, identity, library
from aot_cache.key.operators import taught

from .callables_support import Load, digest, load  # noqa: F401

ARITHMETIC = "def f(x):\n    return x / 3"
NUMBERS = "import decimal\nA = decimal.Decimal(14)\ndef f(x):\n    return A / 10"
PRINTS = "import numpy as np\ndef f(x):\n    return str(np.array([x]))"
LOCAL = "import time\ndef f(x):\n    return time.localtime(x).tm_hour"
MOMENT = "import datetime\nT = datetime.datetime(2020, 1, 1)\ndef f(x):\n    return T.timestamp()"
MOMENTS = "import datetime\nT = (datetime.datetime(2020, 1, 1),)\ndef f(x):\n    return T[0].timestamp()"
DATES = "import datetime\ndef f(x):\n    return datetime.datetime.fromtimestamp(x).hour"
HOOK = "def hook(*args): return 1"


def _zone(name: str) -> None:
    os.environ["TZ"] = name
    time.tzset()


def _sparse(is_on: bool) -> None:
    invariants = torch.sparse.check_sparse_tensor_invariants
    (invariants.enable if is_on else invariants.disable)()


# What the code is, how the state is set, and two states.
STATES: dict[str, tuple[str, Callable[..., object], object, object]] = {
    "precision": (NUMBERS, lambda v: setattr(decimal.getcontext(), "prec", v), 28, 5),
    "rounding": (NUMBERS, lambda v: setattr(decimal.getcontext(), "rounding", v), "ROUND_HALF_EVEN", "ROUND_UP"),
    "precision, of numbers from a call": (ARITHMETIC, lambda v: setattr(decimal.getcontext(), "prec", v), 28, 5),
    "NumPy's errors": (ARITHMETIC, lambda v: numpy.seterr(divide=v), "warn", "raise"),
    "NumPy's errors, without a function of the user's": (
        "import functools, numpy\nf = functools.partial(numpy.divide, 1.0)",
        lambda v: numpy.seterr(divide=v),
        "warn",
        "raise",
    ),
    "NumPy's handler of errors": (ARITHMETIC, numpy.seterrcall, None, print),
    "NumPy's buffer": (ARITHMETIC, numpy.setbufsize, 8192, 16384),
    "NumPy's precision of printing": (PRINTS, lambda v: numpy.set_printoptions(precision=v), 8, 2),
    "digits of an integer": (ARITHMETIC, lambda v: sys.set_int_max_str_digits(v), 4300, 1000),
    "language of numbers": (ARITHMETIC, lambda v: locale.setlocale(locale.LC_NUMERIC, v), "C", "C.UTF-8"),
    "language": ("import locale\ndef f(x):\n    return locale.strcoll(x, 'a')",)
    + (lambda v: locale.setlocale(locale.LC_COLLATE, v), "C", "C.UTF-8"),
    "zone of a time": (LOCAL, _zone, "UTC", "Asia/Tokyo"),
    "zone of a date": (DATES, _zone, "UTC", "Asia/Tokyo"),
    "zone of a value": (MOMENT, _zone, "UTC", "Asia/Tokyo"),
    "zone of a value in a tuple": (MOMENTS, _zone, "UTC", "Asia/Tokyo"),
    "size of a field": ("import csv\ndef f(x):\n    return list(csv.reader([x]))", csv.field_size_limit, 131072, 10),
    "size of a field, asked for": ("import csv\ndef f(x):\n    return csv.field_size_limit()",)
    + (csv.field_size_limit, 131072, 10),
    "thresholds": ("import gc\ndef f(x):\n    return gc.get_threshold()[0]", gc.set_threshold, 700, 800),
    "timeout": ("import socket\ndef f(x):\n    return socket.getdefaulttimeout()", socket.setdefaulttimeout, None, 5),
    "switches of threads": ("import sys\ndef f(x):\n    return sys.getswitchinterval()",)
    + (sys.setswitchinterval, 0.005, 0.01),
    "warnings of torch": (ARITHMETIC, torch.set_warn_always, False, True),
    "invariants of sparse tensors": (ARITHMETIC, _sparse, False, True),
    "overwriting": (ARITHMETIC, torch.__future__.set_overwrite_module_params_on_conversion, False, True),
    "swapping": (ARITHMETIC, torch.__future__.set_swap_module_params_on_conversion, False, True),
    "options of mmap": ("import torch\ndef f(x):\n    return torch.serialization.get_default_mmap_options()",)
    + (torch.serialization.set_default_mmap_options, 2, 1),
    "the hub's directory": ("import torch\ndef f(x):\n    return torch.hub.get_dir()", torch.hub.set_dir, "/a", "/b"),
}


def known(obj: object) -> str:
    return identity(obj, taught).digest


@pytest.mark.parametrize("name", STATES)
def test_state_of_the_process_counts(load: Load, name: str) -> None:  # noqa: F811
    source, put, usual, other = STATES[name]
    function = load(source).f
    zone = os.environ.get("TZ")
    try:
        put(usual)
        before = known(function)
        put(other)
        assert known(function) != before
        put(usual)
        assert known(function) == before
    finally:
        put(usual)
        os.environ.pop("TZ", None) if zone is None else os.environ.update(TZ=zone)
        time.tzset()


@pytest.mark.parametrize("name", ["zone of a time", "NumPy's precision of printing", "thresholds", "language"])
def test_state_does_not_count_for_code_that_does_not_reach_it(load: Load, name: str) -> None:  # noqa: F811
    _, put, usual, other = STATES[name]
    function = load("import math, json\ndef f(x):\n    return json.dumps(math.floor(x))").f
    zone = os.environ.get("TZ")
    try:
        put(usual)
        before = known(function)
        put(other)
        assert known(function) == before
    finally:
        put(usual)
        os.environ.pop("TZ", None) if zone is None else os.environ.update(TZ=zone)
        time.tzset()


def test_results_so_far_do_not_count(load: Load) -> None:  # noqa: F811
    function = load(NUMBERS).f
    decimal.getcontext().clear_flags()
    before = digest(function)
    assert decimal.Decimal(1) / 3 and decimal.getcontext().flags[decimal.Inexact]
    assert digest(function) == before


def test_no_state_counts_for_a_librarys_code() -> None:
    before = digest(json.dumps)
    with decimal.localcontext(decimal.Context(prec=3)), numpy.errstate(divide="raise"):
        assert digest(json.dumps) == before


def test_a_profiler_counts_for_code_that_asks_for_it(load: Load) -> None:  # noqa: F811
    function = load("import sys\ndef f(x):\n    return sys.getprofile() is None").f
    before = digest(function)
    sys.setprofile(load(HOOK, "hooks").hook)
    try:
        other = digest(function)
    finally:
        sys.setprofile(None)
    assert other != before


def test_state_that_cannot_be_read_is_refused(load: Load) -> None:  # noqa: F811
    load("def g(x): return x", "mpmath")
    with pytest.raises(Unidentified, match="state of the process that cannot be read"):
        digest(load("import mpmath\ndef f(x):\n    return mpmath.g(x)").f)


# What the code is, and where a library is patched below the name that the code reads.
PATCHES = {
    "method": ("import json\ndef f(x):\n    return json.dumps(x)", json.encoder.JSONEncoder, "encode"),
    "method of a class of one module": (
        "import textwrap\ndef f(x):\n    return textwrap.wrap(x)",
        textwrap.TextWrapper,
        "wrap",
    ),
    "method of a value's class": (
        "import pathlib\nP = pathlib.PurePosixPath('a')\ndef f(x):\n    return P.joinpath(x)",
        pathlib.PurePath,
        "with_name",
    ),
    "function of another module": ("import numpy as np\ndef f(x):\n    return np.asarray(x).mean()", methods, "_mean"),
}


@pytest.mark.parametrize("name", PATCHES)
@pytest.mark.parametrize("kind", ["function", "property", "class"])
def test_a_patch_inside_a_library_counts(
    load: Load,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    source, owner, attribute = PATCHES[name]
    function = load(source).f
    patch = load(f"N = 1\nclass Put: pass\n{HOOK} + N", "hooks")
    before = known(function)
    value = {"function": patch.hook, "property": property(patch.hook), "class": patch.Put}[kind]
    with monkeypatch.context() as patching:
        patching.setattr(owner, attribute, value)
        patched = known(function)
        if kind != "class":
            patching.setattr(patch, "N", 2)
            assert known(function) not in (before, patched)
    assert patched != before
    assert known(function) == before


def test_exchanged_code_inside_a_library_counts(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    function = load("import textwrap\ndef f(x):\n    return textwrap.wrap(x)").f
    before = digest(function)
    monkeypatch.setattr(textwrap.TextWrapper._munge_whitespace, "__code__", load(HOOK, "hooks").hook.__code__)
    assert digest(function) != before


def test_a_patch_of_a_library_that_is_not_reached_does_not_count(
    load: Load,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = load("import json\ndef f(x):\n    return json.dumps(x)").f
    before = digest(function)
    monkeypatch.setattr(textwrap.TextWrapper, "wrap", load(HOOK, "hooks").hook)
    assert digest(function) == before


def test_a_patch_that_cannot_be_identified_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    function = load("import json\ndef f(x):\n    return json.dumps(x)").f
    monkeypatch.setattr(json.JSONEncoder, "encode", load("def hook(self, x): return eval(x)", "hooks").hook)
    with pytest.raises(Unidentified, match="patch of `json.encoder.JSONEncoder.encode` of `this process`"):
        digest(function)


@pytest.mark.parametrize("value", [",  ", 1, None])
def test_a_plain_value_in_a_class_of_the_standard_library_counts(
    load: Load,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    value: object,
) -> None:
    function = load("import json\ndef f(x):\n    return json.JSONEncoder().encode(x)").f
    before = digest(function)
    monkeypatch.setattr(json.JSONEncoder, "item_separator", value)
    assert digest(function) != before


def test_libraries_as_installed_hold_no_patches() -> None:
    assert not library.patches({name.partition(".")[0] for name in sys.modules} - {"tests", "support"})
