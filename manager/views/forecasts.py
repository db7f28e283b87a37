"""What the fires to come want, of the jobs that a caller may know of, minute by minute; and whose they are.

It is reckoned in a thread, once for all who ask for the same, and kept while no job has changed. What took long is kept
longer: forecasts take a twentieth of a core at most. How long runs usually take is asked of the log store for a few
thousand jobs at a time, whenever a forecast is asked for; until then a run counts as one second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from common.access.rights import Rights, Sight
from common.clock import Clock
from common.forecast import MINUTE_MS, Rhythm, Wanted, slots_wanted
from common.jobs.job import JobSpec
from common.process.threads import beside
from common.protocol.member import Member
from common.protocol.placement import is_eligible
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
_MOST_OF_ONE: Final = 3_600
"""Fires of one job that are counted in a span of at most an hour."""

_WITHIN_S: Final = 8.0
"""A forecast that takes longer is kept all the same, for who asks next."""

_T = TypeVar("_T")
_Key: TypeAlias = tuple[Sight, JobQuery, int, int]
_Jobs: TypeAlias = Sequence[tuple[JobSpec, int | None, int]]
"""Each with what its runs usually take, and the slots of one fire on all of its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is to be expected, and how well that is known."""

    wanted: Wanted
    jobs: int
    """How many may fire: neither paused nor broken."""
    unknown: int
    """Those of them of which nobody has looked up yet how long they take."""
    slots: int
    """Of the workers that take fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """One job of a span, with how often it fires there."""

    job: KnownJob
    fires: int
    slots: int
    usual_ms: int | None


@dataclass(frozen=True, slots=True)
class _Kept:
    edition: tuple[int, int]
    until_s: float
    """Before, it is given though jobs have changed."""
    wanted: Wanted
    jobs: int
    unknown: int


class Forecasts:
    """Reckons and keeps them."""

    def __init__(self, watching: Watching, history: History, *, clock: Clock) -> None:
        self._watching = watching
        self._history = history
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}
        self._usual: dict[str, tuple[float, int | None]] = {}
        """By job: when it was looked up, and what it was."""
        self._turn = asyncio.Lock()
        self._place = threading.BoundedSemaphore(1)

    async def of(self, query: JobQuery, rights: Rights, from_ms: int, to_ms: int) -> Forecast:
        """Between two whole minutes. UnavailableError: the jobs have not been read yet."""
        await self._watching.ready()
        key = (rights.sight, query, from_ms, to_ms)
        if (kept := self._fresh(key)) is None or kept.unknown:
            jobs = await self._jobs(query, rights)
            async with self._turn:
                if (kept := self._fresh(key)) is None:
                    seen, edition = await self._seen(jobs), self._edition
                    unknown = sum(name not in self._usual for name in (job.name for job in jobs))
                    kept = await self._beside(lambda: self._keep(key, edition, seen, unknown))
        return Forecast(
            wanted=kept.wanted, jobs=kept.jobs, unknown=kept.unknown,
            slots=sum(one.slots for one in self._watching.members if one.accepts),
        )  # fmt: skip

    @property
    def _edition(self) -> tuple[int, int]:
        """Another one as jobs change, and as more is known of how long they take."""
        return self._watching.catalog.edition, len(self._usual)

    def _fresh(self, key: _Key) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None or (kept.edition != self._edition and self._clock.monotonic() >= kept.until_s):
            return None
        return kept

    def _keep(self, key: _Key, edition: tuple[int, int], jobs: _Jobs, unknown: int) -> _Kept:
        """Also where whoever asked has given up by then."""
        begun_s = self._clock.monotonic()
        wanted = _reckoned(jobs, *key[2:])
        now_s = self._clock.monotonic()
        self._kept.pop(key, None)
        while len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        took_s = now_s - begun_s
        until_s = now_s + (_SHARE * took_s if took_s > _LONG_S else 0)
        self._kept[key] = kept = _Kept(edition, until_s, wanted, len(jobs), unknown)
        return kept

    async def _beside(self, work: Callable[[], _T]) -> _T:
        return await beside(work, what="a forecast", within_s=_WITHIN_S, places=self._place)

    async def crowd(self, query: JobQuery, rights: Rights, from_ms: int, to_ms: int) -> list[Crowd]:
        """The jobs that fire from one time up to another, at most an hour later; those that want most first."""
        jobs = await self._jobs(query, rights)
        specs = await self._seen(jobs)
        async with self._turn:
            counts = await self._beside(lambda: _counted(specs, from_ms, to_ms))
        found = [
            Crowd(job=job, fires=fires, slots=slots, usual_ms=usual)
            for job, (_, usual, slots), fires in zip(jobs, specs, counts, strict=True)
            if fires
        ]
        return sorted(found, key=lambda one: (-one.fires * one.slots, one.job.name))

    def usual_ms(self, job: str) -> int | None:
        """How long a run of the job usually takes, as far as that has been looked up."""
        return self._usual.get(job, (0.0, None))[1]

    async def spread(
        self, before: Sequence[JobSpec], after: Sequence[JobSpec], from_ms: int, to_ms: int
    ) -> tuple[Wanted, Wanted]:
        """What some jobs want as they are, and as they would be."""
        members = self._watching.members
        both = [
            [(spec, self.usual_ms(spec.name), _slots(spec, members)) for spec in specs] for specs in (before, after)
        ]
        async with self._turn:
            was, would = await self._beside(lambda: [_reckoned(one, from_ms, to_ms) for one in both])
        return was, would

    async def _jobs(self, query: JobQuery, rights: Rights) -> list[KnownJob]:
        """Those that fire, each with the usual duration as far as that can be looked up in time."""
        await self._watching.ready()
        catalog = self._watching.catalog
        jobs = [
            job async for job in catalog.each_seen(query, rights) if job.saved is not None and job.saved.spec.enabled
        ]
        if len(self._usual) > 2 * len(catalog) + _JOBS_A_READ:
            self._usual = {name: known for name, known in self._usual.items() if name in catalog}
        await self._look_up([job.name for job in jobs])
        return jobs

    async def _look_up(self, names: Iterable[str]) -> None:
        begun_s = self._clock.monotonic()
        old = [name for name in names if self._usual.get(name, (-_USUAL_S, None))[0] + _USUAL_S <= begun_s]
        for start in range(0, len(old), _JOBS_A_READ):
            part = old[start : start + _JOBS_A_READ]
            results = await self._history.results(part)
            if results is None:
                return
            now_s = self._clock.monotonic()
            for name in part:
                came_to = results.get(name)
                self._usual[name] = (now_s, None if came_to is None else came_to.strip().get("usualMs"))
            if now_s - begun_s > _READING_S:
                return

    async def _seen(self, jobs: Sequence[KnownJob]) -> _Jobs:
        members, seen = self._watching.members, []
        for place, job in enumerate(jobs):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if job.saved is not None:
                seen.append((job.saved.spec, self.usual_ms(job.name), _slots(job.saved.spec, members)))
        return seen


def _slots(spec: JobSpec, members: Sequence[Member]) -> int:
    """Of one fire: a broadcast one has a run on each worker that may take it."""
    if not spec.broadcast:
        return spec.slots
    return spec.slots * sum(one.accepts and is_eligible(spec, one.labels, one.slots) for one in members)


def _reckoned(jobs: _Jobs, from_ms: int, to_ms: int) -> Wanted:
    return slots_wanted(((Rhythm.of(spec, usual), slots) for spec, usual, slots in jobs), from_ms, to_ms)


def _counted(jobs: _Jobs, from_ms: int, to_ms: int) -> list[int]:
    return [len(spec.schedule.open_fires.fires_between_ms(from_ms - 1, to_ms - 1, _MOST_OF_ONE)) for spec, _, _ in jobs]


def whole_minute(ms: int, minutes: int = 1) -> int:
    """The last whole minute, or the last multiple of some, up to an instant."""
    return ms // (minutes * MINUTE_MS) * minutes * MINUTE_MS
