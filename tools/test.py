"""Run the tests: `python3 tools/test.py [pytest's arguments]`. The first run makes .venv; the exit code is pytest's."""

from __future__ import annotations

import os
import sys

import env


def main() -> None:
    env.enter("test")
    os.chdir(env.ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])


if __name__ == "__main__":
    main()
