"""Live events: one hub that hears of every change, and tells all browsers in batches, however slow one of them is.

    mirrors --(names)--> what has changed --(twice a second at most)--> one text for those
                                                          who may know the same --> a bounded queue for each browser

An event says what to look at again, not what happened: so events may be joined, and who has missed some fetches again
what it shows. With nobody listening nothing is gathered and nothing is asked.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from common.access.rights import Rights, Sight
from common.clock import Clock
from common.errors import EtcronError, UnavailableError
from common.json_text import dumps
from common.process.lifecycle import raising_cancellation
from common.protocol.keys import RunId
from common.runlog import JobResults
from common.version import VERSION

_log = logging.getLogger(__name__)

MAX_CLIENTS: Final = 256
"""Each costs a connection and a short queue; beyond, 503."""
MOST_OF_A_CALLER: Final = 64
"""So no user takes all of them."""
MOST_NAMES: Final = 200
"""More jobs than this in one batch are sent as "all": no page shows so many."""
_QUEUED: Final = 64


Labels: TypeAlias = Mapping[str, str]


class TooManyClientsError(UnavailableError):
    """Too many pages listen to this manager already. Close some of them, or start another manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often what happens; in seconds."""

    gather_s: float = 0.1
    """How long changes are gathered, so that what belongs together goes together."""
    spacing_s: float = 0.4
    """The least pause after a batch."""
    heartbeat_s: float = 10.0
    failing_s: float = 5.0
    """How often failing jobs are counted, while anything changes."""
    look_s: float = 1.0
    """How often the state of the servers, which others look at, is compared with what was sent."""


class Client:
    """One browser's bounded queue. A slow one is sent that it has to fetch everything again, and then no more."""

    def __init__(self, abort: Callable[[], None], rights: Rights, by: str) -> None:
        self.rights = rights
        self.by = by
        self.sight = rights.sight
        self._abort = abort
        self._waiting: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._is_last = False
        self.is_writing = False

    def offer(self, event: bytes) -> None:
        """Queue the event, or, where too many wait already, the one that stands for all of them, as the last."""
        if self._is_last:
            return
        if len(self._waiting) >= _QUEUED:
            self._waiting.clear()
            event, self._is_last = spell("jobs", {"all": True}), True
        self._waiting.append(event)
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes; a connection that takes nothing is cut."""
        self._is_last = True
        self._wake.set()
        if self.is_writing:
            self._abort()

    def revoke(self) -> None:
        """As `end`; what waits is not sent: its user may not see it any more."""
        self._waiting.clear()
        self.end()

    async def next(self) -> bytes | None:
        """What is to be sent now; None at the end."""
        while not self._waiting:
            if self._is_last:
                return None
            self._wake.clear()
            await self._wake.wait()
        events = b"".join(self._waiting)
        self._waiting.clear()
        return events


@dataclass(slots=True)
class _Changes:
    """What has happened since the last batch."""

    jobs: dict[str, list[Labels | None]] = field(default_factory=dict)
    """With the labels that they had and have."""
    runs: dict[str, list[Labels]] = field(default_factory=dict)
    """Jobs whose runs have changed, with the labels of these runs."""
    settled: dict[RunId, Labels] = field(default_factory=dict)
    workers: bool = False

    def seen_by(self, rights: Rights) -> _Seen:
        """What a caller may know of it."""

        def sees(labels: Labels | None) -> bool:
            return rights.sees_unlabelled if labels is None else rights.sees(labels)

        jobs = {name for name, labels in self.jobs.items() if any(map(sees, labels))}
        settled = {run for run, labels in self.settled.items() if sees(labels)}
        runs = {job for job, labels in self.runs.items() if any(map(sees, labels))}
        return _Seen(jobs=jobs, touched=runs | {run.job_name for run in settled}, settled=settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The names that one batch tells some clients."""

    jobs: set[str]
    touched: set[str]
    """Jobs whose runs have changed."""
    settled: set[RunId]

    @property
    def are_many(self) -> bool:
        """More than any page shows: it is sent as "all"."""
        return len(self.jobs | self.touched) > MOST_NAMES


class EventHub:
    """Hears of changes (it is the `Listener` of `Watching`) and tells its clients."""

    def __init__(
        self,
        *,
        manager: str,
        clock: Clock,
        running: Callable[[str, Rights], list[dict[str, Any]]],
        results: Callable[[Iterable[RunId]], Awaitable[Mapping[str, JobResults]]],
        seen_results: Callable[[str, JobResults, Rights], JobResults],
        health: Callable[[], Mapping[str, Any]],
        ending: Callable[[], Awaitable[Iterable[tuple[str, Labels]]]],
        failing: Callable[[Rights, float], Awaitable[int]],
        pace: Pace,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        """``running``: a job's open runs as shown; ``results``: what the jobs of these runs came to;
        ``seen_results``: what of it a caller may know.

        ``ending``: the jobs of which other runs are ending than when it was last asked, with the labels of runs; no key
        in etcd tells that. ``failing``: how many jobs fail, of those that a caller may know of, then
        (monotonic) or later.
        """
        self._manager = manager
        self._clock = clock
        self._running = running
        self._results = results
        self._seen_results = seen_results
        self._health = health
        self._ending = ending
        self._failing = failing
        self._state_sent: tuple[Any, ...] | None = None
        self._failing_sent: dict[Sight, int] = {}
        self._failing_changed = asyncio.Event()
        """They may be others than were counted last."""
        self._failing_unknown = asyncio.Event()
        """A client has joined to which nothing was sent."""
        self._pace = pace
        self._max_clients = max_clients
        self._clients: set[Client] = set()
        self._changes = _Changes()
        self._dirty = asyncio.Event()
        self._numbers: dict[Sight, Iterator[int]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    # What the mirrors say

    def job_changed(self, name: str, labels: Sequence[Labels | None]) -> None:
        if self._clients:
            known = self._changes.jobs.setdefault(name, [])
            known += [one for one in labels if one not in known]
            self._dirty.set()
            self._failing_changed.set()

    def runs_changed(self, job: str, labels: Labels) -> None:
        if self._clients:
            known = self._changes.runs.setdefault(job, [])
            if labels not in known:
                known.append(labels)
            self._dirty.set()

    def run_settled(self, run: RunId, labels: Labels) -> None:
        if self._clients:
            self._changes.settled[run] = labels
            self._dirty.set()
            self._failing_changed.set()

    def workers_changed(self) -> None:
        if self._clients:
            self._changes.workers = True
            self._dirty.set()

    # Clients

    def join(self, abort: Callable[[], None], rights: Rights, *, by: str) -> Client:
        """A new client, greeted; ``abort`` cuts its connection. TooManyClientsError beyond a limit. ``by``: whose."""
        if len(self._clients) >= self._max_clients or sum(one.by == by for one in self._clients) >= MOST_OF_A_CALLER:
            raise TooManyClientsError
        client = Client(abort, rights, by)
        hello = {"nowMs": self._clock.wall_ms(), "version": VERSION, "manager": self._manager}
        client.offer(b"retry: 2000\n" + self._numbered("hello", hello, client.sight))
        client.offer(self._numbered("health", self._look(), client.sight))
        if (count := self._failing_sent.get(client.sight)) is not None:
            client.offer(self._numbered("failing", {"count": count}, client.sight))
        else:
            self._failing_unknown.set()
        self._clients.add(client)
        self._failing_changed.set()
        return client

    def leave(self, client: Client) -> None:
        self._clients.discard(client)
        if all(client.sight != other.sight for other in self._clients):
            self._numbers.pop(client.sight, None)
            self._failing_sent.pop(client.sight, None)

    def close(self) -> None:
        """Every client's stream ends now."""
        for client in list(self._clients):
            client.end()

    # Telling

    async def run(self) -> None:
        """Tell changes, the state of the servers and heartbeats, for ever; every stream ends with it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tell_changes(), name="events: changes")
                tasks.create_task(self._tell_health(), name="events: health")
                tasks.create_task(self._tell_ending(), name="events: ending")
                tasks.create_task(self._tell_failing(), name="events: failing")
                tasks.create_task(self._beat(), name="events: heartbeat")
        finally:
            self.close()

    async def _tell_changes(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._pace.gather_s)
            self._dirty.clear()
            changes, self._changes = self._changes, _Changes()
            if self._clients:
                await self._tell_batch(changes)
            await asyncio.sleep(self._pace.spacing_s)

    async def _tell_batch(self, changes: _Changes) -> None:
        if changes.workers:
            self._tell("workers", {})
        groups = [(clients, changes.seen_by(clients[0].rights)) for clients in self._groups()]
        settled = {run for _, seen in groups if not seen.are_many for run in seen.settled}
        results = await self._settled_results(settled)
        for clients, seen in groups:
            self._tell_group(clients, seen, results)

    async def _settled_results(self, settled: Iterable[RunId]) -> Mapping[str, JobResults]:
        """What the jobs of these runs came to; nothing where the log store is away."""
        try:
            with raising_cancellation():
                return await self._results(settled)
        except EtcronError as error:
            # The event of its state says the rest, and who sees the log store come back fetches again.
            extra = {"action": "events.without_results", "error": str(error)}
            _log.debug("results are not told", extra=extra)
            return {}

    def _groups(self) -> list[list[Client]]:
        """The clients, those together that may know of the same: what they are sent is spelled once for all of them."""
        groups: dict[Sight, list[Client]] = {}
        for client in self._clients:
            groups.setdefault(client.sight, []).append(client)
        return list(groups.values())

    def _tell_group(self, clients: Sequence[Client], seen: _Seen, results: Mapping[str, JobResults]) -> None:
        rights = clients[0].rights
        if seen.are_many:
            self._offer(clients, "jobs", {"all": True})
            return
        if seen.jobs:
            self._offer(clients, "jobs", {"names": sorted(seen.jobs)})
        if seen.touched:
            jobs: dict[str, dict[str, Any]] = {}
            for job in sorted(seen.touched):
                jobs[job] = {"running": self._running(job, rights), "last": None}
                if job in results and any(run.job_name == job for run in seen.settled):
                    came = self._seen_results(job, results[job], rights)
                    jobs[job] |= {"last": came.last, "lastRun": came.last_run, **came.strip()}
            self._offer(clients, "runs", {"jobs": jobs})

    async def _tell_health(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(self._pace.look_s)

    def _look(self) -> Mapping[str, Any]:
        """The state of the servers; clients that were sent another are sent this one.

        Also when one joins: otherwise a state that begins and ends between two looks stays with the client that joined
        in between.
        """
        health = self._health()
        if _state_in(health) != self._state_sent:
            self._state_sent = _state_in(health)
            self._tell("health", health)
            self._failing_changed.set()
        return health

    async def _tell_ending(self) -> None:
        while True:
            await asyncio.sleep(self._pace.look_s)
            if self._clients:
                with raising_cancellation():
                    ending = await self._ending()
                for job, labels in ending:
                    self.runs_changed(job, labels)

    async def _tell_failing(self) -> None:
        """For the mark that every page has, whether or not a user looks at it."""
        while True:
            await self._failing_changed.wait()
            self._failing_changed.clear()
            since_s = self._clock.monotonic()
            for clients in self._groups():
                # The event of the log store's state says the rest; its being back is one.
                with suppress(EtcronError), raising_cancellation():
                    count = await self._failing(clients[0].rights, since_s)
                    if self._failing_sent.get(clients[0].sight) != count:
                        self._failing_sent[clients[0].sight] = count
                        self._offer(clients, "failing", {"count": count})
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.failing_s):
                    await self._failing_unknown.wait()
            self._failing_unknown.clear()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._pace.heartbeat_s)
            self._tell("ping", {"nowMs": self._clock.wall_ms()})

    def _tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """What everybody may know."""
        for clients in self._groups():
            self._offer(clients, kind, data)

    def _offer(self, clients: Sequence[Client], kind: str, data: Mapping[str, Any]) -> None:
        event = self._numbered(kind, data, clients[0].sight)
        for client in clients:
            client.offer(event)

    def _numbered(self, kind: str, data: Mapping[str, Any], sight: Sight) -> bytes:
        """With a number among those that these clients are sent: it counts nothing that they may not know of."""
        number = next(self._numbers.setdefault(sight, itertools.count(1)))
        return b"id: %s-%d\n" % (self._manager.encode(), number) + spell(kind, data)


def _state_in(health: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of it is worth an event; the words about a problem may change all the time."""
    fires = health["fires"]
    return health["etcd"], health["isOld"], health["logStore"], health["recovery"], fires["state"], fires["sinceMs"]


def spell(kind: str, data: Mapping[str, Any]) -> bytes:
    """One event as it goes over the wire; the data is one line of JSON in ASCII."""
    return f"event: {kind}\ndata: {dumps(data)}\n\n".encode()
