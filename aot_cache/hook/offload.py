"""`aot_cache.offload`: what is compiled inside the block is planned for a budget, and keeps to it ever after.

The budget is one of near memory (that of the tensors' device), of one graph, at any step of its forward or backward. All
that the graph sees counts, as long as the graph needs it: parameters and other inputs, what is saved for the backward,
what is computed, gradients, and outputs until the forward returns: what the caller keeps of them is the caller's. Values
that Inductor is known to compute inside of loops do not count, nor do other graphs, the optimizer's state, the compiler,
or what a kernel allocates for itself.

The block ends, the code that was compiled in it moves tensors ever after: the far tier stays open. Of two blocks for one
kind of device the later one's far, far_limit and inflight count for all code.

A plan is asked for, so nothing here is silent: entering raises TransferError (no such far tier); the compiled call raises
BudgetTooSmall (says the smallest that can be met), MustNotMove, IllegalSchedule (a plan that was given does not do), and
when it runs FarTierFull or another TransferError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from ..offloading import active, far, report
from ..offloading.options import Options
from ..offloading.session import Planned, Session
from ..torch_compat import compiling, partition
from .install import current

log = logging.getLogger("aot_cache")


class Offload:
    """A block of offload. `plans`: one a graph with a backward, in the order in which they were compiled or loaded."""

    def __init__(self, options: Options) -> None:
        self._session = Session(options)
        self._stack = ExitStack()
        self._step: report.Measured | None = None

    def __enter__(self) -> Offload:
        """Raises TransferError: there is no such far tier. HookMismatch: it does not work with this torch."""
        far.require(self._session.options)
        # The cache may have waited for torch's compiler to be imported.
        partition.require()
        with ExitStack() as stack:
            stack.enter_context(active.entered(self._session))
            cached = self._is_cached()
            stack.enter_context(partition.cutting(self._session.cut, cached))
            if cached:
                stack.enter_context(_captured())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
        if not self.plans and error[0] is None:
            said = "nothing with a backward was compiled inside the block; code that was compiled before stays as it is"
            log.warning("aot_cache.offload: %s: call torch.compiler.reset() first to have it planned", said)

    @property
    def plans(self) -> list[Planned]:
        return list(self._session.plans)

    @property
    def measured(self) -> report.Measured | None:
        """Bytes of the last step that `step` was around; None before that."""
        return self._step

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around one step (forward and backward) after the first: measures it for `report`."""
        devices = {plan.device for plan in self.plans} or {"cpu"}
        with report.measured(devices.pop()) as self._step:
            yield

    def report(self) -> str:
        """The plans, and the step that was measured against them, for people."""
        return report.text(self._session, self._step)

    def _is_cached(self) -> bool:
        """Whether only our own cache, whose keys know of plans, would be asked."""
        installed = current()
        is_ours = installed is not None and installed.failure is None and not compiling.torchs_own_protocol()
        return is_ours and not self._session.options.dry_run


def _captured() -> AbstractContextManager[None]:
    """In which joint graphs are kept for other budgets; on a torch that has not what this needs, each budget traces."""
    try:
        from ..torch_compat import tracing
    except ImportError as error:
        log.debug("aot_cache: joint graphs are not kept: %s", error)
        return nullcontext()
    installed = current()
    return nullcontext() if installed is None else tracing.captured(installed.cache.joints)
