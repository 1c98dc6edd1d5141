"""What tests share: where the repository is, and python code in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
# At the end: `test` and others there have names of the standard library.
if str(TOOLS) not in sys.path:
    sys.path.append(str(TOOLS))

import child  # noqa: E402


class FreshProcess:
    """Runs python code in new processes that share one set of directories under `home` and nothing of this process."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, hashseed: int | str = 0, **env: str) -> dict[str, str]:
        # Most tests are about the graph cache, and a frame that hits would pass by its look-up.
        more = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(hashseed), "AOT_CACHE_FRAMES": "0", **env}
        return child.environment(self.home, **more)

    def __call__(
        self,
        code: str | Path,
        *arguments: str,
        hashseed: int | str = 0,
        env: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> Any:
        """The JSON on the last line of stdout of `code` (source text, or a file), run with `arguments` in sys.argv[1:].

        Fails the test, with the tail of all that was printed, if the exit code is not 0 or that line is not JSON.
        """
        start = [str(code)] if isinstance(code, Path) else ["-c", code]
        finished = subprocess.run(
            [sys.executable, *start, *arguments],
            env=self.environment(hashseed, **(env or {})),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        said = "\n".join((finished.stdout + finished.stderr).rstrip().splitlines()[-40:])
        assert finished.returncode == 0, f"the process exited with {finished.returncode}:\n{said}"
        try:
            return json.loads(finished.stdout.rstrip().rpartition("\n")[2])
        except ValueError:
            raise AssertionError(f"the last line of stdout is not JSON:\n{said}") from None
