"""When the workers took no fires last, as this one has seen it: so that a fire that no worker took says why.

Of each live worker the last such time is kept, with its reason; of this worker also when it was out of touch with etcd;
and who has gone, with when. A reason is given only where such times cover all of the fires that it is given for, or say
since when. Times are of the boot clock, so that a wall clock that was wrong meanwhile harms none.

    taking --drained, disk full, ...--> not taking --that is over--> taking: known from when until when, and why
    taking --etcd silent--> out of touch --all marks read--> taking
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from common.clock import Clock
from common.protocol.absence import away_since, in_short
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from common.protocol.planned_job import PlannedJob

_LONG: Final = 200
_MOST_GONE: Final = 20
"""Workers that are gone; the newest are kept."""
_STARTED: Final = "was started later"


class _Absence(Struct, kw_only=True):
    """From one time to another, None while it lasts; seconds of the boot clock."""

    reason: str
    from_s: float
    until_s: float | None = None

    def covers(self, lo_s: float, hi_s: float) -> bool:
        return self.from_s <= lo_s and (self.until_s is None or hi_s <= self.until_s)


class Absences:
    """Kept by the reader of the workers (`saw`) and by the scheduler of this one (the rest)."""

    def __init__(self, *, worker: str, clock: Clock) -> None:
        """Of this ``worker``'s process, which has taken nothing yet."""
        self._worker = worker
        self._clock = clock
        self._began = False
        self._silence: _Absence | None = None
        self._of: dict[str, _Absence] = {worker: _Absence(reason=_STARTED, from_s=-math.inf)}
        self._live: dict[str, Member] = {}
        self._sessions: dict[str, tuple[str, float]] = {}
        """Of each live one its session, and when that was seen first."""
        self._idle: dict[str, Member] = {}
        """Of the live ones those that take no fires, by name."""
        self._gone: dict[str, tuple[Member, float]] = {}
        """With when each was missed first, oldest first."""

    def saw(self, members: Iterable[Member]) -> None:
        """These are live now; of several sessions of one worker the one that takes fires counts."""
        live: dict[str, Member] = {}
        for member in members:
            if member.worker not in live or member.accepts:
                live[member.worker] = member
        self._of = {name: one for name, one in self._of.items() if name in live or name == self._worker}
        now_s = self._clock.boottime()
        self._gone |= {name: (one, now_s) for name, one in self._live.items() if name not in live}
        self._gone = {name: one for name, one in self._gone.items() if name not in live}
        for name in list(self._gone)[:-_MOST_GONE]:
            del self._gone[name]
        before = self._sessions
        self._sessions = {
            name: before[name] if name in before and before[name][0] == member.session else (member.session, now_s)
            for name, member in live.items()
        }
        self._live = live
        self._idle = {name: one for name, one in sorted(live.items()) if not one.accepts}
        for name, member in live.items():
            absence = self._of.get(name)
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
        """etcd has been silent since then, by the boot clock; called again, it is silent since the first time."""
        if self._silence is None or self._silence.until_s is not None:
            self._silence = _Absence(reason="was out of touch with etcd", from_s=since_s)

    def in_touch(self, since_s: float) -> None:
        """All marks have been read, by what was due at that time of the boot clock."""
        if self._silence is not None and self._silence.until_s is None:
            self._silence.until_s = since_s

    def all_were_away(self, taking: Iterable[str], lo_ms: int, hi_ms: int) -> bool:
        """Whether each of these was away, or took no fires, when all was due that was from ``lo_ms`` to ``hi_ms``: then
        none of that waits for a slot in one of them. Wall times in ms, both included; False where it is not known.

        Of another this is known as well where its process lost its session while this worker was out of touch with
        etcd: it has looked afresh since.
        """
        now_ms, now_s = self._clock.wall_ms(), self._clock.boottime()
        lo_s, hi_s = (now_s - (now_ms - ms) / 1000 for ms in (lo_ms, hi_ms))
        silence = self._silence if self._silence is not None and self._silence.covers(lo_s, hi_s) else None

        def was_away(name: str) -> bool:
            if name in self._of and self._of[name].covers(lo_s, hi_s):
                return True
            if silence is None or name == self._worker:
                return silence is not None
            if name not in self._live:
                return False
            process_s = now_s - (now_ms - self._live[name].since_ms) / 1000
            return process_s <= silence.from_s < self._sessions[name][1]

        return all(map(was_away, taking))

    def why_late(self, job: PlannedJob, taking: Iterable[str], lo_ms: int, hi_ms: int) -> str | None:
        """Why no worker that may run the job took those of its fires that were due from ``lo_ms`` to ``hi_ms``.

        Wall times in ms, both included. ``taking``: those of them that take fires now. None: it is not known of each of
        these for all of the time, or one that takes none now was here, and took fires, when all of them were due.
        """
        now_ms, now_s = self._clock.wall_ms(), self._clock.boottime()
        lo_s, hi_s = (now_s - (now_ms - ms) / 1000 for ms in (lo_ms, hi_ms))
        if self._silence is not None and self._silence.covers(lo_s, hi_s):
            return f"late: {self._worker} {self._silence.reason}"
        names = sorted(taking)
        if not names or not all(name in self._of and self._of[name].covers(lo_s, hi_s) for name in names):
            return None
        idle = [name for name, one in self._idle.items() if _may_run(job, one)]
        gone = [(name, at_s) for name, (one, at_s) in reversed(self._gone.items()) if _may_run(job, one)]
        if any(from_s > hi_s for from_s in (*(self._of[name].from_s for name in idle), *(at_s for _, at_s in gone))):
            return None
        reasons = [f"{name}: {self._of[name].reason[:_LONG]}" for name in (*names, *idle)]
        reasons += [away_since(name, now_ms - int(1000 * (now_s - at_s)), now_ms=now_ms) for name, at_s in gone]
        return f"late: no worker took it: {in_short(reasons)}"


def _may_run(job: PlannedJob, one: Member) -> bool:
    return job.of_worker in (None, one.worker) and is_eligible(job.spec, one.labels, one.slots)
