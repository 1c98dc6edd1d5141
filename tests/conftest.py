from __future__ import annotations

from pathlib import Path

import pytest
from support import FreshProcess


@pytest.fixture
def fresh_process(tmp_path: Path) -> FreshProcess:
    """Call it with python source (or a file) that prints JSON last; see support.FreshProcess."""
    return FreshProcess(tmp_path / "fresh")
