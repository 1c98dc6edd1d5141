"""Which files of torch somebody edited."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from aot_cache.torch_compat import sources


@pytest.fixture
def torch_like(tmp_path: Path) -> tuple[Path, str]:
    """A package of two files, and the list that its distribution would hold of them."""
    root = tmp_path / "torch"
    lines = []
    for name in ("_inductor/lowering.py", "__init__.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}")
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
        lines.append(f"torch/{name},sha256={digest},{path.stat().st_size}")
    return root, "\n".join([*lines, "torch/__pycache__/a.pyc,,"])


def test_untouched_files_are_not_edited(torch_like: tuple[Path, str]) -> None:
    root, record = torch_like
    assert sources.changed(str(root), [str(path) for path in root.rglob("*.py")], record) == {}


def test_an_edited_file_is_named_with_its_digest(torch_like: tuple[Path, str]) -> None:
    root, record = torch_like
    edited = root / "_inductor" / "lowering.py"
    edited.write_text("# mine")
    first = sources.changed(str(root), [str(edited)], record)
    assert list(first) == ["torch/_inductor/lowering.py"]
    edited.write_text("# mine, again")
    assert sources.changed(str(root), [str(edited)], record) != first


def test_files_that_the_distribution_did_not_bring_are_left_out(torch_like: tuple[Path, str]) -> None:
    root, record = torch_like
    (root / "notes.py").write_text("x")
    assert sources.changed(str(root), [str(root / "notes.py")], record) == {}


def test_every_folder_that_matters_is_one_of_this_torch() -> None:
    import torch

    root = Path(torch.__file__).parent
    missing = [folder for folder in sources._FOLDERS if not (root / folder).is_dir()]
    assert missing == []
    assert {"lowering.py", "libtorch_cpu.so"} <= {Path(path).name for path, _ in sources._files(str(root))}


def test_the_installed_torch_is_as_it_was_brought() -> None:
    assert sources.edited() == {}
