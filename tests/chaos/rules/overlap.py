"""G5: of jobs with overlap skip, queue or replace no two runs exist at once; and ``after`` waits as long as it says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.rules.give_ups import may_be_taken
from tests.chaos.view import Run, View, Violation

_NS = 1_000_000_000
_ROUNDING_NS = 2_000_000
_LOST_AFTER_S = 300


def check(view: View) -> Iterator[Violation]:
    """Each job's runs, by CLOCK_BOOTTIME of their evidence."""
    sequences: dict[str, list[Run]] = defaultdict(list)
    for run in view.runs.values():
        if run.signs:
            sequences[run.id.sequence].append(run)
    for sequence, runs in sorted(sequences.items()):
        spec = view.spec_of(runs[0].id.job)
        runs.sort(key=lambda run: run.first_ns)
        if spec.get("overlap", "skip") != "allow":
            yield from _overlaps(view, sequence, runs)
            yield from _beside_what_lingers(view, sequence, runs)
        if "after" in spec:
            yield from _too_soon(runs, int(spec["after"][:-1]) * _NS)


def _overlaps(view: View, sequence: str, runs: list[Run]) -> Iterator[Violation]:
    earlier = runs[0]
    for run in runs[1:]:
        if run.first_ns < earlier.last_ns and not _is_given_up(view, earlier, run):
            both_ms = (min(run.last_ns, earlier.last_ns) - run.first_ns) / 1e6
            text = f"{_shown(earlier)} and {_shown(run)} ran at once for {both_ms:.0f} ms{_excuse(view, earlier)}"
            yield Violation("G5", sequence, text)
        if run.last_ns > earlier.last_ns:
            earlier = run


def _beside_what_lingers(view: View, sequence: str, runs: list[Run]) -> Iterator[Violation]:
    """A run keeps its lock while anything of its process group lives."""
    for earlier in (run for run in runs if run.lingering):
        for run in runs:
            is_beside = run is not earlier and earlier.last_ns <= run.first_ns < earlier.holds_until_ns
            if is_beside and not _may_pass_on(view, earlier, run):
                left_ms = (earlier.holds_until_ns - run.first_ns) / 1e6
                text = f"{_shown(run)} began {left_ms:.0f} ms before the last process of {_shown(earlier)} was gone"
                yield Violation("G5", sequence, f"{text}{_excuse(view, earlier)}")


def _is_given_up(view: View, earlier: Run, run: Run) -> bool:
    """Whether users gave up the earlier one, which went on, before the other began."""
    return any(
        may_be_taken(call) and str(earlier.id) in call.runs
        and call.sent_ms <= min(one.wall_ms for one in run.signs)
        for call in view.calls
    )  # fmt: skip


def _may_pass_on(view: View, earlier: Run, run: Run) -> bool:
    """Whether users gave it up; or its worker, or etcd, was away for as long as a run takes to count as lost."""
    lost_after_ms = view.spec_of(run.id.job).get("lostAfterSeconds", _LOST_AFTER_S) * 1000
    began_ms, next_ms = (min(one.wall_ms for one in of.signs) for of in (earlier, run))
    faults = [one for one in view.faults_between(began_ms, next_ms) if one.target in (earlier.signs[0].worker, "etcd")]
    was_away = any(min(one.until_ms, next_ms) - one.from_ms >= lost_after_ms for one in faults)
    return was_away or _is_given_up(view, earlier, run)


def _shown(run: Run) -> str:
    return f"{run.id} ({run.signs[0].worker}, {run.status})"


def _excuse(view: View, run: Run) -> str:
    """What had happened to the worker of the run that should have been over."""
    first_ms, last_ms = min(one.wall_ms for one in run.signs), max(one.wall_ms for one in run.signs)
    faults = [one for one in view.faults_between(first_ms, last_ms) if one.target == run.signs[0].worker]
    return "".join(f"; {one.what} of {one.target} from {one.from_ms} to {one.until_ms}" for one in faults)


def _too_soon(runs: list[Run], delay_ns: int) -> Iterator[Violation]:
    planned = [run for run in runs if run.id.plan_ms is not None and run.id.attempt == 1]
    for before, run in pairwise(planned):
        if before.status == "success" and run.first_ns < before.last_ns + delay_ns - _ROUNDING_NS:
            gap_ms = (run.first_ns - before.last_ns) / 1e6
            yield Violation("after", str(run.id), f"started {gap_ms:.0f} ms after the end of {before.id}")
