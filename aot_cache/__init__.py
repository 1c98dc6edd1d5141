"""ccache for torch.compile: a restarted process starts warm.

Installed is enough: `import torch` installs the hook. `enable`, `disable` and `enabled` do it by hand; `stats` and
`events` tell what became of the graphs of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .hook.offload import Offload
    from .offloading.residence import Residence
    from .outcome import Outcome

__version__ = "0.1.0"
__all__ = ["disable", "enable", "enabled", "errors", "events", "mark", "offload", "offload_weights", "stats"]


def enable(**settings: Any) -> None:
    """Turn the cache on, with settings over the environment over defaults; replaces an earlier `enable`.

    Keywords: directory, size_limit, mode, assert_hit, wait, verify, frames, cpu, enabled; see README.

    Raises:
        SettingError: a setting is not valid; names the setting, the value and what is allowed.
        HookMismatch: this torch is not supported.
    """
    from .settings import Settings

    resolved = Settings.resolve(settings)
    from .torch_compat.collector import paused

    with paused():
        from .hook.install import install

        _forget_autoload()
        install(resolved)


def disable() -> None:
    """Turn the cache off and put every patched name of torch back."""
    _forget_autoload()
    import sys

    if (early := sys.modules.get(f"{__name__}.torch_compat.registrations")) is not None:
        early.stop_early()
    if f"{__name__}.hook.install" in sys.modules:
        from .hook.install import uninstall

        uninstall()


@contextmanager
def enabled(**settings: Any) -> Iterator[None]:
    """`enable(**settings)` for a block, then what was before."""
    from .hook.install import current, install

    before = current()
    enable(**settings)
    try:
        yield
    finally:
        if before is None:
            disable()
        else:
            install(before.settings)


def offload(
    budget: str | int | None = None,
    far: str | None = None,
    *,
    inflight: str | int | None = None,
    far_limit: str | int | None = None,
    link: tuple[float, ...] | None = None,
    plan: str | None = None,
    policy: Any = None,
    dry_run: bool = False,
) -> Offload:
    """A block; training graphs that torch.compile compiles inside it, or loads, keep to a memory budget ever after.

    What was compiled before stays as it is until torch.compiler.reset(). See `hook.offload` for what counts, and when.

    budget: bytes, or a size such as 4GB, that one graph may have near at any step.
    far: "host" (pinned memory) or "disk:DIRECTORY" (a file without a name); by default whichever the tensors need.
    inflight: the size of what may be on its way at a time, each way; half the budget by default.
    far_limit: the size that the far tier may have.
    link: bytes per second out and in, and seconds of latency; measured by default.
    plan: the path of a record (`Planned.text`) that is carried out as it is, in the place of a budget.
    policy: a function of a saved offloading.problem.Storage that answers must, prefer, never or None.
    dry_run: only plan; what is compiled is as without the block, and is not cached.

    Raises:
        SettingError, ScheduleSyntax: a value is not allowed; names it and says what is.
    """
    from .hook.offload import Offload
    from .offloading.options import Options

    return Offload(Options.of(budget, far, inflight, far_limit, link, plan, policy, dry_run))


def mark(tensor: Tensor, wish: str = "must") -> Tensor:
    """In a compiled model, `tensor` to be used in its place: `offload` must, should ("prefer") or must "never" move it.

    Raises:
        SettingError: `wish` is not one of these.
    """
    from .offloading.wishes import mark

    return mark(tensor, wish)


def offload_weights(model: nn.Module, budget: int | str, far: str) -> Residence:
    """Move the weights of a model for inference to a far tier; each use brings what it needs in, and drops it after.

    Parameters and buffers in storages of 64 KiB and more move; tied ones are one. The copy in the far tier is the
    master: state_dict() refers to it, load_state_dict() writes to it. Works in eager code and under torch.compile,
    where compiled code depends on neither the values nor the budget. Convert and copy the model before.

    budget: bytes, or a size such as 4GB, of weights that may be near at a time: in use, or on their way ahead of it.
    far: "disk:DIRECTORY" (a file without a name) for weights on the CPU, "host" (pinned memory) for an accelerator's.

    Returns counters in bytes: far, near, peak, moved_in; and `held`, the weights that something else keeps near.

    Using the model raises TransferError: one operation needs more than the budget at a time, or the far tier failed.

    Raises:
        OffloadError: a parameter requires grad, is held by an optimizer, is offloaded already or on another device.
        BudgetTooSmall: the largest weight does not fit; says how large it is.
        SettingError: a value is not allowed; names it and says what is.
        FarTierFull, TransferError: the weights cannot be copied out; the model stays as it was.
    """
    from .offloading import weights

    return weights.offload_weights(model, budget, far)


def stats() -> dict[str, int]:
    """Counts of this process: graph_hit graph_miss graph_bypass frame_hit frame_miss frame_bypass error."""
    from .outcome import LEDGER

    return LEDGER.stats()


def events() -> list[Outcome]:
    """The outcomes of this process in order, each with kind, key, seconds and, unless it is a Hit, its reason."""
    from .outcome import LEDGER

    return LEDGER.events()


_autoloading: Any = None


def _autoload() -> None:
    """Called by torch at the end of its import (entry point in the group torch.backends). Never raises."""
    global _autoloading
    import logging
    import os
    import sys

    if os.environ.get("AOT_CACHE", "").strip().lower() in ("0", "false", "no", "off"):
        return  # torch stays as it is
    try:
        from .torch_compat.late import COMPILER, BeforeImport

        if "torch" in sys.modules:  # else torch will call again
            from .torch_compat import registrations, registries

            registrations.start_early()
            registries.start_early()
        _forget_autoload()
        _autoloading = BeforeImport(COMPILER, _install_late)
    except Exception:  # an exception here would break `import torch`
        logging.getLogger(__name__).warning("aot_cache: the cache is off", exc_info=True)


def _install_late() -> None:
    from .hook.install import install_from_environment

    install_from_environment()


def _forget_autoload() -> None:
    global _autoloading
    if _autoloading is not None:
        _autoloading.cancel()
        _autoloading = None
