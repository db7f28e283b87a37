"""When the workers took no fires last, as this one has seen it: so that a fire that nobody took says why.

Of each live worker the last such time is kept, with its reason; of this worker also when it was out of touch with etcd.
A reason is given only where such a time covers all of the fires that it is given for. Times are of the boot clock, so
that a wall clock that was wrong meanwhile harms none.

    taking --drained, disk full, ...--> not taking --that is over--> taking: known from when until when, and why
    taking --etcd silent--> out of touch --all marks read--> taking
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from common.clock import Clock
from common.protocol.member import Member
from common.protocol.placement import in_short

_LONG: Final = 200
_STARTED: Final = "was started later"


class _Absence(Struct, kw_only=True):
    """From one time to another, None while it lasts; seconds of the boot clock."""

    reason: str
    from_s: float
    until_s: float | None = None

    def covers(self, lo_s: float, hi_s: float) -> bool:
        return self.from_s <= lo_s and (self.until_s is None or hi_s <= self.until_s)


class Absences:
    """Kept by whoever sees the workers (`saw`) and by the scheduler of this one (the rest)."""

    def __init__(self, *, worker: str, clock: Clock) -> None:
        """Of this ``worker``'s process, which has taken nothing yet."""
        self._worker = worker
        self._clock = clock
        self._began = False
        self._silence: _Absence | None = None
        self._of: dict[str, _Absence] = {worker: _Absence(reason=_STARTED, from_s=-math.inf)}

    def saw(self, members: Iterable[Member]) -> None:
        """These are live now; of several sessions of one worker the one that takes fires counts."""
        live: dict[str, Member] = {}
        for member in members:
            if member.worker not in live or member.accepts:
                live[member.worker] = member
        self._of = {name: one for name, one in self._of.items() if name in live or name == self._worker}
        for name, member in live.items():
            now_s, absence = self._clock.boottime(), self._of.get(name)
            if not member.accepts:
                reason = member.not_accepting or "its session was detached"
                if absence is None or absence.until_s is not None or absence.reason == _STARTED:
                    self._of[name] = _Absence(reason=reason, from_s=now_s)
                else:
                    absence.reason = reason
            elif absence is None:
                age_s = max(0.0, (self._clock.wall_ms() - member.since_ms) / 1000)
                self._of[name] = _Absence(reason=_STARTED, from_s=-math.inf, until_s=now_s - age_s)
            elif absence.until_s is None and (self._began or name != self._worker):
                absence.until_s = now_s

    def begins(self) -> None:
        """This worker reads the marks, and then decides: at its start, and when it decides again."""
        own = self._of[self._worker]
        if not self._began and own.until_s is None:
            own.until_s = self._clock.boottime()
        self._began = True

    def lost_touch(self, since_s: float) -> None:
        """etcd has been silent since then, by the boot clock; said once more, it is silent since the first time."""
        if self._silence is None or self._silence.until_s is not None:
            self._silence = _Absence(reason="was out of touch with etcd", from_s=since_s)

    def in_touch(self, since_s: float) -> None:
        """All marks have been read, by what was due at that time of the boot clock."""
        if self._silence is not None and self._silence.until_s is None:
            self._silence.until_s = since_s

    def why_late(self, eligible: Iterable[str], lo_ms: int, hi_ms: int) -> str | None:
        """Why none of these workers, which take fires now, took those that were due from ``lo_ms`` to ``hi_ms``.

        Wall times in ms, both included. None: that is not known of each of them for all of the time.
        """
        now_ms, now_s = self._clock.wall_ms(), self._clock.boottime()
        lo_s, hi_s = (now_s - (now_ms - ms) / 1000 for ms in (lo_ms, hi_ms))
        if self._silence is not None and self._silence.covers(lo_s, hi_s):
            return f"late: {self._worker} {self._silence.reason}"
        reasons = []
        for name in sorted(eligible):
            absence = self._of.get(name)
            if absence is None or not absence.covers(lo_s, hi_s):
                return None
            reasons.append(f"{name}: {absence.reason[:_LONG]}")
        return f"late: no worker took it: {in_short(reasons)}" if reasons else None
