"""What runs print, read from the log store while a user looks: one reader a run, for all that look here.

    a look --> tails/<worker>/<run>/<manager>, under its lease --> the worker sends --> chunks --> pieces, held here

The key goes 30 s after the last look. A reader holds a piece of the beginning and the newest 128 KiB; who looks has a
place in them, and no queue: who comes late, or takes it slowly, has a gap.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.protocol import tails
from common.protocol.keys import Keys, RunId
from common.runlog import Chunk, TailStore
from common.words.progress import PROGRESS
from manager.watch.catalog import Changes
from manager.watch.events import TooManyClientsError
from manager.watch.open_runs import OpenRuns

MOST_RUNS: Final = 128
"""That are read at a time."""
MOST_OF_A_CALLER: Final = 4
"""Runs that one caller follows at a time."""
MOST_GLANCES: Final = 10
"""Runs of which one caller reads the last lines now and then."""
LINGERS_S: Final = 30.0
_READ_EVERY_S: Final = 0.7
_GLANCED_AT_EVERY_S: Final = 2.0
"""Of runs that no user follows."""
_SILENT_S: Final = 5.0
_HELD_BYTES: Final = 128 * 1024
_READS_AT_ONCE: Final = 8
_A_READ: Final = 8
_READS_A_TURN: Final = 8
_LONGEST_LINE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of the output from ``start`` up to ``end``, as text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the command reported last of how far it is, by a line ``::progress 40% text``."""

    percent: float
    text: str

    def to_document(self) -> dict[str, Any]:
        return {"percent": self.percent, "text": self.text}


class Tail:
    """One run that a user looks at."""

    def __init__(self, run: RunId, now: float) -> None:
        """``now``: of the monotonic clock, as all times here."""
        self.run = run
        self.pieces: list[Piece] = []
        self.progress: Progress | None = None
        self.fault: str | None = None
        """Why it cannot be read just now."""
        self.is_served = False
        """Whether its worker has sent anything."""
        self.changes = Changes()
        self.since = now
        """When it was asked for first, or (its key was put) of its worker."""
        self.until = now + LINGERS_S
        self.viewers: Counter[str] = Counter()
        """By caller."""
        self.glances: dict[tuple[str, bool], float] = {}
        """When callers have read it last, without following it; and whether the last lines alone."""
        self.asked: tuple[str, str, bool] | None = None
        """The worker that its key was put for, under which session, and whether it asks for the last lines alone."""
        self.may_be_at: str | None = None
        """The worker under which there may be a key."""
        self.due = now
        """When it is to be read next."""
        self._line = ""

    @property
    def end(self) -> int:
        """How many bytes have been printed, as far as is known."""
        return self.pieces[-1].end if self.pieces else 0

    def is_short(self, now: float) -> bool:
        """Whether those who look want the last lines alone."""
        glances = {is_short for (_, is_short), at in self.glances.items() if at > now - LINGERS_S}
        return not self.viewers and glances == {True}

    def after(self, place: int) -> list[Piece]:
        """What is behind this place, as far as it is held."""
        return [piece for piece in self.pieces if piece.end > place]

    def why_silent(self, now: float) -> str | None:
        """Why nothing is shown of it; None: it is, or will soon be."""
        if self.fault is not None:
            return self.fault
        if self.is_served or now - self.since < _SILENT_S:
            return None
        return (
            f"worker {self.may_be_at} sends nothing: it is of an older version, may not read `tails/` in etcd, or "
            "cannot write to the log store; the output is there once the run has ended"
        )

    def take(self, chunks: Sequence[Chunk]) -> None:
        """What was read, in its order."""
        for chunk in chunks:
            self.is_served = True
            if chunk.end <= self.end:
                continue
            self._find_progress(chunk)
            self.pieces.append(Piece(start=chunk.start, end=chunk.end, text=chunk.text))
        while len(self.pieces) > 2 and sum(one.end - one.start for one in self.pieces[1:]) > _HELD_BYTES:
            del self.pieces[1]

    def _find_progress(self, chunk: Chunk) -> None:
        text = (self._line if chunk.start == self.end else "") + chunk.text
        for found in PROGRESS.finditer(text.replace("\r", "\n")):
            note = (found[2] or "").lstrip().removeprefix("%").strip()[:_LONGEST_LINE]
            self.progress = Progress(percent=min(float(found[1]), 100.0), text=note)
        self._line = text[max(text.rfind("\n"), text.rfind("\r")) + 1 :][:_LONGEST_LINE]


class TailReader:
    """Reads for those who look; ``run`` belongs into the TaskGroup."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, store: TailStore, open_runs: OpenRuns, *, name: str,
        session: Callable[[], Session | None], clock: Clock,
    ) -> None:  # fmt: skip
        """``name``: this manager's; ``session``: the one by which it is known to live."""
        self._etcd = etcd
        self._keys = keys
        self._store = store
        self._open_runs = open_runs
        self._name = name
        self._session = session
        self._clock = clock
        self._tails: dict[RunId, Tail] = {}
        self._wake = asyncio.Event()
        self._reading = asyncio.Semaphore(_READS_AT_ONCE)

    def __len__(self) -> int:
        """How many runs are read."""
        return len(self._tails)

    @property
    def viewers(self) -> int:
        """How many follow one."""
        return sum(tail.viewers.total() for tail in self._tails.values())

    def glance(self, run: RunId, *, by: str, is_short: bool) -> Tail | None:
        """What there is of a run, and for 30 s of what comes; None: nothing is read of it, and the caller, or this
        manager, has looks enough."""
        now = self._clock.monotonic()
        if not self._has_room(run, by, now, is_short=is_short):
            return self._tails.get(run)
        tail = self._tail(run, now)
        tail.glances = {one: at for one, at in tail.glances.items() if at > now - LINGERS_S} | {(by, is_short): now}
        tail.until = now + LINGERS_S
        return tail

    @contextmanager
    def viewing(self, run: RunId, *, by: str) -> Iterator[Tail]:
        """The run is read meanwhile. TooManyClientsError."""
        now = self._clock.monotonic()
        if not self._has_room(run, by, now, is_short=False):
            raise TooManyClientsError(
                f"you follow the output of {MOST_OF_A_CALLER} runs already, or all together that of {MOST_RUNS}: close "
                "one of those pages or commands"
            )
        tail = self._tail(run, now)
        tail.viewers[by] += 1
        self._wake.set()
        try:
            yield tail
        finally:
            tail.viewers[by] -= 1
            tail.viewers += Counter()
            tail.until = self._clock.monotonic() + LINGERS_S

    def why_silent(self, tail: Tail) -> str | None:
        """Why nothing is shown of it; None: it is, or will soon be."""
        return tail.why_silent(self._clock.monotonic())

    def _has_room(self, run: RunId, by: str, now: float, *, is_short: bool) -> bool:
        def counts(tail: Tail) -> bool:
            glanced = tail.glances.get((by, is_short), float("-inf")) > now - LINGERS_S
            return tail.run != run and (glanced or (not is_short and by in tail.viewers))

        most = MOST_GLANCES if is_short else MOST_OF_A_CALLER
        return (run in self._tails or len(self) < MOST_RUNS) and sum(map(counts, self._tails.values())) < most

    def _tail(self, run: RunId, now: float) -> Tail:
        if (tail := self._tails.get(run)) is None:
            tail = self._tails[run] = Tail(run, now)
            self._wake.set()
        return tail

    async def run(self) -> None:
        """Read while a user looks; what is away is asked again."""
        while True:
            try:
                async with asyncio.timeout(_READ_EVERY_S if self._tails else None):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await asyncio.gather(*map(self._turn, list(self._tails.values())))

    async def _turn(self, tail: Tail) -> None:
        going, now = self._open_runs.get(tail.run), self._clock.monotonic()
        is_wanted = going is not None and (tail.viewers or now < tail.until)
        if is_wanted and not tail.viewers and tail.is_served and now < tail.due:
            return
        tail.due = now + _GLANCED_AT_EVERY_S
        try:
            async with self._reading:
                await self._say(tail, going.worker if going is not None and is_wanted else None)
                if is_wanted:
                    await self._read(tail)
            tail.fault = None
        except (EtcdError, UnavailableError) as error:
            tail.fault = str(error)
        if not (is_wanted or tail.viewers) and tail.may_be_at is None:  # who is still there sees soon that it is over
            del self._tails[tail.run]
        tail.changes.notify()

    async def _read(self, tail: Tail) -> None:
        for _ in range(_READS_A_TURN):  # whatever there is: the others wait
            before = tail.end
            chunks = await self._store.read(tail.run, before, limit=_A_READ)
            tail.take(chunks)
            if len(chunks) < _A_READ or tail.end == before:
                return

    async def _say(self, tail: Tail, worker: str | None) -> None:
        """The worker knows that a user looks, or (None) that none does any more."""
        session = self._session()
        if tail.may_be_at is not None and tail.may_be_at != worker:
            await self._etcd.txn(tails.remove(self._keys, tail.may_be_at, tail.run, self._name))
            tail.may_be_at, tail.asked = None, None
        if worker is None:
            return
        if session is None or not session.healthy:
            if tail.asked is None:
                raise UnavailableError("this manager is not in touch with etcd just now")
            return  # the worker may be out of touch, too, and go on
        wanted = worker, session.id, tail.is_short(self._clock.monotonic())
        if tail.asked == wanted:
            return
        if tail.may_be_at is None:
            tail.since = self._clock.monotonic()
        tail.may_be_at = worker
        txn = tails.put(self._keys, worker, tail.run, self._name, session, is_short=wanted[2])
        if (await self._etcd.txn(txn)).succeeded:
            tail.asked = wanted
