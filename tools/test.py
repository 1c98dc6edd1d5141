"""Run the tests: `python3 tools/test.py [pytest's arguments]`. The first run makes .venv; the exit code is pytest's."""

from __future__ import annotations

import os
import sys

import env


def main() -> None:
    env.enter("test")
    os.chdir(env.ROOT)
    # A file's tests share what they compiled, so a file stays on one worker.
    workers = [] if sys.argv[1:] else ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *workers, *sys.argv[1:]])


if __name__ == "__main__":
    main()
