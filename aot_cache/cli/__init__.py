"""The command line: one file a verb. Never imports torch (the command that `warm` runs may).

A verb module has HELP, `add(parser)` for its options, and `run(arguments)`, which gives the exit code.
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Sequence
from importlib import metadata

from ..errors import AotCacheError, SettingError
from . import clear, doctor, explain, export, import_, inspect, prune, stats, verify, warm
from .report import flush, note, printable

YES, NO, USAGE, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130

_VERBS = {
    "inspect": inspect,
    "stats": stats,
    "explain": explain,
    "verify": verify,
    "prune": prune,
    "clear": clear,
    "export": export,
    "import": import_,
    "warm": warm,
    "doctor": doctor,
}
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
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the help, or said what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    return arguments.run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aot-cache", description="Look at and look after the cache of torch.compile.", epilog=_CODES
    )
    parser.add_argument("--version", action="version", version=f"aot-cache {_version()}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, module in _VERBS.items():
        verb = verbs.add_parser(name, help=module.HELP, description=module.__doc__, epilog=_CODES)
        verb.add_argument("--dir", metavar="PATH", help="the cache directory (default: AOT_CACHE_DIR, else the user's)")
        module.add(verb)
        verb.set_defaults(run=module.run)
    return parser


def _version() -> str:
    try:
        return metadata.version("aot_cache")
    except metadata.PackageNotFoundError:
        return "(not installed for this Python)"


def _debugging() -> bool:
    return os.environ.get("AOT_CACHE_DEBUG") == "1"


def _unexpected(error: Exception) -> int:
    if _debugging():
        note(traceback.format_exc().rstrip())
    note(f"aot-cache: {printable(f'{type(error).__name__}: {error}')} (AOT_CACHE_DEBUG=1 shows where)")
    return UNEXPECTED
