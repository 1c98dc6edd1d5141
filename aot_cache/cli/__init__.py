"""The command line: one file a verb. Never imports torch (the command that `warm` runs may).

A verb module has HELP, `add(parser)` for its options, and `run(arguments)`, which gives the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..errors import AotCacheError, SettingError
from .report import flush, note, printable

YES, NO, USAGE, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130

_VERBS = ("inspect", "stats", "explain", "verify", "prune", "clear", "export", "import", "warm", "doctor")
_NO = "bad entry, unknown key, unusable directory, problem found"
_CODES = f"exit codes: 0 yes; 1 no ({_NO}); 2 usage; 3 unexpected; 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and give the exit code; never raises."""
    try:
        code = _answer(argv)
        flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except AotCacheError as error:  # they say in full what is wrong, and what to do
        if _debugging():
            note(traceback.format_exc().rstrip())
        note(f"aot-cache: {printable(str(error))}")
        return USAGE if isinstance(error, SettingError) else NO
    except Exception as error:
        return _unexpected(error)


def _answer(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = _parser(words[0] if words else "").parse_args(words)
    except SystemExit as stop:  # argparse has printed the help, or said what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    return arguments.run(arguments)


def _parser(verb: str) -> argparse.ArgumentParser:
    """Knows `verb` alone, whose module is imported, or every verb if that is none of them."""
    parser = argparse.ArgumentParser(
        prog="aot-cache", description="Look at and look after the cache of torch.compile.", epilog=_CODES
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name in [verb] if verb in _VERBS else _VERBS:
        module = _module(name)
        its = verbs.add_parser(name, help=module.HELP, description=module.__doc__, epilog=_CODES)
        its.add_argument("--dir", metavar="PATH", help="the cache directory (default: AOT_CACHE_DIR, else the user's)")
        module.add(its)
        its.set_defaults(run=module.run)
    return parser


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f".{verb}_" if keyword.iskeyword(verb) else f".{verb}", __name__)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib import metadata

        try:
            version = metadata.version("aot_cache")
        except metadata.PackageNotFoundError:
            version = "(not installed for this Python)"
        print(f"aot-cache {version}")
        parser.exit()


def _debugging() -> bool:
    return os.environ.get("AOT_CACHE_DEBUG") == "1"


def _unexpected(error: Exception) -> int:
    if _debugging():
        note(traceback.format_exc().rstrip())
    note(f"aot-cache: {printable(f'{type(error).__name__}: {error}')} (AOT_CACHE_DEBUG=1 shows where)")
    return UNEXPECTED
