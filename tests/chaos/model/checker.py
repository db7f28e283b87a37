"""Judges a history, knowing nothing of how it came about: commits, processes, disks, the log, what was answered.

Of the protocol it takes what is written where, not what was decided: keys and values are read as they lie in etcd, and
what a job wanted is reckoned here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from common.jobs.job import JobSpec
from common.protocol.keys import RunId, decode_mark
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.saved_job import SavedJob
from tests.chaos.model.etcd import Commit
from tests.chaos.model.reading import entry_in, run_of
from tests.chaos.model.settings import KEYS, KILL_GRACE, LOST_AFTER, QUIET
from tests.chaos.model.world import History, Started

FROZEN: Final = 200
"""A process that was started by a worker frozen before its exec is gone after this."""
_RAN: Final = frozenset({"success", "failed", "killed"})


class Violation(NamedTuple):
    """Which promise, when, of what."""

    promise: str
    time: int
    what: str


@dataclass(slots=True)
class Version:
    """What a job was from one commit to the next edit."""

    spec: JobSpec
    anchor: int
    create: int
    since: int
    until: int

    def plans(self, until: int) -> range:
        """Its fires after the anchor, and up to this time."""
        assert self.spec.every is not None, "every job of the model has a fixed rate"
        period = self.spec.every.ms
        return range(self.anchor - self.anchor % period + period, until + 1, period)


_saved_in = lru_cache(1 << 10)(SavedJob.from_json)


def check(history: History) -> list[Violation]:
    """Every violation, the earliest first."""
    judges = (
        _at_most_once, _covered, _no_overlap, _true_records, _marks_forward, _fenced_edits, _lost_rightly, _settled,
        _followed, _kept_verdicts, _kills_after_fence,
    )  # fmt: skip
    return sorted((one for judge in judges for one in judge(history)), key=lambda one: one.time)


def _at_most_once(history: History) -> Iterator[Violation]:
    seen: dict[RunId, Started] = {}
    for start in history.starts:
        if start.run in seen:
            first = seen[start.run]
            what = f"{start.run} on {first.worker} at {first.time}, on {start.worker} again"
            yield Violation("G1 at most one start", start.time, what)
        seen[start.run] = start


# Coverage


def judged(history: History) -> int:
    """What was planned, or ended, by then has had its time; a moment of the quiet is among it."""
    return history.end - QUIET + KILL_GRACE


def versions(history: History) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = defaultdict(list)
    create, marks = dict[str, int](), dict[str, int]()
    for commit in history.commits:
        jobs = {KEYS.job_of(put.key): put.value for put in commit.puts if put.key.startswith(KEYS.jobs)}
        gone = [KEYS.job_of(key) for key in commit.deletes if key.startswith(KEYS.jobs)]
        saved = {name: _saved_in(value, name=name) for name, value in jobs.items()}
        marks |= {KEYS.job_of(put.key): decode_mark(put.value) for put in commit.puts if put.key.startswith(KEYS.marks)}
        for name in (*saved, *gone):
            if found[name]:
                # By the clock of the manager that ended it, where that is behind, and no further than the next one
                # begins: its anchor says so, or of a deleted job its mark.
                last = found[name][-1]
                last.until = min(last.until, commit.time, saved[name].anchor_ms if name in saved else marks[name])
        for name in gone:
            create.pop(name, None)
        for name, one in saved.items():
            made = create.setdefault(name, commit.rev)
            found[name].append(Version(one.spec, one.anchor_ms, made, commit.time, history.end))
    return found


def _covered(history: History) -> Iterator[Violation]:
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    single: dict[str, set[int]] = defaultdict(set)
    for run, record in history.log.items():
        if run.plan_ms is not None and record.range_end_ms is not None:
            ranges[run.job].append((run.plan_ms, record.range_end_ms))
        elif run.plan_ms is not None:
            single[run.job].add(run.plan_ms)
    for name, of_job in versions(history).items():
        for version in of_job:
            if not version.spec.enabled:
                continue
            for plan in version.plans(min(version.until, judged(history))):
                count = (plan in single[name]) + sum(lo <= plan <= hi for lo, hi in ranges[name])
                if count != 1:
                    yield Violation("G2 exactly one final record", plan, f"{name}/{plan} has {count}")


def _settled(history: History) -> Iterator[Violation]:
    for what in history.open:
        yield Violation("G2 settled in the end", history.end, what)


# Processes


def _no_overlap(history: History) -> Iterator[Violation]:
    last: dict[str, Started] = {}
    for start in history.starts:
        if not start.locked:
            continue
        before = last.get(start.run.job)
        if before is not None and (before.end is None or before.end > start.time) and not _is_cut_short(start, before):
            what = f"{start.run} on {start.worker} beside {before.run} on {before.worker}, which ended at {before.end}"
            yield Violation("G5 no overlap", start.time, what)
        if before is None or before.end is None or start.end is None or start.end > before.end:
            last[start.run.job] = start


def _is_cut_short(*starts: Started) -> bool:
    return any(one.frozen and one.end is not None and one.end - one.time <= FROZEN for one in starts)


def _true_records(history: History) -> Iterator[Violation]:
    started = {start.run: start for start in history.starts}
    for run, record in history.log.items():
        start = started.get(run)
        if record.status in ("success", "failed") and (start is None or start.how != record.status):
            yield Violation("G3 records are true", history.end, f"{_told(record)}, but {start}")
        if record.status in ("skipped", "missed") and start is not None:
            yield Violation("G3 records are true", start.time, f"{_told(record)}, but {start}")
    final: dict[RunId, int] = {}
    for commit, run, entry in run_puts(history):
        if entry.record is not None:
            final.setdefault(run, commit.time)
    for start in history.starts:
        late = final.get(start.run, start.time) < start.time
        if late and not _is_cut_short(start):
            what = f"{start.run} on {start.worker}, frozen: {start.frozen}; its record was put at {final[start.run]}"
            yield Violation("G3 nothing starts after its record", start.time, what)


def _told(record: RunRecord) -> str:
    return f"{record.run_id}: {record.status} ({record.reason}), fence {record.fence}"


# Commits


def run_puts(history: History) -> Iterator[tuple[Commit, RunId, RunEntry]]:
    for commit in history.commits:
        for put in commit.puts:
            if put.key.startswith(KEYS.runs):
                yield commit, run_of(put.key), entry_in(put.value)


def _marks_forward(history: History) -> Iterator[Violation]:
    marks: dict[str, int] = {}
    for commit in history.commits:
        for put in commit.puts:
            if put.key.startswith(KEYS.marks):
                name, mark = KEYS.job_of(put.key), decode_mark(put.value)
                if mark < marks.get(name, 0):
                    yield Violation("marks never go back", commit.time, f"{name}: {marks[name]} to {mark}")
                marks[name] = mark


def _fenced_edits(history: History) -> Iterator[Violation]:
    acked = defaultdict(list)
    for time, name, revision in history.acks:
        acked[name].append((time, revision))
    claimed: set[RunId] = set()
    for commit, run, entry in run_puts(history):
        if run in claimed or entry.record is not None:
            continue
        claimed.add(run)
        for time, revision in acked[run.job]:
            if time < commit.time and entry.revision < revision:
                what = f"{run} claimed under {entry.revision}, after {revision} was answered at {time}"
                yield Violation("G7 an edit is a fence", commit.time, what)
                break


def _lost_rightly(history: History) -> Iterator[Violation]:
    """``lost`` is the end of a run whose own session has been gone for long enough, or of a restarted worker's."""
    entries: dict[str, RunEntry] = {}
    gone: dict[tuple[str, str], int] = {}
    for commit in history.commits:
        for put in commit.puts:
            if put.key.startswith(KEYS.workers):
                gone.pop(KEYS.session_of(put.key), None)
            if put.key.startswith(KEYS.runs):
                entry, before = entry_in(put.value), entries.get(put.key)
                if entry.record is not None and entry.record.status == "lost" and before is not None:
                    away = commit.time - gone.get((before.worker, before.session), commit.time)
                    if entry.record.reason != "worker restarted" and (away < LOST_AFTER or before.record is not None):
                        what = f"{run_of(put.key)} by {commit.who}, its session had been gone for {away} ms"
                        yield Violation("lost only when lost", commit.time, what)
                entries[put.key] = entry
        for key in commit.deletes:
            if key.startswith(KEYS.workers):
                gone[KEYS.session_of(key)] = commit.time
            entries.pop(key, None)


def _kills_after_fence(history: History) -> Iterator[Violation]:
    """What is recorded as killed before its start was wished after its claim, or before any."""
    kills: dict[RunId, list[int]] = defaultdict(list)
    for commit in history.commits:
        for put in commit.puts:
            if put.key.startswith(KEYS.kills):
                kills[run_of(put.key)].append(commit.rev)
    ended = {start.run: start for start in history.starts}
    for run, record in history.log.items():
        if record.status != "killed" or record.reason not in ("killed", "before start") or not record.fence:
            continue
        start = ended.get(run)
        if record.reason == "killed" and (start is None or start.locked):
            continue  # it may have been given up, or out of touch
        if not any(revision > record.fence for revision in kills[run]):
            yield Violation("a kill is younger than its run", history.end, f"{_told(record)}, killed at {kills[run]}")


# Verdicts


def _kept_verdicts(history: History) -> Iterator[Violation]:
    """A record that was safe on a disk that is still there is what the log says."""
    for time, worker, record in history.spooled:
        if record.status in _RAN and worker not in history.lost_disks and time < history.end - 5 * KILL_GRACE:
            there = history.log.get(record.run_id)
            if there is None or there.status != record.status:
                said = None if there is None else _told(there)
                yield Violation("no lost verdict", time, f"{_told(record)} on {worker}, the log says {said}")


def _followed(history: History) -> Iterator[Violation]:
    """A failed run that its job retries has a next attempt: by the job as it was from its end to the commit of that.

    Where nothing follows the job's revision is not compared, so an edit in between may come too late.
    """
    started = {start.run: start for start in history.starts}
    for commit, run, entry, job in _ends(history):
        record, start = history.log.get(run), started.get(run)
        if record is None or start is None or {record.status, start.how} != {"failed"}:
            continue
        if job.since > (start.end or 0) or commit.time > judged(history):
            continue
        is_its_job = job.create <= entry.revision
        may_run = job.spec.enabled or run.plan_ms is None
        following = RunId(run.job, run.fire, run.attempt + 1)
        if is_its_job and may_run and run.attempt <= job.spec.retry.limit and following not in history.log:
            yield Violation("a retry follows", commit.time, f"{run} failed, and {following} has no record")


def _ends(history: History) -> Iterator[tuple[Commit, RunId, RunEntry, Version]]:
    """The commits that end runs, with the job as it was then.

    Not those that give a run up as lost (its own record may come late, and replaces that), or hand it on.
    """
    jobs: dict[str, Version] = {}
    holders: dict[str, tuple[RunId, RunEntry]] = {}
    for commit in history.commits:
        for put in commit.puts:
            if put.key.startswith(KEYS.jobs):
                name = KEYS.job_of(put.key)
                saved, create = _saved_in(put.value, name=name), jobs[name].create if name in jobs else commit.rev
                jobs[name] = Version(saved.spec, saved.anchor_ms, create, commit.time, 0)
        puts = {run_of(put.key): entry_in(put.value) for put in commit.puts if put.key.startswith(KEYS.runs)}
        locks = [KEYS.job_of(key) for key in commit.deletes if key.startswith(KEYS.locks)]
        ended = [holders.pop(name) for name in locks if name in holders]
        ended += [(run, entry) for run, entry in puts.items() if entry.state is EntryState.ENDED and not entry.locked]
        for run, entry in puts.items():
            if entry.record is None and entry.locked:
                holders.setdefault(run.job, (run, entry))
        for run, entry in ended:
            given_up = run in puts and puts[run].record is not None
            handed_on = any(put.key == KEYS.request(run) for put in commit.puts)
            if run.job in jobs and not given_up and not handed_on:
                yield commit, run, entry, jobs[run.job]
        for key in commit.deletes:
            if key.startswith(KEYS.jobs):
                jobs.pop(KEYS.job_of(key), None)
