"""doctor: each finding, with a remedy wherever not all is well."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from aot_cache.cli import doctor
from aot_cache.key import machine

from .conftest import Run
from .sample import Cache, Result

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution of ours that can be found, as `pip install` would leave it."""
    info = tmp_path / "site" / "aot_cache-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aot_cache\nVersion: 9.9\n")
    (info / "entry_points.txt").write_text("[torch.backends]\naot_cache = aot_cache:_autoload\n")
    monkeypatch.syspath_prepend(str(info.parent))
    return info


@pytest.fixture
def torch_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    def pretend(version: str | None) -> None:
        def found(name: str) -> str:
            if version is None:
                raise metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(doctor, "metadata", SimpleNamespace(**(vars(metadata) | {"version": found})))

    return pretend


def _rows(result: Result, check: str) -> list[list[str]]:
    return [row for row in result.rows if row[1] == check]


def _status(result: Result, check: str) -> str:
    ((status, *_),) = _rows(result, check)
    return status


def test_all_well_is_a_yes(cache: Cache, run: Run, installed: Path) -> None:
    result = run("doctor")
    assert result.code == 0, result.out
    assert "fail" not in {row[0] for row in result.rows}
    wanted = {"python", "torch", "entry point", "autoload", "directory", "writable", "file system", "index", "space"}
    assert wanted | {"AOT_CACHE_DIR", "AOT_CACHE_MODE"} <= {row[1] for row in result.rows}


def test_whatever_is_not_well_has_a_remedy(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    monkeypatch.setenv("AOT_CACHE", "0")
    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", "lots")
    result = run("doctor")
    assert result.code == 1
    not_well = [row for row in result.rows if row[0] != "ok"]
    assert {row[1] for row in not_well} >= {"torch", "entry point", "autoload", "AOT_CACHE", "AOT_CACHE_SIZE_LIMIT"}
    assert all(row[3] for row in not_well)


def test_an_entry_point_that_is_not_registered_is_a_fail(cache: Cache, run: Run, installed: Path) -> None:
    (installed / "entry_points.txt").unlink()
    result = run("doctor")
    assert (result.code, _status(result, "entry point")) == (1, "fail")


@pytest.mark.parametrize(
    ("version", "status"),
    [("2.11.0", "ok"), ("2.15.9+cu130", "ok"), ("2.12.0a0+git1", "ok"), ("2.10.1", "fail"), ("2.16.0", "fail"),
     ("3.0", "fail"), ("odd", "fail"), (None, "fail")],
)  # fmt: skip
def test_torch_must_be_in_the_supported_range(
    cache: Cache, run: Run, installed: Path, torch_version: Callable[[str | None], None], version: str, status: str
) -> None:
    torch_version(version)
    result = run("doctor")
    assert (_status(result, "torch"), result.code) == (status, int(status == "fail"))


def test_the_supported_range_is_that_of_the_package() -> None:
    (low, high) = (".".join(map(str, bound)) for bound in doctor.TORCH)
    assert f'"torch>={low},<{high}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(("value", "status"), [("1", "ok"), ("0", "warn"), ("true", "warn")])
def test_autoload_is_read_as_torch_reads_it(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, value: str, status: str
) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", value)
    assert _status(run("doctor"), "autoload") == status


def test_settings_say_where_they_come_from(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AOT_CACHE_SIZE_LIMIT", "500MB")
    result = run("doctor")
    assert _rows(result, "AOT_CACHE_SIZE_LIMIT")[0][2] == "500 MB (environment)"
    assert _rows(result, "AOT_CACHE_MODE")[0][2] == "readwrite (default)"
    assert _rows(result, "AOT_CACHE_DIR")[0][2] == f"{cache.directory} (environment)"
    assert _rows(run("doctor", "--dir", str(tmp_path / "b")), "AOT_CACHE_DIR")[0][2] == f"{tmp_path / 'b'} (--dir)"


def test_every_bad_setting_is_a_finding_of_its_own(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_MODE", "fast")
    monkeypatch.setenv("AOT_CACHE_REMOTE", "s3://bucket")
    result = run("doctor")
    assert result.code == 1
    assert (_status(result, "AOT_CACHE_MODE"), _status(result, "AOT_CACHE_REMOTE")) == ("fail", "fail")
    assert "readwrite, readonly, refresh" in _rows(result, "AOT_CACHE_MODE")[0][3]
    assert _status(result, "index") == "ok"


def test_a_directory_that_is_not_there_is_well_and_stays_away(empty: Cache, run: Run, installed: Path) -> None:
    result = run("doctor")
    assert result.code == 0 and "not there yet" in _rows(result, "directory")[0][2]
    assert not empty.directory.exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no directories")
def test_a_directory_that_cannot_be_made_is_a_fail_whatever_its_permissions(run: Run) -> None:
    result = run("doctor", "--dir", "/proc/x")
    assert (result.code, _status(result, "writable")) == (1, "fail")
    assert "set AOT_CACHE_DIR" in _rows(result, "writable")[0][3]


def test_what_is_tried_leaves_nothing(cache: Cache, run: Run) -> None:
    assert _status(run("doctor"), "writable") == "ok"
    assert [path for path in cache.directory.iterdir() if "doctor" in path.name] == []


def test_a_directory_that_others_can_write_is_a_fail_and_its_index_is_not_opened(cache: Cache, run: Run) -> None:
    cache.directory.chmod(0o777)
    result = run("doctor")
    assert (result.code, _status(result, "directory")) == (1, "fail")
    assert _rows(result, "index") == []


def test_an_index_that_is_not_one_is_a_fail(cache: Cache, run: Run) -> None:
    (index,) = cache.directory.glob("*.db")
    index.write_bytes(b"not a database" * 100)
    result = run("doctor")
    assert (result.code, _status(result, "index")) == (1, "fail")


def test_a_limit_beyond_the_free_space_is_a_warning(
    cache: Cache, run: Run, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    result = run("doctor")
    assert (result.code, _status(result, "space")) == (0, "warn")


MOUNTS = r"""
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:30 / /home rw shared:7 - nfs4 server:/home rw
24 23 8:2 / /home/me/fast\040disk rw - xfs /dev/sdb rw
25 22 0:31 / /data rw - ext4 /dev/sdc rw
26 22 0:32 / /data rw master:1 - fuse.sshfs host: rw
odd
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "ext4"), ("/homely", "ext4"), ("/home/me", "nfs4"), ("/home/me/fast disk/c", "xfs"),
     ("/data/c", "fuse.sshfs")],
)  # fmt: skip
def test_the_file_system_is_that_of_the_deepest_and_latest_mount(path: str, kind: str) -> None:
    assert doctor.mounted_as(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "fuse", "fuse.sshfs", "ceph"])
def test_a_file_system_of_another_machine_is_a_warning(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(doctor, "mounted_as", lambda path, mounts: kind)
    assert _status(run("doctor"), "file system") == "warn"


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuseblk", "zfs", "apfs"])
def test_a_local_file_system_is_well(cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(doctor, "mounted_as", lambda path, mounts: kind)
    assert _status(run("doctor"), "file system") == "ok"


def test_json_has_the_findings(cache: Cache, run: Run) -> None:
    findings = run("doctor", "--json").json
    assert {"status", "check", "detail", "remedy"} == set(findings[0])


def test_a_person_reads_the_remedy_below_the_finding(
    cache: Cache, run: Run, monkeypatch: pytest.MonkeyPatch, terminal: None
) -> None:
    monkeypatch.setenv("AOT_CACHE", "0")
    lines = run("doctor").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("warn") and " AOT_CACHE " in line)
    assert lines[at + 1].strip() == "-> unset AOT_CACHE"


def test_a_cpu_level_that_this_cpu_lacks_is_a_warning(
    cache: Cache, run: Run, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "cpu_flags", lambda: machine.LEVELS["x86-64-v2"] | {"avx"})
    for level, status in (("native", "ok"), ("x86-64-v2", "ok"), ("x86-64-v3", "warn")):
        monkeypatch.setenv("AOT_CACHE_CPU", level)
        result = run("doctor")
        assert _status(result, "AOT_CACHE_CPU") == status and result.code == 0
    assert "lacks abm avx2 bmi1" in result.out


def test_a_misspelt_variable_is_told(cache: Cache, run: Run, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _rows(run("doctor"), "AOT_CACHE_VERFY")
    monkeypatch.setenv("AOT_CACHE_VERFY", "1")
    result = run("doctor")
    assert result.code == 0 and _status(result, "AOT_CACHE_VERFY") == "warn" and "set AOT_CACHE_VERIFY" in result.out
