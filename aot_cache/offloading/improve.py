"""A choice of storages made better, a storage or two at a time. Pure: no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .choose import Choice, Chooser
from .problem import Storage

# What may be spent on one choice: visits of steps by simulations, and simulations at least; and this many quick looks
# at whether a change could do for each simulation.
VISITS, FEWEST_TRIES, LOOKS = 200_000, 50, 20
# A step is as good as the shortest that there could be if it takes so little longer.
CLOSE = 1e-6


def improved(chooser: Chooser, best: Choice, shortest: float) -> Choice:
    """`best` less what does not pay, then with others in place of some. shortest: seconds that no step is under."""
    visits = len(chooser.problem.forward) + len(chooser.problem.backward)
    tries = max(FEWEST_TRIES, VISITS // max(1, visits))
    looks = tries * LOOKS
    changed = True
    while changed:
        changed = False
        for chosen in neighbours(chooser, best, shortest):
            looks -= 1
            if looks < 0 or tries == 0:
                return best
            if not chooser.could(chosen):
                continue
            tries -= 1
            other = chooser.choice(chosen, best.head, best.flying)
            if other and other.cost < best.cost:
                best, changed = other, True
                break
    return best


def neighbours(chooser: Chooser, best: Choice, shortest: float) -> Iterator[Sequence[Storage]]:
    """One storage less, shortest slack first; and if the step could be shorter, one in place of another, at first
    smaller ones, which have less to move, and one more.
    """
    moved = {storage.name for storage in best.chosen}
    loose = {storage.name for storage in best.chosen[best.head :]}
    room = chooser.budget.far - sum(storage.bytes for storage in best.chosen)
    free = [storage for storage in reversed(chooser.order) if storage.name in loose]
    rest = [storage for storage in chooser.order if storage.name not in moved]
    for old in free:
        yield [storage for storage in best.chosen if storage is not old]
    predict = best.simulation.prediction
    if predict.stall == 0 or predict.step <= shortest * (1 + CLOSE):
        return
    pairs = [(old, new) for old in free for new in rest if new.bytes <= room + old.bytes]
    pairs.sort(key=lambda pair: pair[1].bytes >= pair[0].bytes)  # Stable: the order by slack stays.
    for old, new in pairs:
        yield [new if storage is old else storage for storage in best.chosen]
    yield from ([*best.chosen, new] for new in rest if new.bytes <= room)
