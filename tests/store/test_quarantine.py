"""The quarantine: kept beside the store, never an entry of it."""

from __future__ import annotations

import json
from pathlib import Path

from aot_cache.store import quarantine
from aot_cache.store.disk import DiskStore


def test_what_is_in_quarantine_is_no_entry_and_goes_with_clear(tmp_path: Path) -> None:
    cache = DiskStore(tmp_path / "cache", 10**6)
    cache.put("g-good", b"good")
    path = quarantine.put(cache.directory, "g-bad", b"bad", {"why": "x"})
    assert json.loads(path.read_text()) == {"why": "x"} and (path.parent / "g-bad").read_bytes() == b"bad"
    assert [entry.name for entry in cache.entries()] == ["g-good"] and not cache.verify()
    size = 3 + path.stat().st_size
    assert quarantine.clear(cache.directory, dry_run=True) == (2, size) and path.exists()
    assert quarantine.clear(cache.directory) == (2, size) and list(path.parent.iterdir()) == []
    assert quarantine.clear(tmp_path / "elsewhere") == (0, 0)
