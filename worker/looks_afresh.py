"""A changed membership has every fire looked at again: at once, but for one worker that flaps once a minute at most.

A look reads the marks of all jobs. A worker whose disk, clock or session comes and goes would have every other one read
them each time. Until the look comes, what it leaves undecided is what any fire is whose first rank has died: the next
rank takes it after its hedge, or the steward offers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from common.clock import Clock
from common.protocol.member import Member

EVERY_S: Final = 60.0


class LooksAfresh:
    """Told of each change of who accepts fires; has ``look`` called."""

    def __init__(self, look: Callable[[], None], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._known: dict[str, tuple[object, ...]] = {}
        self._looked: dict[str, float] = {}
        """Because of whom, and when, within the last minute."""
        self._waiting: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def changed(self, accepting: Mapping[str, Member]) -> None:
        """These accept fires now."""
        known = {name: (member.slots, *sorted(member.labels.items())) for name, member in accepting.items()}
        changed = {name for name in known.keys() | self._known.keys() if known.get(name) != self._known.get(name)}
        self._known = known
        now = self._clock.monotonic()
        self._looked = {name: at for name, at in self._looked.items() if now < at + EVERY_S}
        if changed <= self._looked.keys():
            self._waiting |= changed
            self._look_later(now)
        else:
            self._look_now(changed)

    def _look_later(self, now: float) -> None:
        if self._waiting and self._timer is None:
            due_s = min(self._looked[name] for name in self._waiting) + EVERY_S - now
            self._timer = asyncio.get_running_loop().call_later(due_s, self._look_now, ())

    def _look_now(self, changed: Iterable[str]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.monotonic()
        self._looked.update(dict.fromkeys((*changed, *self._waiting), now))
        self._waiting.clear()
        self._look()
