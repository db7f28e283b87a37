"""The steward's duty of comparing clocks: it hears the beats of all processes, and puts their offsets into one key.

It needs no right clock for that; so a steward whose own clock is off does this and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import Change, EtcdClient
from common.protocol.clocks import ENOUGH, Clocks, put
from common.protocol.keys import MAX_MARK_MS, Keys
from common.protocol.member import Beat
from common.protocol.txn import GetKey, Txn
from worker.lead.clock_book import ClockBook
from worker.lead.leader import Term

PUT_EVERY_S: Final = 10.0
_SOONEST_S: Final = 1.0
FEW_FOR_S: Final = 30.0
"""How long too few clocks beat before it says so, where enough workers are remembered. Once it is said, jumps are
believed; after a cut of the network, or a restart of several processes, the others are back sooner than that."""
PROBE_S: Final = 0.1
_PROBES: Final = 50
_LONGEST_NAME: Final = 300


class ClockKeeping:
    """Writes ``clocks`` every 10 s, and within a second when there is a clock that was not compared before."""

    name = "comparing clocks"
    every_s = 0.0

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        beats: Callable[[], Mapping[str, Beat]],
        max_skew_ms: int,
        clock: Clock,
        workers: Callable[[], int],
    ) -> None:
        """``beats``: what each process says of itself now. ``workers``: how many are remembered, here or gone."""
        self._workers = workers
        self._client = client
        self._keys = keys
        self._beats = beats
        self._clock = clock
        self._book = ClockBook(bound_ms=max_skew_ms)
        self._probes: deque[tuple[int, int]] = deque(maxlen=_PROBES)
        self._put_s = self._began_s = self._enough_s = clock.monotonic()
        self._former: Clocks | None = None
        """What was written last that measured anything, also by a former steward; None: that was not read yet."""
        self._is_wanted = asyncio.Event()

    def begin(self) -> None:
        self._former, self._put_s = None, float("-inf")
        self._began_s = self._enough_s = self._clock.monotonic()

    def end(self) -> None:
        self._probes.clear()
        self._book.clear()

    # Hearing

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Beats that have come, after `beats` has been told of them; what was only read lay there for long."""
        at_ms, known = self._boot_ms(), self._beats()
        for change in changes:
            process = change.key.removeprefix(self._keys.beats)
            beat = known.get(process)
            if change.new is None or beat is None or not _can_be_compared(process, beat):
                self._book.forget(process)
                continue
            not_before_ms = self._not_before_ms(change.new.mod_revision)
            if self._book.hear(process, beat, version=change.new.version, at_ms=at_ms, not_before_ms=not_before_ms):
                self._is_wanted.set()

    async def listen(self) -> None:
        """Sees again and again how far etcd is: so it is known of what is heard when it was put at the earliest.

        Only while a beat is due of some clock that has not been heard well lately: one of each in 15 s is enough.
        """
        while True:
            self._is_wanted.clear()
            if (rest_ms := self._book.rest_ms(self._boot_ms())) <= 0:
                await self.probe()
                await asyncio.sleep(PROBE_S)
                continue
            try:
                async with asyncio.timeout(rest_ms / 1000 if rest_ms < inf else None):
                    await self._is_wanted.wait()
            except TimeoutError:
                pass

    async def probe(self) -> None:
        """Look once: whatever etcd writes after the revision that it answers with is put after this moment."""
        sent_ms = self._boot_ms()
        try:
            answer = await self._client.txn(Txn([], [GetKey(self._keys.steward)]))
        except (EtcdError, UnavailableError):
            return  # what is heard meanwhile does not count
        self._probes.append((answer.revision, sent_ms))

    def _not_before_ms(self, revision: int) -> int | None:
        return next((sent_ms for before, sent_ms in reversed(self._probes) if before < revision), None)

    def _boot_ms(self) -> int:
        return round(self._clock.boottime() * 1000)

    # Telling

    async def perform(self, term: Term) -> None:
        if self._former is None:  # what the former steward wrote
            kv = await self._client.get(self._keys.clocks)
            try:
                self._former = Clocks(count=0) if kv is None else Clocks.from_json(kv.value)
            except ValueError:
                self._former = Clocks(count=0)  # the processes that go by it have logged it
        clocks = self._book.compare(self._boot_ms(), self._former)
        if not self._is_due(clocks, self._former):
            return
        if (await self._client.txn(put(self._keys, clocks, term.session, guards=term.holds))).succeeded:
            self._put_s = self._clock.monotonic()
            self._former = clocks if clocks.measured else self._former

    def _is_due(self, clocks: Clocks, former: Clocks) -> bool:
        now_s = self._clock.monotonic()
        if clocks.count == 0:
            return False  # the beats have not been read yet: this very worker has one
        if clocks.are_enough:
            self._enough_s = now_s
        elif self._workers() >= ENOUGH and now_s - self._enough_s < FEW_FOR_S:
            return False
        if clocks.are_enough and len(clocks.measured) < clocks.count and now_s - self._began_s < PUT_EVERY_S:
            return False  # those that have just jumped beat sooner than the others, and would be the median alone
        since_s = now_s - self._put_s
        return since_s >= PUT_EVERY_S or (since_s >= _SOONEST_S and bool(_names(clocks) - _names(former)))


def _can_be_compared(process: str, beat: Beat) -> bool:
    """Whether its clock has a name (it is none of an earlier version), and nothing in it is beyond all measure."""
    is_named = 0 < len(beat.clock) <= _LONGEST_NAME and len(process) <= _LONGEST_NAME
    return is_named and 0 <= beat.wall_ms <= MAX_MARK_MS


def _names(clocks: Clocks) -> set[tuple[str, str]]:
    return {(process, one.clock) for process, one in clocks.measured.items()}
