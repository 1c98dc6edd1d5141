"""What a user asks of `aot_cache.offload`, checked once, and frozen. Pure: no torch."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..errors import SettingError
from ..settings import parse_size
from .fields import UNLIMITED
from .problem import Storage
from .schedule import HEADER, VERSION, Budget, Link, Schedule, parse, render

Wish = Literal["must", "prefer", "never"]
WISHES: tuple[Wish, ...] = ("must", "prefer", "never")
Policy = Callable[[Storage], Wish | None]
# Shares of the activations that are kept at most, while the rest is recomputed: torch's activation_memory_budget.
KNOBS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
# How far from the best of them it is looked for a better one.
FINER = 0.05


@dataclass(frozen=True)
class Options:
    """See `aot_cache.offload`. kind: "disk", "host" or "auto"; directory: of a tier on disk; fixed: a plan's text;
    halved: of the near memory, half may be on its way, since nothing else was asked for.
    """

    budget: Budget
    kind: str
    directory: Path
    link: Link | None
    fixed: str | None
    policy: Policy | None
    dry_run: bool
    halved: bool = False

    @classmethod
    def of(
        cls,
        budget: Any,
        far: Any,
        inflight: Any = None,
        far_limit: Any = None,
        link: Any = None,
        plan: Any = None,
        policy: Policy | None = None,
        dry_run: bool = False,
    ) -> Options:
        """Raises SettingError, ScheduleSyntax: a value is not allowed; says which, and what is."""
        kind, directory = _far(far)
        # As the printer writes it: comments and blank lines make no other key.
        fixed = None if plan is None else render(parse(_text(plan)))
        if policy is not None and not callable(policy):
            raise SettingError("policy", policy, "a function of one storage")
        if fixed is not None:
            for name, value in (("budget", budget), ("inflight", inflight), ("far_limit", far_limit), ("link", link)):
                if value is not None:
                    raise SettingError(name, value, "left out where a plan is given, which has its own")
            if policy is not None:
                raise SettingError("policy", policy, "left out where a plan is given")
            return cls(parse(fixed).budget, kind, directory, None, fixed, None, dry_run)
        near = parse_size("budget", "" if budget is None else budget)
        limit = UNLIMITED if far_limit is None else parse_size("far_limit", far_limit)
        bounds = Budget(near, limit, _half(near) if inflight is None else parse_size("inflight", inflight))
        return cls(bounds, kind, directory, _link(link), None, policy, dry_run, inflight is None)

    def at(self, near: int) -> Budget:
        """The budget, had `near` bytes been asked for."""
        inflight = _half(near) if self.halved else self.budget.inflight
        return replace(self.budget, near=near, inflight=inflight)

    @property
    def schedule(self) -> Schedule | None:
        """The fixed plan."""
        return None if self.fixed is None else parse(self.fixed)

    def facts(self) -> dict[str, str]:
        """What decides the plan of a graph, but for the policy; no path, and no rate that was measured.

        Not the kind of tier: that is a matter of the graph's device.
        """
        link = "probed" if self.link is None else _words("link", self.link)
        plan = "" if self.fixed is None else hashlib.blake2b(self.fixed.encode(), digest_size=16).hexdigest()
        budget = {name: form.write(name, getattr(self.budget, name)) for name, form in HEADER["budget"].items()}
        return {**budget, "link": link, "plan": plan, "record": str(VERSION)}


def _words(line: str, value: Any) -> str:
    """As a line of a record says it."""
    return " ".join(f"{name}={form.write(name, getattr(value, name))}" for name, form in HEADER[line].items())


def finer(knob: float) -> list[float]:
    """The shares next to the best of KNOBS that are tried after it."""
    return [near for near in (round(knob - FINER, 2), round(knob + FINER, 2)) if 0 < near < 1]


def _half(near: int) -> int:
    return max(near // 2, 1)


def _far(far: Any) -> tuple[str, Path]:
    allowed = "disk, disk:DIRECTORY or host"
    if far is None:
        return "auto", _temporary()
    if far in ("disk", "host"):
        return far, _temporary()
    kind, colon, path = str(far).partition(":")
    if kind != "disk" or not path or "\0" in path:
        raise SettingError("far", far, allowed)
    directory = Path(path).expanduser().absolute()
    if not directory.is_dir():
        raise SettingError("far", far, f"{allowed}, and the directory must be there")
    return kind, directory


def _temporary() -> Path:
    # /tmp is often memory, where a far tier saves nothing.
    kept = Path("/var/tmp")
    is_usable = not os.environ.get("TMPDIR") and os.access(kept, os.W_OK | os.X_OK)
    return kept if is_usable else Path(tempfile.gettempdir())


def _link(link: Any) -> Link | None:
    allowed = "(bytes per second out, bytes per second in) or (out, in, seconds of latency), each above 0"
    if link is None or isinstance(link, Link):
        return link
    numbers = list(link) if isinstance(link, Sequence) and not isinstance(link, str) else []
    valid = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool) and 0 < n < float("inf")]
    if len(numbers) not in (2, 3) or len(valid) != len(numbers):
        raise SettingError("link", link, allowed)
    return Link(float(numbers[0]), float(numbers[1]), 1, float(numbers[2]) if len(numbers) == 3 else 0.0)


def _text(plan: Any) -> str:
    try:
        return Path(plan).read_text()
    except (OSError, TypeError, ValueError) as error:
        raise SettingError("plan", str(plan), f"the path of a plan's record ({error})") from None
