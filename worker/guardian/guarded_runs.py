"""The runs that a guardian guards, as its worker reports them, and which of them are past their deadlines. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from worker.guardian.messages import Adopt, Confirmed, Intent

_CONFIRMED_WITHIN_S: Final = 2.0
"""Of a leap of the wall clock; else the time that it may stand for counts."""
_MOST_SESSIONS: Final = 16
"""A worker has one session after the other; those that no run names any more are forgotten beyond this many."""


@dataclass(slots=True, kw_only=True, eq=False)
class GuardedRun:
    """One run that is open in the worker."""

    run: str
    session: str
    allowance_s: float | None
    grace_s: float
    locked: bool
    pid: int | None = None
    """Of its first process; None: only the intent is known."""
    past_since: float | None = None
    """When it was found to be past its deadline: there is no way back."""
    ended_by_worker: bool = False
    """The worker has sent a TERM because of it."""

    @property
    def has_deadline(self) -> bool:
        """Whether it may be given up as lost while something of it still starts, or keeps others from starting."""
        return self.allowance_s is not None and (self.locked or self.pid is None)


class GuardedRuns:
    """The guarded runs by their ids, and the sessions that they name."""

    def __init__(self) -> None:
        self._guarded: dict[str, GuardedRun] = {}
        self._confirmed: dict[str, float] = {}
        self._leapt_at = 0.0
        self._leapt_by = 0.0
        """All leaps together: what a session may have slept that is heard of only afterwards."""
        self._uncounted: dict[str, float] = {}
        """By session: seconds that may have passed since it was confirmed, and that the boot clock has not counted."""

    def __iter__(self) -> Iterator[GuardedRun]:
        return iter(self._guarded.values())

    def __len__(self) -> int:
        return len(self._guarded)

    def get(self, run: str) -> GuardedRun | None:
        return self._guarded.get(run)

    @property
    def has_deadlines(self) -> bool:
        """Whether there is anything to look at as time passes."""
        return any(guarded.has_deadline for guarded in self)

    @property
    def has_intents(self) -> bool:
        """Whether a process may be there, or be about to, of which no more is known than its run."""
        return any(guarded.pid is None for guarded in self)

    def intend(self, message: Intent) -> None:
        """A process of the run is about to be started; sent again where the start is tried again."""
        self.confirm(Confirmed(message.session, message.confirmed))
        known = self._guarded.get(message.run)
        guarded = GuardedRun(
            run=message.run, session=message.session, allowance_s=message.allowance_s,
            grace_s=message.grace_s, locked=message.locked,
        )  # fmt: skip
        guarded.past_since = known.past_since if known is not None else None
        self._guarded[message.run] = guarded

    def adopt(self, message: Adopt) -> None:
        """The run's key names another session now."""
        self.confirm(Confirmed(message.session, message.confirmed))
        if (guarded := self._guarded.get(message.run)) is not None:
            guarded.session = message.session

    def confirm(self, message: Confirmed) -> None:
        """Never backwards: what comes late is older."""
        if len(self._confirmed) >= _MOST_SESSIONS and message.session not in self._confirmed:
            named = {guarded.session for guarded in self}
            self._confirmed = {session: at for session, at in self._confirmed.items() if session in named}
        is_new = message.session not in self._confirmed
        self._confirmed[message.session] = max(message.confirmed, self._confirmed.get(message.session, 0.0))
        if message.confirmed >= self._leapt_at:
            self._uncounted.pop(message.session, None)
        elif is_new:
            self._uncounted[message.session] = self._leapt_by

    def leapt(self, by_s: float, now: float) -> None:
        """The wall clock has gone ahead of the boot clock: the machine may have stood still for as long."""
        self._leapt_at = now
        self._leapt_by += by_s
        self._uncounted = {session: by_s + self._uncounted.get(session, 0.0) for session in self._confirmed}

    def over(self, run: str) -> GuardedRun | None:
        """The run, which is guarded no more; None: it was not."""
        return self._guarded.pop(run, None)

    def newly_past(self, now: float) -> list[GuardedRun]:
        """Those that have passed their deadlines since this was last asked; ``now`` is the boot clock's, in seconds."""
        found = [guarded for guarded in self if guarded.past_since is None and self._is_past(guarded, now)]
        for guarded in found:
            guarded.past_since = now
        return found

    def _is_past(self, guarded: GuardedRun, now: float) -> bool:
        if not guarded.has_deadline or guarded.allowance_s is None:
            return False
        until, uncounted = (
            self._confirmed[guarded.session] + guarded.allowance_s,
            self._uncounted.get(guarded.session, 0.0),
        )
        may_still_be_confirmed = now < self._leapt_at + _CONFIRMED_WITHIN_S
        return now > until or (now + uncounted > until and not may_still_be_confirmed)
