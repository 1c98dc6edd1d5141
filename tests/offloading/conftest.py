from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from .weight_models import WIDTH


@pytest.fixture
def far(tmp_path: Path) -> str:
    return f"disk:{tmp_path}"


@pytest.fixture
def x() -> Iterator[Tensor]:
    """Input of a stack. Sums over threads are not reproducible, so there is one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield torch.randn(3, WIDTH)
    torch.set_num_threads(before)
