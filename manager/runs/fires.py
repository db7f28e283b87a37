"""The fires of one job: each with its verdict and its reason, those that go or wait now, and those to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.instants import from_ms
from common.jobs.job import JobSpec, Overlap
from common.protocol.keys import Keys, decode_mark
from common.protocol.planner import Fires as FirePlan
from common.protocol.planner import undecided
from common.runlog import RunFilter
from common.schedules.jitter import dispatch_ms
from manager.editing.advice import fire_view, mark_fault
from manager.runs.free_slots import NO_FREE_SLOT, FreeSlots
from manager.runs.history import History
from manager.runs.kept_records import NO_RECORDS, kept_records
from manager.watching.catalog import KnownJob
from manager.watching.eligibility import Eligibility
from manager.watching.open_runs import OpenRun
from manager.watching.watching import Watching

RECENT: Final = 50
UPCOMING: Final = 10
_SOON_MS: Final = 1_500
"""A fire that is due for less than this is on its way, and not waiting."""
NOT_TAKEN: Final = "no worker has taken it yet"
_OF_A_RECORD: Final = ("planTime", "rangeEndTime", "count", "reason", "startTime", "endTime", "worker")


class Fires:
    """*Why did it not run?* is answered here."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, watching: Watching, history: History, slots: FreeSlots, *, clock: Clock
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._watching = watching
        self._history = history
        self._slots = slots
        self._clock = clock

    async def of(
        self, job: KnownJob | None, name: str, *, before_ms: int | None, after_ms: int | None
    ) -> dict[str, Any]:
        """Recent fires (newest first) before one instant, and upcoming ones after another; now by default.

        Where the log store is away, of the recent ones what etcd knows; a warning says so.
        """
        now_ms, saved = self._clock.wall_ms(), job.saved if job is not None else None
        documents = await self._documents(name, before_ms)
        warnings = self._watching.warnings
        if documents is None:
            kept = await kept_records(self._etcd, self._keys, self._watching.open_runs.unrecorded(name))
            documents = [one for one in kept if before_ms is None or one["planTime"] < before_ms]
            warnings = [*warnings, NO_RECORDS]
        recent = [_recorded(document) for document in documents]
        if before_ms is None:
            known = {fire["runId"] for fire in recent}
            going = [run for run in self._watching.open_runs.of(name) if str(run.run_id) not in known]
            recent += [_open(run, now_ms) for run in going]
            if saved is not None and saved.spec.enabled:
                recent += await self._waiting(name, saved.spec, saved.anchor_ms, now_ms)
        recent.sort(key=lambda fire: fire["rangeEndTime"] or fire["planTime"], reverse=True)
        upcoming = [] if saved is None else _upcoming(saved.spec, max(after_ms or now_ms, saved.anchor_ms))
        return {"recent": recent[:RECENT], "upcoming": upcoming, "warnings": warnings}

    async def _documents(self, name: str, before_ms: int | None) -> Sequence[Mapping[str, Any]] | None:
        """The newest records before then; None: the log store is away."""
        if self._history.is_away:
            return None  # whoever looks at a page need not wait until that is found once more
        try:
            page = await self._history.runs(RunFilter(job=name, to_ms=before_ms), cursor=None, limit=RECENT)
        except UnavailableError:
            return None
        return page.items

    async def fault_of(self, job: KnownJob) -> str | None:
        """What is wrong with the job's mark, which a claim may have moved as well as a save; None: nothing is known."""
        if job.saved is None or self._watching.stale_since_ms is not None:
            return None
        return mark_fault(await self._mark(job.name, job.saved.spec), now_ms=self._clock.wall_ms())

    async def _mark(self, name: str, spec: JobSpec) -> int | None:
        """None: it is not known. Of a broadcast job each worker has its own, and nobody owes what it was away for."""
        try:
            mark = None if spec.broadcast else await self._etcd.get(self._keys.mark(name))
            return None if mark is None else decode_mark(mark.value)
        except (EtcdError, UnavailableError, ValueError):
            return None

    async def _waiting(self, name: str, spec: JobSpec, anchor_ms: int, now_ms: int) -> list[dict[str, Any]]:
        """The fires that are due and that nobody has decided, as one; without a mark we cannot know."""
        mark_ms = await self._mark(name, spec)
        if mark_ms is None:
            return []
        due_ms = due_by(spec, now_ms - _SOON_MS)
        fires = None if due_ms is None else undecided(spec.schedule, mark_ms=max(mark_ms, anchor_ms), until_ms=due_ms)
        if fires is None:
            return []
        several = fires.count > 1
        reason = Eligibility(spec, self._watching.members).takers(str(fires.lo_ms)).reason
        reason = reason or waits_for(spec, self._watching.open_runs.of(name))
        return [
            _fire(
                planTime=fires.lo_ms, rangeEndTime=fires.hi_ms if several else None,
                count=fires.count if several else None, verdict="waiting",
                reason=reason or await not_taken(spec, self._slots),
            )
        ]  # fmt: skip


def due_by(spec: JobSpec, ms: int) -> int | None:
    """The newest planned fire whose dispatch time has come by this moment."""
    dispatch = partial(dispatch_ms, spec.name, spec.schedule, spec.jitter_s)
    return FirePlan.of(spec.schedule, dispatch).newest_due_ms(ms)


def first_due_ms(spec: JobSpec, anchor_ms: int, now_ms: int) -> int | None:
    """The first fire planned since the anchor, where it has been due for a while; of broadcasts no fire is owed."""
    plan_ms = None if spec.broadcast or not spec.enabled else spec.schedule.next_after_ms(anchor_ms)
    if plan_ms is None or dispatch_ms(spec.name, spec.schedule, spec.jitter_s, plan_ms) > now_ms - _SOON_MS:
        return None
    return plan_ms


async def not_taken(spec: JobSpec, slots: FreeSlots) -> str:
    """Why a fire waits that somebody could take, and that no run stands in the way of."""
    if (standstill := slots.standstill()) is not None:
        return standstill
    return f"waits for {NO_FREE_SLOT}" if await slots.are_taken(spec) else NOT_TAKEN


def waits_for(spec: JobSpec, open_runs: Sequence[OpenRun]) -> str | None:
    """What a fire waits for whose turn comes when another run ends."""
    if spec.overlap not in (Overlap.QUEUE, Overlap.REPLACE) or not open_runs:
        return None
    return f"waits for {open_runs[0].run_id} to end"


def _recorded(document: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: document[name] for name in _OF_A_RECORD if name in document}
    return _fire(**told, verdict=document.get("status"), runId=document.get("_id"))


def _open(run: OpenRun, now_ms: int) -> dict[str, Any]:
    started = run.has_started(now_ms)
    return _fire(
        planTime=run.plan_ms, verdict="running" if started else "claimed", runId=str(run.run_id),
        startTime=run.start_ms if started else None, worker=run.worker,
    )  # fmt: skip


def _fire(**told: Any) -> dict[str, Any]:
    names: Iterable[str] = (*_OF_A_RECORD, "verdict", "runId")
    return {name: told.get(name) for name in names}


def _upcoming(spec: JobSpec, after_ms: int) -> list[dict[str, Any]]:
    fires = spec.schedule.upcoming(from_ms(after_ms), UPCOMING) if spec.enabled else []
    return [fire_view(fire, spec.schedule) for fire in fires]
