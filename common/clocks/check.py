"""Whether this process may trust its own clock: by the steward's comparison, and by its own watch.

    trusted      --the comparison has it certainly beyond the bound--> off
                 --the wall clock leaves the boot clock--> jumped
    off, jumped  --the comparison has the clock as it is now within the bound--> trusted
    off          --the same, of a clock that cannot have moved so far without a jump--> off: the others have moved
                 --not compared for two minutes in which etcd answered--> trusted
    jumped       --there are fewer than three clocks, and it was never compared--> trusted at once; where it leapt
                   ahead, once the kernel calls it synchronised

A process that is not compared is trusted while its clock does not jump. While it is off or has jumped, ``fault`` has
the reason, and nothing may be decided or saved. A failed read of etcd changes no verdict.

Two minutes, since stewards change, and beats of a machine under load come late: the others may be drained, restarted
and slow one after the other, and no clock is compared meanwhile. Not for ever, since a fleet on a slow etcd would never
fire again once NTP has set its clocks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from common.clock import Clock
from common.clocks.watch import ClockWatch
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.instants import from_ms
from common.protocol.clocks import ENOUGH, Clocks, Measured, length, off_by
from common.protocol.keys import Keys
from common.protocol.planner import Held
from common.protocol.txn import KeyValue

_log = logging.getLogger(__name__)

LOOK_S: Final = 10.0
_SOON_S: Final = 1.0
_NEW_S: Final = 60.0
"""For so long after its start others may be starting too, ever less likely: a comparison may be just about to begin."""
STALE_S: Final = 30.0
"""A comparison that has not been written anew for so long no longer counts."""
_UNCOMPARED_S: Final = 120.0
LEAP_S: Final = 60.0
"""A jump ahead by more is a leap: what it passed over could not be taken back, so it is not believed at once."""
FIRST_S: Final = 2.5
"""How long the first decision waits for a first comparison, where there are others to compare with."""
_FIRST_COMPARED_S: Final = 15.0
"""And where enough others beat, or have been compared: its own comes once two beats of it were heard, however slow."""
_FIRST_LOOK_S: Final = 0.25


class ClockCheck:
    """One process's clock, judged."""

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        *,
        process: str,
        watch: ClockWatch,
        clock: Clock,
        max_skew_ms: int,
        on_change: Callable[[str | None], Awaitable[None]],
        is_patient: bool = False,
    ) -> None:
        """``process``: the name of its beat. ``is_patient``: where enough others beat, its first decision waits 15 s
        though there is no comparison yet: of a worker, which would start commands early, not of a manager.

        ``on_change``: is awaited with each new fault, None when it is over; also once after each jump.
        """
        self._client = client
        self._is_patient = is_patient
        self._key, self._beats = keys.clocks, keys.beats
        self._process = process
        self._watch = watch
        self._clock = clock
        self._max_skew_ms = max_skew_ms
        self._on_change = on_change
        self._reported: str | None = None
        self._has_to_report = False
        """Whether the fault may have been looked at since it was reported: a jump changes it at once."""
        self._wake = asyncio.Event()
        self._newest: Clocks | None = None
        """However old; None: none was read."""
        self._revision = 0
        self._began_s = self._looked_s = self._fresh_s = self._doubted_s = clock.monotonic()
        """When it began; when etcd was asked last; when a comparison was read last, and when the clock was found off or
        jumped last: both later by as much time as etcd has not answered since."""
        self._first_s: float | None = None
        self._first_for_s = 0.0
        self._is_judged = False
        """Whether it was compared, or no clock is."""
        self._has_others = False
        """Whether enough others beat when it began that a comparison is to come, though there is none yet."""
        self._was_compared = False
        self._has_jumped = False
        self._has_leapt = False
        """Whether its last jump was a leap; neither holds once it was compared."""
        self._off: Measured | None = None
        """How it was when it was found off last; None once it is trusted."""
        self._held_from_ms: int | None = None
        self.held: Held | None = None
        """For how long a leap had this process decide nothing, by the clock that was then taken for right."""
        self.fault: str | None = None
        """Why nothing may be decided by this clock; None: it may."""
        self.awaited: str | None = None
        """While the first decision waits: what for, and until when by this clock, in words."""

    @property
    def clocks(self) -> Clocks | None:
        """The newest comparison; None: there has been none for 30 s."""
        return self._newest if self._clock.monotonic() - self._fresh_s <= STALE_S else None

    @property
    def is_vouched_for(self) -> bool:
        """Whether the wall clock is right as far as is known: it was compared since its last jump, or there are
        too few clocks to compare it with. Trusted for want of a comparison is not enough."""
        return self.fault is None and (not self._has_jumped or self._are_too_few)

    @property
    def _are_too_few(self) -> bool:
        return self._newest is not None and not self._newest.are_enough

    def jumped(self, by_s: float) -> None:
        """The wall clock has left the boot clock: what was measured before no longer counts."""
        leaps = by_s > LEAP_S or (self._has_leapt and by_s > -LEAP_S)
        self._has_jumped, self._has_leapt, self._is_judged = True, leaps, False
        self._doubted_s = self._clock.monotonic()
        self.fault = None
        if not self._may_be_trusted():
            jump = f"{length(abs(round(by_s * 1000)))} {'ahead' if by_s > 0 else 'back'}"
            self.fault = f"its clock jumped {jump}, and has not been compared with the others' since"
            if leaps and self._are_too_few:
                self.fault += ", nor synchronised by NTP: it waits for either, two minutes at most"
        self._held_from_ms = self._clock.wall_ms() if self.fault is not None and leaps else None
        self.held = None
        self._has_to_report = True
        self._wake.set()

    async def run(self) -> None:
        """Looks every 10 s, and every second while something is open or it has just begun, until cancelled."""
        while True:
            self._wake.clear()
            await self.look()
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _pause_s(self) -> float:
        if not self._is_judged or self.fault is not None:
            return _SOON_S
        age_s = _NEW_S if self._was_compared else self._clock.monotonic() - self._began_s
        return min(max(_SOON_S, LOOK_S * age_s / _NEW_S), LOOK_S)

    async def first(self) -> None:
        """Before the first decision: returns once this clock is judged, where others are, or after 2.5 s (15 s)."""
        if self._first_s is None:
            self._first_s = self._clock.monotonic()
            with suppress(EtcdError, UnavailableError):  # then etcd does not answer the next question either
                self._has_others = self._is_patient and await self._client.count(self._beats) >= ENOUGH - 1
        try:
            while not self._is_judged:
                are_compared = self._has_others or (self.clocks is not None and self.clocks.measured)
                for_s = _FIRST_COMPARED_S if are_compared else FIRST_S
                left_s = self._first_s + for_s - self._clock.monotonic()
                if left_s <= 0 or not await self.look() or self._is_judged:
                    return
                until = from_ms(self._clock.wall_ms() + round(left_s * 1000))
                awaited = "decides nothing before its clock has been compared with the others'"
                self.awaited = f"{awaited}, or it is {until:%H:%M:%S} UTC"
                if for_s > self._first_for_s:
                    self._first_for_s = for_s
                    extra = {"action": "clock.awaited", "for_s": for_s}
                    _log.info("decides nothing before its clock has been compared, or for %g s", for_s, extra=extra)
                await asyncio.sleep(_FIRST_LOOK_S)
        finally:
            self.awaited = None

    async def look(self) -> bool:
        """Read the comparison and judge by it; False: etcd did not answer, and all stays as it is."""
        try:
            kv = await self._client.get(self._key)
        except (EtcdError, UnavailableError) as error:
            unused_s = self._clock.monotonic() - self._looked_s  # etcd did not answer for so long
            self._looked_s += unused_s
            self._fresh_s = min(self._looked_s, self._fresh_s + unused_s)
            self._doubted_s = min(self._looked_s, self._doubted_s + unused_s)
            _log.debug("the comparison of clocks was not read: %s", error, extra={"action": "clock.unread"})
            return False
        self._looked_s = self._clock.monotonic()
        self._take(kv)
        self._watch.look()  # last: a jump while etcd was asked must not pass for a clock that was found right
        self._judge()
        if self.fault is None and self._held_from_ms is not None:
            self.held, self._held_from_ms = Held(from_ms=self._held_from_ms, until_ms=self._clock.wall_ms()), None
        await self._report()
        return True

    def _take(self, kv: KeyValue | None) -> None:
        """It is fresh as long as its mod revision moves: a time inside would be one more clock."""
        if kv is None or kv.mod_revision == self._revision:
            return
        self._revision = kv.mod_revision
        try:
            self._newest = Clocks.from_json(kv.value)
        except ValueError as error:
            extra = {"action": "clocks.set_aside", "key": kv.key}
            _log.warning("the comparison of clocks in %r is set aside: %s", kv.key, error, extra=extra)
        else:
            self._fresh_s = self._clock.monotonic()

    def _judge(self) -> None:
        clocks, own = self.clocks, self._own()
        if own is None:
            self._is_judged = not self._has_others if clocks is None else not clocks.are_enough
            if self.fault is not None and self._may_be_trusted():
                self.fault, self._off, self._was_compared, self._has_leapt = None, None, False, False
            return
        self._is_judged = self._was_compared = True
        if own.is_off(self._max_skew_ms):
            bound = f"(at most {length(self._max_skew_ms)})"
            self.fault = f"its clock is {off_by(own.offset_ms)} {bound}: mend the clock (NTP)"
            self._doubted_s, self._off = self._clock.monotonic(), own
        elif not self._have_others_moved(own):
            self.fault = self._off = None
            self._watch.agreed()
        self._has_jumped = self._has_leapt = False

    def _have_others_moved(self, own: Measured) -> bool:
        """Whether it was off lately, has not jumped since, and is found right: then what it is compared with is off.

        So where most of few clocks are wrong at once. It is believed after two minutes, as without a comparison.
        """
        before = self._off
        if before is None or before.clock != own.clock or self._clock.monotonic() - self._doubted_s >= _UNCOMPARED_S:
            return False
        moved_ms = abs(own.offset_ms - before.offset_ms)
        return moved_ms > self._max_skew_ms + own.within_ms + before.within_ms

    def _own(self) -> Measured | None:
        """This clock in the comparison, as it is now; None: it is not in it, or not precisely enough after a jump."""
        clocks = self.clocks
        own = None if clocks is None else clocks.measured.get(self._process)
        if own is None or own.clock != self._watch.name:
            return None
        counts = not self._has_jumped or own.within_ms <= self._max_skew_ms or own.is_off(self._max_skew_ms)
        return own if counts else None

    def _may_be_trusted(self) -> bool:
        """Of a clock that has jumped or was found off, and is not compared."""
        if self._clock.monotonic() - self._doubted_s >= _UNCOMPARED_S:
            return True
        is_alone = self._are_too_few and not self._was_compared
        return is_alone and (not self._has_leapt or self._clock.is_synchronised())

    async def _report(self) -> None:
        if self.fault == self._reported and not self._has_to_report:
            return
        before, self._reported, self._has_to_report = self._reported, self.fault, False
        extra = {"action": "clock.off" if self.fault else "clock.trusted", "fault": self.fault or before}
        if self.fault is None and before is not None:
            _log.warning("trusts its clock again%s", "" if self._was_compared else ": nobody compares it", extra=extra)
        elif self.fault != before:
            _log.warning("decides nothing: %s", self.fault, extra=extra)
        await self._on_change(self.fault)
