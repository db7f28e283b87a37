"""The steward: the one worker with the duties that are no single worker's: lost runs, stuck fires, sweeping and more.

    candidate --election won--> steward: each duty has its turn, again and again
    steward --session over, or a duty failed in an unforeseen way--> candidate (after a failure: for 10 minutes not)
    steward --its clock is off--> candidate, where another worker takes fires; else it only measures clocks
    steward --its disk takes no records--> candidate, where another worker takes fires (once in 10 minutes); else it
        goes on

Every write of a duty compares the leadership and the session, so two stewards at once do no harm: the one that is no
longer steward in etcd's eyes changes nothing. A duty of each second that has very many to look at takes some of them in
each turn (``RoundRobin``), so that a turn costs little and none is passed by for long.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from common.clock import Clock
from common.errors import ClockOffError, EtcdAccessError, EtcdError, UnavailableError
from common.etcd import Election, EtcdClient, Session
from common.process.lifecycle import until_first
from common.protocol.keys import Keys
from common.protocol.txn import Guards


class RoundRobin:
    """Takes names in rounds: all that there were when a round began, `at_least` in a turn, all within so many turns."""

    def __init__(self, names: Callable[[], Iterable[str]], *, at_least: int, turns: int) -> None:
        self._names = names
        self._at_least = at_least
        self._turns = turns
        self._left: list[str] = []
        self._share = 0

    def begin(self) -> None:
        """The next turn begins a round."""
        self._left.clear()

    def turn(self) -> list[str]:
        """The names whose turn it is. One that went meanwhile may be among them; one that came is in the next round."""
        if not self._left:
            self._left = list(self._names())
            self._share = max(self._at_least, -(-len(self._left) // self._turns))
        taken = self._left[-self._share :]
        del self._left[-self._share :]
        return taken


_log = logging.getLogger(__name__)

STAND_DOWN_S: Final = 600.0
_TICK_S: Final = 0.5
_SAY_EVERY_S: Final = 3600.0
_HAND_ON_S: Final = 15.0
"""For so long a worker whose clock is off, or whose disk takes no records, leaves the office to others."""
_DISK: Final = "its disk takes no records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One time of office: what every transaction of a duty compares."""

    session: Session
    election: Election
    is_clock_off: Callable[[], bool] = lambda: False
    """Asked for each transaction: a time that was read before is by a clock that is right."""

    @property
    def holds(self) -> Guards:
        """True in etcd as long as this term lasts. ClockOffError: nothing may be decided by this clock."""
        if self.is_clock_off():
            raise ClockOffError
        return [self.session.alive, self.election.leads_compare]


class Duty(Protocol):
    """Something that the steward does every so often."""

    name: str
    every_s: float

    def begin(self) -> None:
        """A new term begins: forget what a former one has seen."""

    async def perform(self, term: Term) -> None:
        """Do it once. EtcdError and UnavailableError are borne: it is done again next time."""

    def end(self) -> None:
        """The term is over: let go of what was seen in it."""


class Steward:
    """Stands for election under each session, and performs the duties while it leads."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        duties: Sequence[Duty],
        companion: Callable[[], Coroutine[object, object, None]],
        clock: Clock,
        timeless: Sequence[Duty] = (),
        is_clock_off: Callable[[], bool] = lambda: False,
        is_spool_refusing: Callable[[], bool] = lambda: False,
        others_decide: Callable[[], bool] = lambda: False,
    ) -> None:
        """``companion``: what runs beside the duties for as long as the term lasts.

        ``timeless``: more duties, which a wrong clock does not spoil. ``others_decide``: whether some other worker
        takes fires, so that its clock is right, and its disk takes records. ``is_clock_off``: looks at the clock before
        it says so. ``is_spool_refusing``: whether this worker's disk takes no records, so that none are delivered.
        """
        self._client = client
        self._keys = keys
        self._worker = worker
        self._duties = (*duties, *timeless)
        self._timeless = timeless
        self._is_clock_off = is_clock_off
        self._is_spool_refusing = is_spool_refusing
        self._others_decide = others_decide
        self._companion = companion
        self._clock = clock
        self._session: Session | None = None
        self._changed = asyncio.Event()
        self._not_before = clock.monotonic()
        self._handed_on_s = -math.inf
        """When it left the office for its disk's sake."""
        self._postponed: set[str] = set()
        self._not_permitted: dict[str, str] = {}
        self._said_s: dict[str, float] = {}
        self.leading = False

    @property
    def not_permitted(self) -> str | None:
        """Which duties etcd does not let this steward do, with what helps."""
        return "; ".join(f"{name}: {why}" for name, why in self._not_permitted.items()) or None

    def stand_under(self, session: Session | None) -> None:
        """The session that is current now, or none."""
        self._session = session
        self._changed.set()

    async def run(self) -> None:
        """Stands for election until cancelled."""
        while True:
            self._changed.clear()
            session = self._session
            if session is None or session.ended.is_set():
                await self._changed.wait()
                continue
            await self._stand(session)

    async def _stand(self, session: Session) -> None:
        """One candidacy; ends with its session."""
        election = Election(self._client, session, self._keys.steward, self._worker.encode(), clock=self._clock)
        if (rest_s := self._not_before - self._clock.monotonic()) > 0:
            await election.stand_down(rest_s)
        async with asyncio.TaskGroup() as tasks:
            candidacy = tasks.create_task(election.run(), name="election")
            leading = tasks.create_task(self._lead_again_and_again(session, election), name="steward")
            await candidacy
            leading.cancel()
        self.leading = False

    async def _lead_again_and_again(self, session: Session, election: Election) -> None:
        while True:
            await election.gained.wait()
            if not election.leading:  # the session is not healthy, and the election does not show it yet
                await asyncio.sleep(_TICK_S)
                continue
            self.leading = True
            extra = {"action": "steward.begins"}
            _log.info("is the steward now", extra=extra)
            try:
                await self._lead_in_company(Term(session=session, election=election))
            except Exception:  # whatever a duty met, another worker may do better
                self._not_before = self._clock.monotonic() + STAND_DOWN_S
                extra = {"action": "steward.failed"}
                _log.exception("a duty failed; does not stand for steward for 10 minutes", extra=extra)
                await election.stand_down(STAND_DOWN_S)
            self.leading = False

    async def _lead_in_company(self, term: Term) -> None:
        try:
            await until_first(self._companion(), self._lead(term))
        finally:
            self._not_permitted.clear()
            for duty in self._duties:
                duty.end()

    async def _lead(self, term: Term) -> None:
        due = {id(duty): self._clock.monotonic() for duty in self._duties}
        for duty in self._duties:
            duty.begin()
        dated, was_off = replace(term, is_clock_off=self._is_clock_off), False
        while term.election.leading:
            if (why := self._why_unfit()) is not None and self._others_decide():
                extra = {"action": "steward.hands_on"}
                _log.warning("%s: leaves the office of steward to others", why, extra=extra)
                if why is _DISK:
                    self._handed_on_s = self._clock.monotonic()
                await term.election.stand_down(_HAND_ON_S)
                return
            if (is_off := self._is_clock_off()) != was_off:
                was_off = is_off
                for duty in self._duties:
                    if duty not in self._timeless:
                        duty.begin()  # what it has seen and planned, it has by another clock
            for duty in self._duties:
                is_timeless = duty in self._timeless
                if self._clock.monotonic() >= due[id(duty)] and (is_timeless or not self._is_clock_off()):
                    await self._perform(duty, term if is_timeless else dated)
                    due[id(duty)] = self._clock.monotonic() + duty.every_s
            await asyncio.sleep(_TICK_S)

    def _why_unfit(self) -> str | None:
        """Why another worker would do better."""
        if self._is_clock_off():
            return "its clock is off"
        if self._clock.monotonic() - self._handed_on_s < STAND_DOWN_S:
            return None  # it has the office again: no worker with a good disk has taken it
        return _DISK if self._is_spool_refusing() else None

    async def _perform(self, duty: Duty, term: Term) -> None:
        try:
            await duty.perform(term)
            self._postponed.discard(duty.name)
            self._not_permitted.pop(duty.name, None)
        except EtcdAccessError as error:
            self._not_permitted[duty.name] = str(error)
            now = self._clock.monotonic()
            # Once an hour: nothing else shows that it is not done.
            if now - self._said_s.get(duty.name, -_SAY_EVERY_S) >= _SAY_EVERY_S:
                self._said_s[duty.name] = now
                extra = {"action": "steward.refused", "duty": duty.name}
                _log.warning("what the steward may not do in etcd: %s: %s", duty.name, error, extra=extra)
        except (EtcdError, UnavailableError) as error:
            level = logging.DEBUG if duty.name in self._postponed else logging.WARNING  # one line for each outage
            self._postponed.add(duty.name)
            extra = {"action": "steward.postponed", "duty": duty.name}
            _log.log(level, "%s is postponed: %s", duty.name, error, extra=extra)
