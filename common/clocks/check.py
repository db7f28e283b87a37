"""Whether this process may trust its own clock: what the steward's comparison says of it, and what it sees itself.

    not compared --fewer than three clocks, or no comparison for 30 s--> trusted, with a note
    compared     --certainly beyond the bound--> off, until it may be within again
    jumped       --to where it must be wrong--> off, until a comparison made after the jump says otherwise
                 --nobody knows where to, others are compared--> off likewise, but for 30 s at most: its beats are too
                                                                slow, or the steward's way is
                 --in the first minute of a process that knows of no comparison--> off until there is one, 15 s at most
                 --back to where it is right--> trusted at once
                 --the steward compares no clocks at all--> trusted at once; more than a minute ahead: off
                                         until it is compared, or the kernel calls it synchronised, 120 s at most
    off          --not compared any more--> off as long as others are; then for 30 s, or 120 s where it must be wrong

Where a jump has led to is known from the offset that was measured before and the length of the jump: the boot clock
tells it. While the clock is off, ``fault`` says why; nothing may be decided or saved then. Reading etcd in vain changes
no verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from common.clock import Clock
from common.clocks.comparison import STALE_S, ClocksRead
from common.clocks.expectation import Expectation
from common.clocks.watch import ClockWatch
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.instants import from_ms
from common.protocol.clocks import Clocks, Measured, length, off_by
from common.protocol.keys import Keys
from common.protocol.planner import Held

_log = logging.getLogger(__name__)

LOOK_S: Final = 10.0
_WRONG_FOR_S: Final = 120.0
"""A clock that must be wrong, or has leapt, is not trusted sooner, even where clocks are no longer compared."""
LEAP_S: Final = 60.0
"""A jump ahead by more is a leap: what it passed over could not be taken back, so it is not believed at once."""
FIRST_S: Final = 2.5
"""How long the first decision waits for a first comparison, where there are others to compare with."""
_FIRST_COMPARED_S: Final = 15.0
"""And where the others have been compared: its own comes as soon as two beats of it were heard, however slowly."""
_SOON_S: Final = 1.0
_NEW_S: Final = 60.0
"""For so long after its start, others may be starting too: a comparison may be just about to begin."""
_FIRST_LOOK_S: Final = 0.25


class Memory(Protocol):
    """What outlives the process of where its clock was right."""

    def recall(self) -> tuple[float, int] | None:
        """How far it is from there now, and by how much that may be wrong, in ms; None: nobody knows."""

    def remember(self, offset_ms: int, within_ms: int) -> None:
        """It has been found right, that far from the others'."""

    def forget(self) -> None:
        """It is taken for right where it is now, though nobody has compared it."""


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
        memory: Memory | None = None,
    ) -> None:
        """``process``: the name of its beat.

        ``on_change``: is awaited with each new fault, None when it is over; also once after each jump.
        """
        self._client = client
        self._key = keys.clocks
        self._process = process
        self._watch = watch
        self._clock = clock
        self._max_skew_ms = max_skew_ms
        self._on_change = on_change
        self._told: str | None = None
        self._has_to_tell = False
        """Whether the fault may have been looked at since it was told: a jump changes it at once."""
        self._wake = asyncio.Event()
        self._read = ClocksRead(clock)
        self._first_s: float | None = None
        self._awaited_for_s: float | None = None
        """How long the first decision waits at most, while it does."""
        self._said_for_s = 0.0
        self._began_s = clock.monotonic()
        self._settled = False
        self._has_jumped = False
        self._has_leapt = False
        """Whether its last jump was a leap, and it has not been confirmed since."""
        self._held_from_ms: int | None = None
        self.held: Held | None = None
        """For how long a leap had this process decide nothing, by the clock that was then taken for right."""
        self._jump: str | None = None
        """What is to be said of the last jump, while nothing else is known."""
        self._memory = memory
        self._expected = Expectation(None if memory is None else memory.recall(), max_skew_ms=max_skew_ms)
        self._held_s = clock.monotonic()
        """When the fault had something to hold it up last."""
        self.fault: str | None = None
        """Why nothing may be decided by this clock; None: it may."""
        self.offset_ms: int | None = None
        """How far it is from the median of all; None: it is not compared."""
        if self._expected.must_be_wrong and self._expected.offset_ms is not None:
            off = off_by(round(self._expected.offset_ms)).removesuffix(" the others'")
            self._has_jumped = True
            self.fault = f"its clock is {off} where it was right before the restart, and has not been compared since"

    @property
    def awaited(self) -> str | None:
        """While the first decision waits: what for, and until when by this clock, in words; None: it does not."""
        if self._awaited_for_s is None or self._first_s is None:
            return None
        left_s = self._first_s + self._awaited_for_s - self._clock.monotonic()
        until = from_ms(self._clock.wall_ms() + round(max(0.0, left_s) * 1000))
        return f"decides nothing before its clock has been compared with the others', or it is {until:%H:%M:%S} UTC"

    @property
    def clocks(self) -> Clocks | None:
        """The newest comparison; None: there has been none for 30 s."""
        return self._read.fresh

    @property
    def is_vouched_for(self) -> bool:
        """Whether the wall clock is right as far as anybody can tell: since its last jump it was compared and found
        so, or was set back to where it was right, or there are too few clocks to compare it with. Trusted for want of
        a comparison is not enough."""
        if self.fault is not None:
            return False
        newest = self._read.newest
        are_too_few = newest is not None and not newest.are_enough
        return not self._has_jumped or self._expected.must_be_right or are_too_few

    def jumped(self, by_s: float) -> None:
        """The wall clock has left the boot clock: what was measured before says nothing of it any more."""
        self.offset_ms, self._settled = None, False
        self._has_jumped, self._held_s = True, self._clock.monotonic()
        self._expected.jumped(by_s * 1000)
        leaps = by_s > LEAP_S or (self._has_leapt and by_s > -LEAP_S)
        self._has_leapt = leaps and not self._expected.must_be_right and not self._clock.is_synchronised()
        # Also by a comparison that may be old by now, after a freeze say: the look that follows at once finds out.
        is_new = self._clock.monotonic() - self._began_s < _NEW_S
        newest = self._read.newest
        may_be_compared = is_new if newest is None else newest.are_enough
        direction, jump = "ahead" if by_s > 0 else "back", length(abs(round(by_s * 1000)))
        self._jump = f"its clock jumped {jump} {direction}, and has not been compared with the others' since"
        if self._has_leapt and not may_be_compared:
            self._jump += ", nor synchronised by NTP: it waits for either, two minutes at most"
        is_doubtful = self._expected.must_be_wrong or (may_be_compared and not self._expected.must_be_right)
        self.fault = self._jump if is_doubtful or self._has_leapt else None
        self._held_from_ms = self._clock.wall_ms() if self.fault is not None and leaps else None
        self.held = None
        self._has_to_tell = True
        self._wake.set()

    async def run(self) -> None:
        """Looks every 10 s, and every second while something is open or just begins, until cancelled."""
        while True:
            self._wake.clear()
            await self.look()
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _pause_s(self) -> float:
        is_open = not self._settled or self.fault is not None
        is_new = self.offset_ms is None and self._clock.monotonic() - self._began_s < _NEW_S
        return _SOON_S if is_open or is_new else LOOK_S

    async def first(self) -> None:
        """Before the first decision: returns once this clock is judged, where others are, or after 2.5 s (15 s)."""
        try:
            while not self._settled:
                now_s = self._clock.monotonic()
                if self._first_s is None:
                    self._first_s = now_s
                if now_s >= self._first_s + self._first_for_s() or not await self.look() or self._settled:
                    return
                self._await_first(self._first_for_s())
                await asyncio.sleep(_FIRST_LOOK_S)
        finally:
            self._awaited_for_s = None

    def _await_first(self, for_s: float) -> None:
        self._awaited_for_s = for_s
        if for_s > self._said_for_s:
            self._said_for_s = for_s
            extra = {"action": "clock.awaited", "for_s": for_s}
            _log.info("decides nothing before its clock has been compared, or for %g s", for_s, extra=extra)

    def _first_for_s(self) -> float:
        clocks = self.clocks
        return _FIRST_COMPARED_S if clocks is not None and clocks.measured else FIRST_S

    async def look(self) -> bool:
        """Read the comparison and judge by it; False: etcd did not answer, and all stays as it is."""
        try:
            kv = await self._client.get(self._key)
        except (EtcdError, UnavailableError) as error:
            self._read.unread()
            self._held_s = self._clock.monotonic()
            _log.debug("the comparison of clocks was not read: %s", error, extra={"action": "clock.unread"})
            return False
        self._read.take(kv)
        self._watch.look()  # last: a jump while etcd was asked must not pass for a clock that was found right
        self._judge()
        if self.fault is None and self._held_from_ms is not None:
            self.held, self._held_from_ms = Held(from_ms=self._held_from_ms, until_ms=self._clock.wall_ms()), None
        await self._tell()
        return True

    def _judge(self) -> None:
        clocks = self.clocks
        if clocks is None or not clocks.are_enough:
            self._bear(self._bear_for_s(clocks))
            return
        own = clocks.measured.get(self._process)
        if own is None or own.clock != self._watch.name:
            self._settled = False  # what was said last holds, but not for ever
            self._hold(clocks)
            return
        self.offset_ms = own.offset_ms
        self._expected.compared(own.offset_ms, own.within_ms, has_jumped=self._has_jumped)
        if own.is_off(self._max_skew_ms):
            self._settle()
            bound = f"(at most {length(self._max_skew_ms)})"
            self.fault = f"its clock is {off_by(own.offset_ms)} {bound}: mend the clock (NTP)"
        elif self._has_jumped and own.within_ms > self._max_skew_ms and not self._expected.must_be_right:
            self._settled = False  # it may be right, but nobody could tell
            self._hold(clocks)
        else:
            self._agree(own)

    def _agree(self, own: Measured) -> None:
        self._settle()
        self.fault = None
        self._watch.agreed()
        if self._memory is not None and own.within_ms <= self._max_skew_ms:
            self._memory.remember(own.offset_ms, own.within_ms)

    def _settle(self) -> None:
        self._settled, self._has_jumped, self._held_s = True, False, self._clock.monotonic()
        self._has_leapt, self._jump = False, None

    def _bear_for_s(self, clocks: Clocks | None) -> float:
        if self.fault is None:
            return 0.0
        if self._expected.must_be_wrong or self._has_still_leapt():
            return _WRONG_FOR_S
        return _FIRST_COMPARED_S if clocks is None and self._has_jumped else 0.0

    def _has_still_leapt(self) -> bool:
        self._has_leapt = self._has_leapt and not self._clock.is_synchronised()
        return self._has_leapt

    def _bear(self, for_s: float) -> None:
        """Nobody compares it: it is trusted, but not so soon (in seconds) where that is known to be wrong."""
        if self._clock.monotonic() - self._held_s < for_s:
            return
        if self._expected.must_be_wrong:
            self._expected.forget()  # it is taken for right from here on, also by those that start after us
            if self._memory is not None:
                self._memory.forget()
        self.fault, self.offset_ms, self._settled, self._jump, self._has_leapt = None, None, True, None, False

    def _hold(self, clocks: Clocks) -> None:
        """A slow etcd, or a slow way to it, must not keep a fleet from its fires once the clocks were set."""
        now_s = self._clock.monotonic()
        if clocks.measured and (self._expected.must_be_wrong or not self._has_jumped):
            self._held_s = now_s  # it is wrong, has not been set since, and others are compared
        elif now_s - self._held_s > (_WRONG_FOR_S if self._expected.must_be_wrong or self._has_leapt else STALE_S):
            self.fault, self._jump, self._has_leapt = None, None, False
        elif self.fault is None and not self._expected.must_be_right:
            self.fault = self._jump  # it jumped before it was known that others are compared

    async def _tell(self) -> None:
        if self.fault == self._told and not self._has_to_tell:
            return
        before, self._told, self._has_to_tell = self._told, self.fault, False
        if self.fault != before:
            self._log_change(before)
        await self._on_change(self.fault)

    def _log_change(self, before: str | None) -> None:
        extra = {"action": "clock.off" if self.fault else "clock.trusted", "fault": self.fault or before}
        if self.fault is not None:
            _log.warning("decides nothing: %s", self.fault, extra=extra)
        else:
            unsettled = "it was set back to where it is right" if self._expected.must_be_right else "nobody compares it"
            _log.warning("trusts its clock again%s", "" if self._settled else f": {unsettled}", extra=extra)
