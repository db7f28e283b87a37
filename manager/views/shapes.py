"""The JSON shapes of the answers: jobs, workers and runs, for the calls of the legacy API and for ours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from common.access.masks import shown_spec
from common.access.rights import Rights
from common.protocol.drain import Drain
from common.protocol.edits import Stored
from common.protocol.keys import RunId
from common.protocol.member import Beat, Member
from common.protocol.roster import Left
from common.protocol.run import EntryState, RunEntry
from common.protocol.saved_job import Pause, SavedJob
from common.runlog import JobResults
from common.runlog.last import LISTED
from common.words.phrases import DEFAULT
from manager.views.advice import job_words, mark_fault, next_fire
from manager.views.inventory import SeenWorker
from manager.watch.catalog import KnownJob
from manager.watch.open_runs import OpenRun

_LEGACY_LOG_FIELDS: Final[Mapping[str, Any]] = {
    "jobName": "", "command": "", "err": "", "output": "",
    "planTime": 0, "scheduleTime": 0, "startTime": 0, "endTime": 0,
}  # fmt: skip
MAY_NAME_JOBS: Final = "it has a problem; who may see every job is told which, for it may name some"
"""In place of what a process tells of itself."""


def legacy_job(stored: Stored, rights: Rights) -> Mapping[str, Any]:
    """A job as the calls of the legacy API show it: the spec with its defaults, which a client may send back as it is,
    unless it is shown values of ``env`` masked.

    A value that is not a job is shown by its key's name, with the ``problem``.
    """
    if stored.saved is not None:
        return shown_spec(stored.saved.spec.to_document(), rights, stored.saved.spec.labels)
    return {"name": stored.name, "command": "", "cronExpr": "", "problem": stored.problem}


def legacy_log(document: Mapping[str, Any]) -> dict[str, Any]:
    """A log document with the legacy API's eight fields whatever it lacks, and ours."""
    return {**_LEGACY_LOG_FIELDS, **document}


def legacy_workers(seen: Iterable[SeenWorker]) -> list[str]:
    """The address of each healthy worker; ``address#n`` where one machine runs several, numbered by their names."""
    by_address: dict[str, list[str]] = {}
    for member in healthy(seen):
        by_address.setdefault(member.address, []).append(member.worker)
    return [
        address if len(workers) == 1 else f"{address}#{number}"
        for address, workers in sorted(by_address.items())
        for number, _ in enumerate(sorted(workers), start=1)
    ]


def healthy(seen: Iterable[SeenWorker]) -> list[Member]:
    """One member for each worker whose session's key hangs on the lease that its name tells; the newest session."""
    newest: dict[str, Member] = {}
    for worker in seen:
        member = worker.member
        if member is None or not member.attached:
            continue
        known = newest.get(member.worker)
        if known is None or known.since_ms <= member.since_ms:
            newest[member.worker] = member
    return [newest[name] for name in sorted(newest)]


def job_row(
    job: KnownJob, runs: Iterable[OpenRun], results: JobResults | None, *, now_ms: int, language: str = DEFAULT,
    blocked_ms: int | None = None, newest: int = LISTED,
) -> dict[str, Any]:  # fmt: skip
    """A job as ``/api/v1`` shows it: the spec apart from what etcron knows about it. `results` None: not known.

    ``blocked_ms``: its mark, where that lies ahead. ``newest``: so many are in its strip.
    """
    saved = job.saved
    mark_ms = max(saved.anchor_ms if saved else 0, blocked_ms or 0)
    came_to = results or JobResults()
    return {
        "name": job.name,
        "spec": saved.spec.to_document() if saved else None,
        "revision": job.revision,
        "etag": f'"{job.revision}"',
        "state": str(job.state),
        "problem": job.problem or mark_fault(mark_ms, now_ms=now_ms),
        "blockedUntil": blocked_ms,
        "savedMs": saved.saved_ms if saved else None,
        "savedBy": saved.saved_by if saved else None,
        "paused": pause_view(saved),
        "words": job_words(saved.spec, language) if saved else "",
        "nextFire": next_fire(saved.spec, after_ms=max(now_ms, mark_ms)) if saved else None,
        "lastResult": came_to.last,
        "lastRun": came_to.last_run,
        **({} if came_to.success_ms is None else {"lastSuccessTime": came_to.success_ms}),
        **({} if came_to.failed_ms is None else {"lastFailureTime": came_to.failed_ms}),
        **came_to.strip(newest),
        "running": running_views(runs, now_ms=now_ms),
    }


def pause_view(saved: SavedJob | None) -> dict[str, Any] | None:
    """Since when, by whom and why a job is paused; None where it is not."""
    if saved is None or saved.spec.enabled:
        return None
    pause = saved.pause or Pause(since_ms=saved.saved_ms, by=saved.saved_by)
    return {"sinceMs": pause.since_ms, "by": pause.by, "reason": pause.reason}


def running_views(runs: Iterable[OpenRun], *, now_ms: int) -> list[dict[str, Any]]:
    """The open runs of a job, oldest first."""
    return [
        {
            "id": str(run.run_id), "planTime": run.plan_ms, "worker": run.worker,
            "startTime": run.start_ms if run.has_started(now_ms) else None,
            "state": "running" if run.has_started(now_ms) else "claimed",
        }
        for run in runs
    ]  # fmt: skip


def going_view(run: OpenRun, *, now_ms: int) -> dict[str, Any]:
    """An open run as it stands in a list of runs: what the watch knows of it."""
    started = run.has_started(now_ms)
    return {
        "id": str(run.run_id), "state": "running" if started else "claimed", "jobName": run.run_id.job_name,
        "attempt": run.run_id.attempt, "planTime": run.plan_ms, "claimTime": run.claim_ms,
        "scheduleTime": run.dispatch_ms, "startTime": run.start_ms if started else None, "worker": run.worker,
        "trigger": str(run.trigger), **({"dueTime": run.dispatch_ms} if run.dispatch_ms > run.plan_ms else {}),
    }  # fmt: skip


def worker_view(seen: SeenWorker, *, sees_all: bool) -> dict[str, Any]:
    """A worker's session with its newest beat. ``sees_all``: whether its reader may know of every job."""
    member, beat = seen.member, seen.beat
    if member is None:
        return _away_or_broken(seen)
    view: dict[str, Any] = {
        "name": member.worker,
        "session": member.session,
        "instance": member.instance,
        "host": member.host,
        "address": member.address,
        "state": worker_state(seen),
        "problem": member.not_accepting or (_problem(beat, sees_all=sees_all) if beat else None),
        "slots": member.slots,
        "labels": dict(member.labels),
        "isolation": "users" if member.isolates else "none",
        "runsAs": None if member.runs_as is None else member.runs_as.to_document(),
        "version": member.version,
        "tzdata": member.tzdata,
        "sinceMs": member.since_ms,
        "drained": None if seen.drain is None else drain_view(seen.drain),
        "beat": None,
    }
    if beat is not None:
        view["beat"] = {
            "wallMs": beat.wall_ms, "freeSlots": beat.free_slots, "running": beat.running, "waiting": beat.waiting,
            "unsentRecords": beat.unsent_records, "load": beat.load, "memoryPercent": beat.memory_percent,
            "ending": beat.ending_count,
        }  # fmt: skip
    return view


def _problem(beat: Beat, *, sees_all: bool) -> str | None:
    return beat.problem if sees_all or beat.problem is None else MAY_NAME_JOBS


def worker_state(seen: SeenWorker) -> str:
    """Whether it takes fires, in a word or two."""
    member = seen.member
    if member is None:
        if seen.drain is not None:
            return "drained"
        if seen.past is None:
            return "broken"
        return "gone" if seen.past.left in (None, Left.GONE) else "stopped"  # it is drained no more
    if not member.attached:
        return "detached"
    if seen.drain is None:
        return "accepting" if member.accepts else "not accepting"
    # Until it has heard of it, and until what runs there has ended.
    is_over = member.not_accepting is not None and seen.beat is not None and not seen.beat.running
    return "drained" if is_over else "draining"


def _away_or_broken(seen: SeenWorker) -> dict[str, Any]:
    state, drain, past = worker_state(seen), seen.drain, seen.past
    if drain is None and past is None:
        return {"key": seen.key, "state": state, "problem": seen.problem}
    view: dict[str, Any] = {
        "name": seen.name, "state": state, "problem": "not live" if drain is None else f"not live; {drain}",
        "drained": None if drain is None else drain_view(drain), "beat": None,
    }  # fmt: skip
    if past is not None:
        view |= {
            "host": past.host, "slots": past.slots, "labels": dict(past.labels), "seenMs": past.seen_ms,
            "left": str(past.left or Left.GONE),
        }  # fmt: skip
    return view


def drain_view(drain: Drain) -> dict[str, Any]:
    """Who drained a worker, since when, and why."""
    return {"by": drain.by, "sinceMs": drain.since_ms, "reason": drain.reason}


def run_view(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run that has its verdict: the log document, its ``_id`` as ``id``."""
    view = dict(document)
    return {"id": view.pop("_id", None), "state": "finished", **view}


def open_run_view(run: RunId, entry: RunEntry, *, fence: int, now_ms: int, has_ended: bool = False) -> dict[str, Any]:
    """A run that is still in etcd: claimed, running, or ended with its record on the way. ``has_ended``: its lock is
    free."""
    if entry.record is not None:
        return run_view(entry.record.to_document())
    started = entry.dispatch_ms <= now_ms
    ended = has_ended or entry.state is EntryState.ENDED
    return {
        "id": str(run),
        "state": "ended" if ended else "running" if started else "claimed",
        "jobName": run.job_name,
        "attempt": run.attempt,
        "planTime": entry.plan_ms,
        **({} if entry.due_ms is None else {"dueTime": entry.due_ms}),
        "createTime": entry.claim_ms if entry.create_ms is None else entry.create_ms,
        "claimTime": entry.claim_ms,
        "scheduleTime": entry.dispatch_ms,
        # When it was to start: its record alone will tell when it really did.
        "startTime": max(entry.dispatch_ms, entry.claim_ms) if started else None,
        "worker": entry.worker,
        "session": entry.session,
        "trigger": str(entry.trigger),
        "by": entry.by,
        "note": entry.note,
        "args": list(entry.args),
        "revision": entry.revision,
        "fence": fence,
        "locked": entry.locked,
    }
