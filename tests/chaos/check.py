"""The offline checker: ``python -m tests.chaos.check HISTORY`` says every promise that the history breaks. 0: none."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.figures import beyond_the_schedule, faults_by_kind, fires, jobs_by_policy
from tests.chaos.history import Event, read_history
from tests.chaos.latency import LATE_MS, beyond_by_kind, lateness
from tests.chaos.rules import (
    absences,
    attempts,
    catching_up,
    coverage,
    edits,
    evidence_clocks,
    give_ups,
    kills,
    leftovers,
    outputs,
    overlap,
    recovery,
    starts,
)
from tests.chaos.view import View, Violation

RULES = (starts, coverage, overlap, catching_up, edits, kills, give_ups, absences, leftovers, attempts, outputs,
         evidence_clocks, recovery)  # fmt: skip
_SHOWN_OF_A_KIND = 40
_MET_AT_LEAST = 2
_SELDOM = " (met less than twice)"


def violations(view: View) -> list[Violation]:
    """All of them."""
    return [violation for rule in RULES for violation in rule.check(view)]


def report(events: Iterable[Event], history: Path | None = None) -> int:
    """Print what was done, what it came to, and what is wrong with it; 1 where something is."""
    view = View.of(events)
    found = violations(view)
    where = [f"history {history}"] if history is not None else []
    sys.stdout.write("\n".join([*_faults(view), *_summary(view), *_wrong(found), *_of_etcd(view), *where]) + "\n")
    return 1 if found else 0


def _faults(view: View) -> Iterator[str]:
    for fault in sorted(view.faults, key=lambda one: one.from_ms):
        lasted_s = (fault.until_ms - fault.from_ms) / 1000
        yield f"  {_clock(fault.from_ms)}  {lasted_s:5.1f} s  {fault.target}: {fault.what}"


def _summary(view: View) -> list[str]:
    header = view.header
    started = sum(1 for run in view.runs.values() if run.starts)
    statuses = Counter(record["status"] for _, record in view.records())
    calls = Counter(str(call.op) for call in view.calls)
    asked, again = beyond_the_schedule(view)
    policies = jobs_by_policy(view)
    return [
        *(f"note: {note.text}" for note in view.notes),
        f"seed {header.seed}, {header.minutes:g} minutes, load {header.load}, commit {header.commit}",
        f"stages: {', '.join(f'{one.name} {_clock(one.at_ms)}' for one in view.stages)}",
        f"jobs: {sum(policies.values())}, of {len(policies)} pairs of overlap and misfire policy",
        f"fires: {', '.join(f'{count} {what}' for what, count in fires(view).items())}",
        f"beside them {asked} runs asked for, and {again} further attempts",
        f"runs: {started} started; {sum(statuses.values())} records ({_counted(statuses)})",
        f"faults: {len(view.faults)}",
        *(
            f"  {count:4}  {name}{'' if count >= _MET_AT_LEAST else _SELDOM}"
            for name, count in faults_by_kind(view).items()
        ),
        f"calls: {sum(calls.values())} ({_counted(calls)})",
        *(f"late, {which}: {late}" for which, late in lateness(view).items()),
        *(f"beyond {LATE_MS} ms, without faults, {kind}: {late}" for kind, late in beyond_by_kind(view).items()),
    ]


def _wrong(found: list[Violation]) -> list[str]:
    if not found:
        return ["no violation"]
    lines, shown = [], Counter[str]()
    for one in found:
        shown[one.promise] += 1
        if shown[one.promise] <= _SHOWN_OF_A_KIND:
            lines.append(f"  {one}")
    return [f"{len(found)} violations ({_counted(shown)})", *lines]


def given_twice(view: View) -> list[int]:
    """The revisions under which two workers have claimed: etcd has given each of them out twice."""
    workers = defaultdict[int, set[str]](set)
    for sign in (sign for run in view.runs.values() for sign in run.signs):
        workers[sign.fence].add(sign.worker)
    return sorted(fence for fence, claimants in workers.items() if len(claimants) > 1)


def _of_etcd(view: View) -> Iterator[str]:
    if twice := given_twice(view):
        yield (
            f"etcd has given out {len(twice)} revisions twice (the first is {twice[0]}), so it has lost what it had "
            "acknowledged, as 3.5.0 to 3.5.2 may when they are killed: take another version"
        )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python -m tests.chaos.check HISTORY")
    sys.exit(report(read_history(Path(sys.argv[1])), Path(sys.argv[1])))
