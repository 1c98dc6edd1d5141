"""Whose code it is: an installed distribution's stands by name and version, everything else is followed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aot_cache.key.callables import Unidentified, identity, origin

from .callables_support import Load, digest, load  # noqa: F401

BODY = "HIDDEN = {hidden}\ndef helper(x):\n    return x + {hidden}\ndef run(x):\n    return helper(x) + {seen}\n"
READER = "import demo_pkg\ndef f(x):\n    return demo_pkg.run(x)"


def install(
    root: Path, version: str, source: str | None, hidden: int = 1, seen: int = 1, record: bool = True
) -> ModuleType:
    """A distribution `Demo.Dist` with a package `demo_pkg`, in a new site-packages directory, imported."""
    site = root / f"env{len(list(root.iterdir()))}" / "site-packages"
    info = site / "demo_dist-1.dist-info"
    info.mkdir(parents=True)
    (site / "demo_pkg").mkdir()
    file = site / "demo_pkg" / "__init__.py"
    file.write_text(BODY.format(hidden=hidden, seen=seen))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Demo.Dist\nVersion: {version}\n")
    (info / "RECORD").write_text("demo_pkg/__init__.py,sha256=x,1\n" if record else "other.py,,\n")
    if source is not None:
        (info / "direct_url.json").write_text(source)
    module = ModuleType("demo_pkg")
    vars(module).update(__file__=str(file), __package__="demo_pkg")
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    return module


@pytest.fixture
def reader(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def] # noqa: F811
    def read(version: str = "1.0", source: str | None = None, **values: int) -> dict[str, str]:
        module = install(tmp_path, version, source, **values)
        monkeypatch.setitem(sys.modules, "demo_pkg", module)
        found = identity(load(READER).f)
        return {"digest": found.digest, **identity(module.run).parts}

    return read


def test_name_and_version_stand_for_a_distribution(reader) -> None:  # type: ignore[no-untyped-def]
    one = reader()
    assert one["distribution"] == "demo-dist 1.0"
    assert reader()["digest"] == one["digest"], "the directory does not count"
    assert reader(hidden=2)["digest"] == one["digest"], "its other code does not count"
    assert reader(version="1.1")["digest"] != one["digest"]


def test_the_code_that_is_called_counts_all_the_same(reader) -> None:  # type: ignore[no-untyped-def]
    assert reader(seen=2)["digest"] != reader()["digest"]


@pytest.mark.parametrize(
    "source",
    [
        json.dumps({"url": "file:///a", "dir_info": {"editable": True}}),
        json.dumps({"url": "file:///a", "dir_info": {}}),
        "not json",
        json.dumps({"url": "file:///a"}),
    ],
    ids=["editable", "directory", "damaged", "unknown"],
)
def test_what_was_installed_from_a_directory_is_user_code(reader, source: str) -> None:  # type: ignore[no-untyped-def]
    one = reader(source=source)
    assert "distribution" not in one
    assert reader(source=source)["digest"] == one["digest"]
    assert reader(source=source, version="1.1")["digest"] == one["digest"]
    assert reader(source=source, hidden=2)["digest"] != one["digest"]


def test_a_file_that_no_distribution_recorded_is_user_code(reader) -> None:  # type: ignore[no-untyped-def]
    one = reader(record=False)
    assert "distribution" not in one
    assert reader(record=False, hidden=2)["digest"] != one["digest"]


def test_commit_or_archive_hash_belong_to_the_version(reader) -> None:  # type: ignore[no-untyped-def]
    sources = [{"vcs_info": {"vcs": "git", "commit_id": commit}} for commit in ("a", "b")]
    sources += [{"archive_info": {"hashes": {"sha256": digest}}} for digest in ("a", "b")]
    sources += [{"archive_info": {"hash": f"sha256={digest}"}} for digest in ("a", "b")]
    made = [reader(source=json.dumps(source))["digest"] for source in sources]
    assert len({*made, reader()["digest"]}) == 7


def test_a_distribution_without_file_list_owns_its_top_level_packages(tmp_path: Path) -> None:
    site = tmp_path / "dist-packages"
    info = site / "Other_Dist-2.egg-info"
    info.mkdir(parents=True)
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: other-dist\nVersion: 2\n")
    (info / "top_level.txt").write_text("its_pkg\n")
    assert str(origin.of_file(str(site / "its_pkg" / "a.py"))) == "other-dist 2"
    assert origin.of_file(str(site / "not_its.py")) is None


def test_the_standard_library_stands_by_the_version_of_python(load: Load) -> None:  # noqa: F811
    import os
    import textwrap

    for fn in (textwrap.dedent, os.path.join, os.strerror, len):
        assert identity(fn).parts["distribution"] == str(origin.PYTHON)


def test_code_that_only_claims_a_distributions_file_is_user_code(load: Load) -> None:  # noqa: F811
    import textwrap

    names: dict[str, object] = {"K": 1}
    exec(compile("def f(x): return K", textwrap.__file__, "exec"), names)
    before = digest(names["f"])
    assert "distribution" not in identity(names["f"]).parts
    names["K"] = 2
    assert digest(names["f"]) != before


def test_a_function_that_claims_a_distributions_module_is_user_code(load: Load) -> None:  # noqa: F811
    source = "import functools, textwrap\n@functools.wraps(textwrap.dedent)\ndef f(x):\n    return {}"
    assert digest(load(source.format(1)).f) != digest(load(source.format(2)).f)


def test_a_class_that_claims_a_distributions_module_is_user_code(load: Load) -> None:  # noqa: F811
    source = "class HelpFormatter:\n    __module__ = 'argparse'\n    x = {}"
    assert digest(load(source.format(1)).HelpFormatter) != digest(load(source.format(2)).HelpFormatter)


def test_a_users_compiled_function_stands_by_the_content_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ext.so"
    made = []
    for content in (b"one", b"one", b"other"):
        file.write_bytes(content)
        module = ModuleType("user_ext")
        vars(module).update(__file__=str(file), run=len)
        monkeypatch.setitem(sys.modules, "user_ext", module)
        made.append(digest(module))
    assert made[0] == made[1] != made[2]


def test_a_compiled_function_of_a_kind_of_its_own_is_known_by_its_place() -> None:
    numpy = pytest.importorskip("numpy")
    made = [digest(fn) for fn in (numpy.add, numpy.subtract, numpy.sum, numpy.where)]
    assert len(set(made)) == 4
    assert identity(numpy.sum).parts["distribution"] == f"numpy {numpy.__version__}"
    with pytest.raises(Unidentified, match="numpy.ufunc"):
        identity(numpy.frompyfunc(abs, 1, 1))
    with pytest.raises(Unidentified, match="numpy.ndarray"):
        identity(numpy.zeros(1))


def test_a_function_of_a_users_module_in_c_is_not_known_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    from aot_cache.key.callables.functions import source_facts

    module = ModuleType("user_plain")
    vars(module).update(__file__=__file__)
    monkeypatch.setitem(sys.modules, "user_plain", module)
    with pytest.raises(Unidentified, match="compiled code of module `user_plain`"):
        source_facts("user_plain")


def test_this_package_is_known_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "_PACKAGE", tmp_path)

    def known(**sources: str) -> object:
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        origin._this_package.cache_clear()
        origin.of_file.cache_clear()
        return origin.of_file(str(tmp_path / "a.py"))

    try:
        first = known(a="x = 1", b="")
        assert first is not None
        assert known(a="x = 2") != first
        assert known(a="x = 1") == first
        assert known(a="", b="x = 1") != first
        assert origin.of_file(str(tmp_path.parent / "a.py")) is None
    finally:
        origin._this_package.cache_clear()
        origin.of_file.cache_clear()
