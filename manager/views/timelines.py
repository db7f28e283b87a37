"""Lanes over a span of time: what ran, what runs, what is to come; by job, by worker, or by the values of a label.

The work is bounded: at most 50 lanes, of each at most so many of its newest records, by one index range; of all
together so many for the slots that were used. A lane says from where on it is whole. What lies too close together to be
told apart is one mark.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from common.access.rights import Rights
from common.clock import Clock
from common.errors import UnavailableError
from common.protocol.keys import is_text
from common.runlog import RunFilter
from common.verdicts import worst_of
from manager.views.fire_verdicts import OF_RANGES, RANGES
from manager.views.history import History
from manager.views.inventory import Inventory
from manager.views.rows import NO_RESULTS, seen_usual_ms
from manager.views.shapes import worker_state
from manager.watch.catalog import JobQuery, KnownJob
from manager.watch.open_runs import OpenRun
from manager.watch.watching import Watching

MOST_LANES: Final = 50
MOST_BUCKETS: Final = 400
_RECORDS_OF_LANES: Final = 3_000
"""Of all lanes together."""
_RECORDS_OF_ALL: Final = 400
"""For the slots that were used."""
_RECORDS_OF_LABELS: Final = 1_000
"""For both, where lanes are labels: no index knows these."""
_MOST_GOING: Final = 120
"""Runs of a lane that go on."""
_READS_AT_ONCE: Final = 8
_FIRES_OF_A_LANE: Final = 400
_JOBS_AT_A_TIME: Final = 20
_HOUR_MS: Final = 3_600_000
_LONGEST_MS: Final = 86_400_000
"""A run that was planned longer before the window is not looked for; of a job, among the newest alone."""
_STARTED_LAST: Final = 60
"""Among so many of a job's runs."""


class LaneBy(StrEnum):
    """What has a lane."""

    JOB = "job"
    WORKER = "worker"
    LABEL = "label"
    """Each value of one label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From when to when, and what is so short that it is drawn as one."""

    from_ms: int
    to_ms: int
    now_ms: int

    @property
    def bucket_ms(self) -> int:
        return max(-(-(self.to_ms - self.from_ms) // MOST_BUCKETS), 1)

    def bucket(self, ms: int) -> int:
        return (ms - self.from_ms) // self.bucket_ms


@dataclass(slots=True, kw_only=True)
class Lane:
    """One line, and what is known of it."""

    name: str
    state: str = "enabled"
    """Of a job: enabled or paused; of a worker as in the list of workers."""
    since_ms: int | None = None
    """Since when it is so."""
    jobs: int = 1
    usual_ms: int | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    fires: list[dict[str, int]] = field(default_factory=list)
    whole_from_ms: int | None = None
    """Before, some or all records were not looked at; None: it is whole."""
    whole_to_ms: int | None = None
    """Behind, the fires to come were not looked at."""

    def view(self) -> dict[str, Any]:
        return {
            "name": self.name, "state": self.state, "sinceTime": self.since_ms, "jobs": self.jobs,
            "usualMs": self.usual_ms, "runs": self.runs, "fires": self.fires, "wholeFrom": self.whole_from_ms,
            "wholeTo": self.whole_to_ms,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Some lanes, how many there are, and how many slots were used."""

    lanes: Sequence[Lane]
    total: int
    paused: int
    """Jobs that are paused and have no lane."""
    next_cursor: str | None
    used: Sequence[tuple[int, int]]
    """Of each bucket that has any: its start, and the most slots at once."""
    used_from_ms: int | None
    """Before, it was not looked at."""
    used_mean: Sequence[tuple[int, float]]
    """Of whole hours before: the start, and how many runs went on at once on an average."""
    warnings: Sequence[str]


class Timelines:
    """Reads the records, the watch, and the schedules."""

    def __init__(self, watching: Watching, history: History, inventory: Inventory, *, clock: Clock) -> None:
        self._watching = watching
        self._history = history
        self._inventory = inventory
        self._clock = clock
        self._reading = asyncio.Semaphore(_READS_AT_ONCE)

    async def of(
        self,
        by: LaneBy,
        query: JobQuery,
        rights: Rights,
        window: Window,
        *,
        label: str,
        cursor: str | None,
        limit: int,
        hides_paused: bool = False,
    ) -> Timeline:
        """UnavailableError: the jobs have not been read yet. Without the log store, what is to come and what runs."""
        await self._watching.ready()
        warnings = list(self._watching.warnings)
        following, paused = None, 0
        match by:
            case LaneBy.JOB:
                page = await self._watching.catalog.page(
                    query, rights, cursor=cursor, limit=limit, hides_paused=hides_paused
                )
                read, lanes = await asyncio.gather(
                    self._records(RunFilter(), rights, window, _RECORDS_OF_ALL),
                    self._of_jobs(page.jobs, rights, window),
                )
                total, following, paused = page.total, page.next_cursor, page.paused
            case LaneBy.WORKER:
                read, (lanes, total) = await asyncio.gather(
                    self._records(RunFilter(), rights, window, _RECORDS_OF_ALL), self._of_workers(rights, window, limit)
                )
            case _:
                read = await self._records(RunFilter(), rights, window, _RECORDS_OF_LABELS)
                lanes, total = await self._of_labels(label, query, rights, window, read, limit)
        records, cut_ms = read
        means = await self._means(window, cut_ms) if cut_ms is not None and rights.sees_all else ()
        if records is None:
            warnings.append(NO_RESULTS)
        return Timeline(
            lanes=lanes, total=total, paused=paused, next_cursor=following, warnings=warnings,
            used=self._used(records or (), rights, window), used_from_ms=cut_ms, used_mean=means,
        )  # fmt: skip

    async def _records(
        self, wanted: RunFilter, rights: Rights, window: Window, most: int
    ) -> tuple[list[dict[str, Any]] | None, int | None]:
        """Those that touch the window, newest first; and before which time some are left out (None: none is).

        None: the log store is away, or was long in answering.
        """
        if not all(map(is_text, wanted.named)):  # no job can be called so: the log store has nothing of it
            return [], None
        wanted = replace(wanted, from_ms=window.from_ms - _LONGEST_MS, to_ms=window.to_ms)
        if self._history.is_away or window.from_ms > window.now_ms:
            return None if self._history.is_away else [], window.to_ms if self._history.is_away else None
        try:
            async with self._reading:
                found, more = await self._history.spans(wanted, rights, limit=most)
        except UnavailableError:
            return None, window.to_ms
        inside = [one for one in found if _ends_ms(one) >= window.from_ms]
        oldest_ms = found[-1]["planTime"] if found else window.to_ms
        return inside, oldest_ms if more and oldest_ms > window.from_ms else None

    async def _from_before(self, job: str, rights: Rights, window: Window) -> list[dict[str, Any]]:
        """Those of a job that were planned longer before the window than `_records` looks, and reach into it: fires
        that did not run for days, a run that was made up for late, one that took long. Of the newest alone.
        """
        before_ms = window.from_ms - _LONGEST_MS
        if self._history.is_away or window.from_ms > window.now_ms or not is_text(job):
            return []
        try:
            async with self._reading:
                ranges = await self._history.walk(
                    RunFilter(job=job, statuses=OF_RANGES, to_ms=before_ms), rights, cursor=None, limit=RANGES
                )
                started = await self._history.spans_by_start(job, rights, to_ms=window.to_ms, limit=_STARTED_LAST)
        except UnavailableError:
            return []
        found = (*(one for one in started if one["planTime"] < before_ms), *ranges.items)
        return [one for one in found if _ends_ms(one) >= window.from_ms]

    async def _means(self, window: Window, until_ms: int) -> list[tuple[int, float]]:
        """As the steward has counted the hours; none where the log store is away.

        It counts a run whole in the hour that it was planned in. The longest of these is spread over as many hours as
        it took, the others over as many as they take on average.
        """
        hours = range(window.from_ms // _HOUR_MS, min(until_ms, window.now_ms) // _HOUR_MS)
        looked_at = range(hours.start - _LONGEST_MS // _HOUR_MS, hours.stop)
        try:
            counts = await self._history.statistics(None, looked_at, _HOUR_MS) if hours else []
        except UnavailableError:
            return []
        means = Counter[int]()
        for one in counts:
            longest_ms = min(one.max_duration_ms, one.duration_ms)
            others_ms = one.duration_ms - longest_ms
            for ms, each_ms in ((longest_ms, longest_ms), (others_ms, others_ms // max(1, one.timed - 1))):
                over = max(1, -(-each_ms // _HOUR_MS))
                for hour in range(max(one.number, hours.start), min(one.number + over, hours.stop)):
                    means[hour] += ms // over
        return [(hour * _HOUR_MS, round(ms / _HOUR_MS, 2)) for hour, ms in sorted(means.items())]

    async def _of_jobs(self, jobs: Sequence[KnownJob], rights: Rights, window: Window) -> list[Lane]:
        results, read, before = await asyncio.gather(
            self._history.results([job.name for job in jobs if job.saved is not None]),
            asyncio.gather(
                *(self._records(RunFilter(job=job.name), rights, window, _of_each(len(jobs))) for job in jobs)
            ),
            asyncio.gather(*(self._from_before(job.name, rights, window) for job in jobs)),
        )
        lanes = []
        for job, (records, cut_ms), older in zip(jobs, read, before, strict=True):
            usual = seen_usual_ms((results or {}).get(job.name), job, rights)
            pause = job.saved.pause if job.saved is not None else None
            lane = Lane(
                name=job.name, state=str(job.state), since_ms=None if pause is None else pause.since_ms, usual_ms=usual,
                runs=_marks((*(records or ()), *older), window), whole_from_ms=cut_ms,
            )  # fmt: skip
            lane.runs += _going(self._watching.open_runs.of(job.name, rights), window, usual, _ids(lane.runs))
            fires, lane.whole_to_ms = await _to_come([job], window, _FIRES_OF_A_LANE)
            lane.fires = _ticks(fires, window)
            lanes.append(lane)
        return lanes

    async def _of_workers(self, rights: Rights, window: Window, limit: int) -> tuple[list[Lane], int]:
        """Which of them takes a fire is decided when it is due: so none has any to come."""
        there = [one for one in await self._inventory.workers() if one.name is not None]
        seen = there[:limit]
        read = await asyncio.gather(
            *(self._records(RunFilter(worker=one.name), rights, window, _of_each(len(seen))) for one in seen)
        )
        going: dict[str, list[OpenRun]] = {}
        for run in self._watching.open_runs:
            if rights.sees(run.labels):
                going.setdefault(run.worker, []).append(run)
        lanes = []
        for worker, (records, cut_ms) in zip(seen, read, strict=True):
            name = worker.name or ""
            left_ms = None if worker.past is None else worker.past.seen_ms
            lane = Lane(
                name=name, state=worker_state(worker), jobs=0,
                since_ms=left_ms if worker.drain is None else worker.drain.since_ms, runs=_marks(records or (), window),
                whole_from_ms=cut_ms,
            )  # fmt: skip
            lane.runs += _going(going.get(name, ())[:_MOST_GOING], window, None, _ids(lane.runs))
            lanes.append(lane)
        return lanes, len(there)

    async def _of_labels(
        self, label: str, query: JobQuery, rights: Rights, window: Window,
        read: tuple[list[dict[str, Any]] | None, int | None], limit: int,
    ) -> tuple[list[Lane], int]:  # fmt: skip
        """Of the newest records of all jobs, by the labels that they carry."""
        jobs: dict[str, list[KnownJob]] = {}
        async for job in self._watching.catalog.each_seen(query, rights):
            value = None if job.labels is None else job.labels.get(label)
            if value is not None:
                jobs.setdefault(value, []).append(job)
        named = {job.name: value for value, of in jobs.items() for job in of}
        records: dict[str, list[dict[str, Any]]] = {}
        for one in read[0] or ():
            if (value := named.get(one["jobName"])) is not None:
                records.setdefault(value, []).append(one)
        going: dict[str, list[OpenRun]] = {}
        for run in self._watching.open_runs:
            if (value := named.get(run.run_id.job_name)) is not None and rights.sees(run.labels):
                going.setdefault(value, []).append(run)
        lanes = []
        for value, of in sorted(jobs.items())[:limit]:
            lane = Lane(name=value, jobs=len(of), runs=_marks(records.get(value, ()), window), whole_from_ms=read[1])
            lane.runs += _going(going.get(value, ())[:_MOST_GOING], window, None, _ids(lane.runs))
            fires, lane.whole_to_ms = await _to_come(of, window, _FIRES_OF_A_LANE)
            lane.fires = _ticks(fires, window)
            lanes.append(lane)
        return lanes, len(jobs)

    def _used(self, records: Iterable[Mapping[str, Any]], rights: Rights, window: Window) -> list[tuple[int, int]]:
        """How many slots runs held at most in each bucket up to now; a job that is gone counts as one slot."""
        changes: list[tuple[int, int]] = []
        catalog = self._watching.catalog

        def held(job: str, start_ms: int, end_ms: int) -> None:
            if end_ms < window.from_ms or start_ms >= window.to_ms:
                return
            known = catalog.get(job)
            slots = known.saved.spec.slots if known is not None and known.saved is not None else 1
            changes.extend(((start_ms, slots), (max(end_ms, start_ms + 1), -slots)))

        for one in records:
            if one.get("startTime") is not None and one.get("endTime") is not None:
                held(one["jobName"], one["startTime"], one["endTime"])
        for run in self._watching.open_runs:
            if rights.sees(run.labels) and run.has_started(window.now_ms):
                held(run.run_id.job_name, run.start_ms, window.now_ms)
        return _fullest(sorted(changes), window)


def _of_each(lanes: int) -> int:
    return min(max(_RECORDS_OF_LANES // max(lanes, 1), 60), 240)


def _fullest(changes: Sequence[tuple[int, int]], window: Window) -> list[tuple[int, int]]:
    """The most at once in each bucket between the first change and the last."""
    most: dict[int, int] = {}
    held, place = 0, 0
    for ms, by in changes:
        here = max(window.bucket(ms), 0)
        for bucket in range(place, min(here, MOST_BUCKETS - 1) + 1 if held else place):
            most[bucket] = max(most.get(bucket, 0), held)
        held, place = held + by, max(here, place)
        if place < MOST_BUCKETS:
            most[place] = max(most.get(place, 0), held)
    return [(window.from_ms + bucket * window.bucket_ms, slots) for bucket, slots in sorted(most.items())]


def _ends_ms(record: Mapping[str, Any]) -> int:
    ends_ms: int = max(record[name] for name in ("planTime", "endTime", "rangeEndTime") if record.get(name) is not None)
    return ends_ms


def _marks(records: Iterable[Mapping[str, Any]], window: Window) -> list[dict[str, Any]]:
    """Newest first; what is shorter than a bucket and begins in the same one is one mark."""
    marks: list[dict[str, Any]] = []
    for one in records:
        start_ms, end_ms = one.get("startTime") or one["planTime"], _ends_ms(one)
        count, status = one.get("count") or 1, str(one["status"])
        last = marks[-1] if marks else None
        if (
            last is not None
            and window.bucket(last["from"]) == window.bucket(start_ms)
            and max(end_ms - start_ms, last["to"] - last["from"]) < window.bucket_ms
        ):
            last["from"], last["to"] = min(last["from"], start_ms), max(last["to"], end_ms)
            counts = last.setdefault("counts", {last["status"]: 1})
            counts[status] = counts.get(status, 0) + count
            last["status"] = worst_of(counts)
            last.pop("id", None)
        else:
            marks.append({"from": start_ms, "to": max(end_ms, start_ms), "status": status, "id": one["_id"]})
            if count > 1:
                marks[-1]["counts"] = {status: count}
    return marks


def _ids(marks: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(one["id"] for one in marks if "id" in one)


def _going(
    runs: Iterable[OpenRun], window: Window, usual: int | None, recorded: frozenset[str]
) -> list[dict[str, Any]]:
    """Up to now, and to when they usually end."""
    return [
        {
            "from": run.start_ms, "to": max(window.now_ms, run.start_ms), "status": "running", "id": str(run.run_id),
            **({} if usual is None else {"expected": max(run.start_ms + usual, window.now_ms)}),
        }
        for run in runs
        if run.start_ms < window.to_ms and str(run.run_id) not in recorded
    ]  # fmt: skip


async def _to_come(jobs: Sequence[KnownJob], window: Window, most: int) -> tuple[list[int], int | None]:
    """The fires of the jobs from now on, so many at most; and from where on none was looked at. Some jobs at a time:
    between them others have the loop."""
    since_ms, after_ms = max(window.from_ms, window.now_ms), max(window.from_ms - 1, window.now_ms)
    if since_ms >= window.to_ms or not jobs:
        return [], None
    of_each = max(most // len(jobs), 2)
    found: list[int] = []
    cut_ms = None
    for index, job in enumerate(jobs[:most]):
        if index % _JOBS_AT_A_TIME == 0:
            await asyncio.sleep(0)
        if job.saved is None or not job.saved.spec.enabled:
            continue
        fires = job.saved.spec.schedule.open_fires.fires_between_ms(after_ms, window.to_ms - 1, of_each + 1)
        if len(fires) > of_each:
            cut_ms = fires[-1] if cut_ms is None else min(cut_ms, fires[-1])
        found += fires[:of_each]
    if len(jobs) > most:
        cut_ms = since_ms
    return (sorted(found), None) if cut_ms is None else (sorted(ms for ms in found if ms < cut_ms), cut_ms)


def _ticks(fires: Iterable[int], window: Window) -> list[dict[str, int]]:
    """One a bucket, with how many it stands for."""
    ticks: dict[int, dict[str, int]] = {}
    for ms in fires:
        ticks.setdefault(window.bucket(ms), {"time": ms, "count": 0})["count"] += 1
    return list(ticks.values())
