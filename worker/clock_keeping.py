"""The steward's duty of comparing clocks: it hears the beats of all processes, and puts their offsets into one key.

It needs no right clock for that, only a loop that is not held up; so a steward whose own clock is off does this and
nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.clock import Clock
from common.clocks import Clocks
from common.etcd import Change, EtcdClient, Put
from common.keys import MAX_MARK_MS, Keys
from common.member import Beat
from worker.clock_book import ClockBook
from worker.steward import Term

_log = logging.getLogger(__name__)

PUT_EVERY_S: Final = 10.0
_SOONEST_S: Final = 1.0
TICK_S: Final = 0.25
_LONGEST_NAME: Final = 300


class ClockKeeping:
    """Writes ``clocks`` every 10 s, and within a second when there is a clock that was not compared before."""

    name = "comparing clocks"
    every_s = 0.0

    def __init__(
        self, *, client: EtcdClient, keys: Keys, beats: Callable[[], Mapping[str, Beat]], max_skew_ms: int, clock: Clock
    ) -> None:
        """``beats``: what each process says of itself now."""
        self._client = client
        self._keys = keys
        self._beats = beats
        self._clock = clock
        # Half the bound for a beat's way, half for this loop: together never beyond it.
        self._late_s = max_skew_ms / 2000
        self._book = ClockBook(quick_ms=max_skew_ms // 2)
        self._waiting: list[tuple[str, Beat, int]] = []
        self._put_s = self._began_s = clock.monotonic()
        self._put: Clocks | None = None

    def begin(self) -> None:
        self._put, self._put_s, self._began_s = None, float("-inf"), self._clock.monotonic()

    def end(self) -> None:
        self._waiting.clear()
        self._book.clear()

    # Hearing

    def on_changes(self, changes: Sequence[Change], *, heard: bool) -> None:
        """Beats that have come; ``heard``: as they were put, not read later. Told after `beats` knows of them."""
        boot_ms, known = round(self._clock.boottime() * 1000), self._beats()
        for change in changes:
            process = change.key.removeprefix(self._keys.beats)
            beat = known.get(process)
            if beat is None or not _can_be_compared(process, beat):
                self._book.forget(process)
                self._waiting = [one for one in self._waiting if one[0] != process]
            elif heard:
                self._waiting.append((process, beat, boot_ms))
            else:
                self._hear(process, beat, None)

    async def listen(self) -> None:
        """Counts what was heard while this loop was on time, until cancelled: who was held up hears everything late."""
        was_late, last_s = True, self._clock.boottime()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self._clock.boottime()
            is_late = now_s - last_s - TICK_S > self._late_s
            last_s = now_s
            self.take_in(on_time=not (is_late or was_late))
            was_late = is_late

    def take_in(self, *, on_time: bool) -> None:
        """What has come since the last time was heard when it came, or (not ``on_time``) nobody knows when it came."""
        waiting, self._waiting = self._waiting, []
        for process, beat, boot_ms in waiting:
            self._hear(process, beat, boot_ms if on_time else None)

    def _hear(self, process: str, beat: Beat, boot_ms: int | None) -> None:
        self._book.hear(
            process, beat.clock, wall_ms=beat.wall_ms, round_trip_ms=beat.round_trip_ms, boot_ms=boot_ms
        )  # fmt: skip

    # Telling

    async def perform(self, term: Term) -> None:
        now_s = self._clock.monotonic()
        clocks = self._book.compare(round(self._clock.boottime() * 1000))
        if not self._is_due(clocks, now_s):
            return
        put = Put(self._keys.clocks, clocks.to_json(), term.session.lease_id)
        if (await self._client.txn(term.holds, [put])).succeeded:
            self._put, self._put_s = clocks, now_s

    def _is_due(self, clocks: Clocks, now_s: float) -> bool:
        if clocks.count == 0:
            return False  # the beats have not been read yet: this very worker has one
        since_s = now_s - self._put_s
        if since_s >= PUT_EVERY_S:
            # In the first seconds of a term nothing is measured yet: what the former steward told holds until then.
            is_early = now_s - self._began_s < PUT_EVERY_S
            return not (is_early and clocks.are_enough and not clocks.measured)
        return since_s >= _SOONEST_S and _names(clocks) != _names(self._put)


def _can_be_compared(process: str, beat: Beat) -> bool:
    """Whether its clock has a name (it is none of an earlier version), and nothing in it is beyond all measure."""
    is_named = 0 < len(beat.clock) <= _LONGEST_NAME and len(process) <= _LONGEST_NAME
    return is_named and 0 <= beat.wall_ms <= MAX_MARK_MS


def _names(clocks: Clocks | None) -> set[tuple[str, str]]:
    return set() if clocks is None else {(process, one.clock) for process, one in clocks.measured.items()}
