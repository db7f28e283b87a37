"""What the fires to come want, of the jobs that a caller may know of, and how long some wait; and whose they are.

It is reckoned in a thread, once for all who ask for the same, and kept while no job has changed. What took long is kept
longer: forecasts take a twentieth of a core at most. How long runs usually take is asked of the log store for a few
thousand jobs at a time, whenever a forecast is asked for; until then a run counts as one second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

from common.access.rights import Rights, Sight
from common.clock import Clock
from common.forecast import MINUTE_MS, Expected, Wanted, fires_in, slots_wanted
from common.jobs.job import JobSpec
from common.jobs.spread import suggests_spread
from common.process.threads import beside
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from common.runlog import JobResults
from manager.views.history import History
from manager.watch.catalog import JobQuery, KnownJob
from manager.watch.watching import Watching

_KEPT: Final = 32
"""Forecasts, each of at most a week's minutes."""
_SHARE: Final = 20
_LONG_S: Final = 0.3
"""What takes less is done again whenever a job has changed."""
_AT_ONCE: Final = 2_000
"""Jobs that are looked at without a pause."""
_JOBS_A_READ: Final = 500
_READING_S: Final = 0.2
"""So long the log store is asked how long runs take, for one forecast."""
_USUAL_S: Final = 600
"""So long that is believed."""
_CROWDS_KEPT: Final = 2
"""For who turns their pages."""
_WITHIN_S: Final = 8.0
"""A forecast that takes longer is kept all the same, for who asks next."""

_T = TypeVar("_T")
_Key: TypeAlias = tuple[Sight, JobQuery, int, int]
_Edition: TypeAlias = tuple[int, int, int]
"""Another one as jobs change, as more is known of how long they take, and as slots come and go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is to be expected, and how well that is known."""

    wanted: Wanted
    jobs: int
    """How many may fire: neither paused nor broken."""
    unknown: int
    """Those of them of which it has not been read how long they take."""
    slots: int
    """Of the workers that take fires. 0: none does, and how long a fire would wait is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowding:
    """One job of a span, with how often it fires there."""

    job: KnownJob
    fires: int
    slots: int
    usual_ms: int | None
    suggested: bool
    """A minute of its own would be better, and no user has chosen the one that it has."""

    @property
    def order(self) -> tuple[int, str]:
        """First those whose runs take most: slots for so long, so often."""
        return -self.fires * self.slots * (self.usual_ms or 1_000), self.job.name


@dataclass(frozen=True, slots=True)
class _Kept:
    edition: _Edition
    until_s: float
    """Before, it is given though jobs have changed."""
    wanted: Wanted
    jobs: int
    unknown: int


@dataclass(frozen=True, slots=True)
class _Expected:
    """Jobs in lists: a hundred thousand tuples would have the garbage collector look at all that there is."""

    specs: list[JobSpec] = field(default_factory=list)
    usual: list[int | None] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Expected]:
        return zip(self.specs, self.usual, self.slots, strict=True)


class _Usual(NamedTuple):
    """How long a job's runs usually take, where that is known."""

    read_s: float
    ms: int | None
    saved_ms: int
    since_ms: int | None
    """Of those that were planned since the job was saved then: who does not see everything is told no more."""

    def seen(self, job: KnownJob, rights: Rights) -> int | None:
        """As far as a caller may know, who may know of the job."""
        if rights.sees_all:
            return self.ms
        return self.since_ms if _saved_ms(job) == self.saved_ms else None


class Forecasts:
    """Reckons and keeps them."""

    def __init__(self, watching: Watching, history: History, *, clock: Clock) -> None:
        self._watching = watching
        self._history = history
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}
        self._crowds: dict[_Key, tuple[_Edition, Sequence[Crowding]]] = {}
        self._usual: dict[str, _Usual] = {}
        """By job."""
        self._turn = asyncio.Lock()
        self._place = threading.BoundedSemaphore(1)

    async def of(self, query: JobQuery, rights: Rights, from_ms: int, to_ms: int) -> Forecast:
        """Between two whole minutes. UnavailableError: the jobs have not been read yet."""
        await self._watching.ready()
        rights = rights.snapshot()
        key = (rights.sight, query, from_ms, to_ms)
        if (kept := self._fresh(key)) is None or kept.unknown:
            as_of, jobs = self._watching.catalog.edition, await self._jobs(query, rights)
            async with self._turn:
                if (kept := self._fresh(key)) is None:
                    expected, edition = await self._expected(jobs, rights), self._edition_of(as_of)
                    unknown = sum(job.name not in self._usual for job in jobs)
                    kept = await self._beside(lambda: self._keep(key, edition, expected, unknown))
        return Forecast(wanted=kept.wanted, jobs=kept.jobs, unknown=kept.unknown, slots=kept.edition[-1])

    @property
    def _edition(self) -> _Edition:
        return self._edition_of(self._watching.catalog.edition)

    def _edition_of(self, jobs: int) -> _Edition:
        """``jobs``: as of which they were read: some may have changed while how long runs take was looked up."""
        return jobs, len(self._usual), self._there

    @property
    def _there(self) -> int:
        """The slots of the workers that take fires."""
        return sum(one.slots for one in self._watching.members if one.accepts)

    def _fresh(self, key: _Key) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None or (kept.edition != self._edition and self._clock.monotonic() >= kept.until_s):
            return None
        return kept

    def _keep(self, key: _Key, edition: _Edition, expected: _Expected, unknown: int) -> _Kept:
        """Also where the caller has given up by then."""
        begun_s = self._clock.monotonic()
        wanted = slots_wanted(expected, *key[2:], there=edition[-1])
        now_s = self._clock.monotonic()
        took_s = now_s - begun_s
        until_s = now_s + (_SHARE * took_s if took_s > _LONG_S else 0)
        kept = _Kept(edition, until_s, wanted, len(expected.specs), unknown)
        _remember(self._kept, key, kept, most=_KEPT)
        return kept

    async def _beside(self, work: Callable[[], _T]) -> _T:
        return await beside(work, what="a forecast", within_s=_WITHIN_S, places=self._place)

    async def crowd(self, query: JobQuery, rights: Rights, from_ms: int, to_ms: int) -> Sequence[Crowding]:
        """The jobs that fire from one time up to another, at most an hour later; those whose runs take most first."""
        rights = rights.snapshot()
        key = (rights.sight, query, from_ms, to_ms)
        edition, found = self._crowds.get(key, (None, []))
        if edition == self._edition:
            return found
        as_of, jobs = self._watching.catalog.edition, await self._jobs(query, rights)
        expected, edition = await self._expected(jobs, rights), self._edition_of(as_of)
        async with self._turn:
            counts = await self._beside(lambda: _crowding(expected, from_ms, to_ms))
        found = [
            Crowding(job=job, fires=fires, slots=slots, usual_ms=usual, suggested=suggested)
            for job, (_, usual, slots), (fires, suggested) in zip(jobs, expected, counts, strict=True)
            if fires
        ]
        found.sort(key=lambda one: one.order)
        _remember(self._crowds, key, (edition, found), most=_CROWDS_KEPT)
        return found

    async def spread(
        self, after: Mapping[str, JobSpec], rights: Rights, from_ms: int, to_ms: int
    ) -> tuple[Forecast, Wanted]:
        """What all jobs that the caller may know of want, as they are, and where some of them are others."""
        rights = rights.snapshot()
        before = await self.of(JobQuery(), rights, from_ms, to_ms)
        expected = await self._expected(await self._jobs(JobQuery(), rights), rights)
        expected.specs[:] = [after.get(spec.name, spec) for spec in expected.specs]
        async with self._turn:
            would = await self._beside(lambda: slots_wanted(expected, from_ms, to_ms, there=before.slots))
        return before, would

    async def _jobs(self, query: JobQuery, rights: Rights) -> list[KnownJob]:
        """Those that fire, each with the usual duration as far as that can be looked up in time."""
        await self._watching.ready()
        catalog = self._watching.catalog
        jobs = list[KnownJob]()
        async for part in catalog.parts_seen(query, rights):
            jobs += [job for job in part if job.saved is not None and job.saved.spec.enabled]
        if len(self._usual) > 2 * len(catalog) + _JOBS_A_READ:
            self._usual = {name: known for name, known in self._usual.items() if name in catalog}
        await self._look_up(jobs)
        return jobs

    async def _look_up(self, jobs: Iterable[KnownJob]) -> None:
        begun_s, usual = self._clock.monotonic(), self._usual
        until_s = begun_s - _USUAL_S
        old = [
            job for job in jobs
            if (known := usual.get(job.name)) is None or known.read_s <= until_s or known.saved_ms != _saved_ms(job)
        ]  # fmt: skip
        for start in range(0, len(old), _JOBS_A_READ):
            part = old[start : start + _JOBS_A_READ]
            results = await self._history.results([job.name for job in part])
            if results is None:
                return
            now_s = self._clock.monotonic()
            for job in part:
                came_to, saved_ms = results.get(job.name) or JobResults(), _saved_ms(job)
                since = JobResults(recent=tuple(one for one in came_to.recent if one["planTime"] > saved_ms))
                usual_ms, since_ms = (one.strip().get("usualMs") for one in (came_to, since))
                self._usual[job.name] = _Usual(now_s, usual_ms, saved_ms, since_ms)
            if now_s - begun_s > _READING_S:
                return

    async def _expected(self, jobs: Sequence[KnownJob], rights: Rights) -> _Expected:
        members, usual, expected = self._watching.members, self._usual, _Expected()
        for start in range(0, len(jobs), _AT_ONCE):
            await asyncio.sleep(0)
            for job in jobs[start : start + _AT_ONCE]:
                assert job.saved is not None, "what fires can be read"
                spec, known = job.saved.spec, usual.get(job.name)
                expected.specs.append(spec)
                expected.usual.append(None if known is None else known.seen(job, rights))
                expected.slots.append(_slots(spec, members) if spec.broadcast else spec.slots)
        return expected


def _saved_ms(job: KnownJob) -> int:
    return 0 if job.saved is None else job.saved.saved_ms


def _slots(spec: JobSpec, members: Sequence[Member]) -> int:
    """Of a fire of a broadcast job: it has a run on each worker that may take it."""
    return spec.slots * sum(one.accepts and is_eligible(spec, one.labels, one.slots) for one in members)


def _crowding(expected: _Expected, from_ms: int, to_ms: int) -> list[tuple[int, bool]]:
    counts = fires_in(expected, from_ms, to_ms)
    return [(fires, fires > 0 and suggests_spread(spec)) for spec, fires in zip(expected.specs, counts, strict=True)]


def _remember(kept: dict[_Key, _T], key: _Key, found: _T, *, most: int) -> None:
    """The last so many."""
    kept.pop(key, None)
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = found


def whole_minute(ms: int, minutes: int = 1) -> int:
    """The last whole minute, or the last multiple of some, up to an instant."""
    return ms // (minutes * MINUTE_MS) * minutes * MINUTE_MS
