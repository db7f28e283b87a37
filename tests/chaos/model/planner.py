"""The next step for a job's undecided fires, as `common.protocol.planner` has it, without calendar and jitter."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.model.settings import GRACE, LIMIT, PATIENCE, WINDOW
from tests.chaos.model.values import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """From the mark ``base`` to the mark ``to``: a range that is passed, fires to be made up for, the fire to claim."""

    base: int
    to: int
    passed: tuple[int, int] | None = None
    why: str = "missed"
    requests: tuple[int, ...] = ()
    claim: int | None = None


def decide(job: Job, base: int, until: int, now: int, fresh: int | None, *, waited: bool) -> Decision | None:
    """None where all fires in (base, until] are decided."""
    first, newest, period = job.after(base), job.last(until), job.spec.period
    if first > newest:
        return None
    if waited and (due := min(newest, job.last(now))) > base:
        if now > due + WINDOW:
            return _miss(base, first, due)
        return _claim_after(base, first, due, "skipped", period)
    stale = job.last(now - GRACE - 1)
    if fresh is not None:
        stale = max(stale, job.last(fresh) - period)
    stale = min(stale, newest)
    if stale < first:
        if not job.spec.keeps_one:
            return _claim_after(base, first, first, "skipped", period)
        return _claim_after(base, first, max(first, min(job.last(now), newest)), "skipped", period)
    if job.spec.misfire == "all":
        return _make_up(base, first, min(newest, job.last(now)), now, period)
    if job.spec.misfire == "latest" and stale == newest and now <= newest + WINDOW:
        return _claim_after(base, first, newest, "missed", period)
    if stale == newest or (job.spec.keeps_one and stale + period != newest):
        return _miss(base, first, stale)
    return _claim_after(base, first, stale + period, "missed", period)


def given_up(job: Job, base: int, now: int) -> Decision | None:
    """The steward's: what no worker took in its time."""
    first, due = job.after(base), job.last(now)
    if job.spec.misfire == "skip" and not job.spec.keeps_one:
        last = job.last(now - GRACE - PATIENCE - 1)
    else:
        last = due if now > due + WINDOW + PATIENCE else 0
    return None if last < first else _miss(base, first, last)


def _miss(base: int, first: int, last: int) -> Decision:
    return Decision(base=base, to=last, passed=(first, last))


def _claim_after(base: int, first: int, claim: int, why: str, period: int) -> Decision:
    passed = (first, claim - period) if claim > first else None
    return Decision(base=base, to=claim, passed=passed, why=why, claim=claim)


def _make_up(base: int, first: int, newest: int, now: int, period: int) -> Decision:
    plans = [plan for plan in range(first, newest + 1, period) if now <= plan + WINDOW][-LIMIT:]
    if not plans:
        return _miss(base, first, newest)
    passed = (first, plans[0] - period) if plans[0] > first else None
    return Decision(base=base, to=newest, passed=passed, requests=tuple(plans))
