"""What to do first about the undecided fires of one job: a function of (job, mark, now), applied elsewhere.

A decision names the mark that it starts from, so that etcd refuses it when somebody else decided meanwhile: nothing is
skipped silently, nothing decided twice. Pure: no clock, no I/O. The rules are *Catching up* in ``docs/protocol.md`` and
``misfire`` in ``docs/job-model.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from common.job import Misfire, MisfirePolicy

COUNT_LIMIT: Final = 1000
"""A range is counted exactly up to here; beyond, the count says "at least", so that no outage costs more than this."""


class Timing(Protocol):
    """The part of a schedule that planning needs; times in ms since the epoch."""

    def next_after_ms(self, ms: int) -> int | None: ...
    def last_before_ms(self, ms: int) -> int | None: ...
    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRange:
    """Consecutive planned fires of a job, first and last included, with one reason for all."""

    lo_ms: int
    hi_ms: int
    count: int
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One step for one job, from the mark ``from_ms`` to the mark ``to_ms``: what is missed, made up for, claimed."""

    from_ms: int
    to_ms: int
    missed: FireRange | None = None
    requests: tuple[int, ...] = ()
    """Plan times to be made up for one after the other, oldest first."""
    claim_ms: int | None = None
    """The fire to claim; always the one that the mark moves to."""


def count_range(timing: Timing, lo_ms: int, hi_ms: int) -> FireRange:
    """The fires from ``lo_ms`` to ``hi_ms``, both of them planned fires."""
    count = len(timing.fires_between_ms(lo_ms - 1, hi_ms, COUNT_LIMIT + 1))
    return FireRange(lo_ms=lo_ms, hi_ms=hi_ms, count=min(count, COUNT_LIMIT), at_least=count > COUNT_LIMIT)


def undecided(timing: Timing, *, mark_ms: int, until_ms: int) -> FireRange | None:
    """The planned fires in (mark, until], None where there is none."""
    first = timing.next_after_ms(mark_ms)
    if first is None or first > until_ms:
        return None
    last = timing.last_before_ms(until_ms + 1)
    return count_range(timing, first, first if last is None else last)


def decide(
    timing: Timing, misfire: Misfire, *, mark_ms: int, until_ms: int, now_ms: int, afresh: bool = False
) -> Decision | None:
    """The next step for the fires in (mark, until]; None where all of them are decided.

    ``until_ms`` may lie a little in the future (a claim ahead of its time). ``afresh``: only the newest fire has its
    grace, the older ones are misfires at once.
    """
    first = timing.next_after_ms(mark_ms)
    if first is None or first > until_ms:
        return None
    newest = timing.last_before_ms(until_ms + 1)
    assert newest is not None, "there is a fire at or before until"
    stale = _last_misfire(timing, misfire, newest_ms=newest, now_ms=now_ms, afresh=afresh)
    if stale is None or stale < first:
        return Decision(from_ms=mark_ms, to_ms=first, claim_ms=first)
    match misfire.policy:
        case MisfirePolicy.ALL:
            return _make_up_all(timing, misfire, mark_ms=mark_ms, first=first, newest=newest, now_ms=now_ms)
        case MisfirePolicy.LATEST if stale == newest and now_ms <= newest + misfire.window_ms:
            return _miss_then_claim(timing, mark_ms=mark_ms, first=first, claim=newest)
        case MisfirePolicy.LATEST | MisfirePolicy.SKIP:
            if stale == newest:
                return Decision(from_ms=mark_ms, to_ms=stale, missed=count_range(timing, first, stale))
            live = timing.next_after_ms(stale)
            assert live is not None, "a fire that is not stale follows"
            return _miss_then_claim(timing, mark_ms=mark_ms, first=first, claim=live)


def decide_for_nobody(
    timing: Timing, misfire: Misfire, *, mark_ms: int, now_ms: int, patience_ms: int
) -> Decision | None:
    """The steward's step for fires that no worker took: those given up by now, as one missed range.

    ``skip``: a fire older than its grace and ``patience_ms``; ``latest`` and ``all``: only once the newest due fire is
    older than the window as well, so that a worker that comes back in time still makes up for it.
    """
    due = timing.last_before_ms(now_ms + 1)
    first = timing.next_after_ms(mark_ms)
    if due is None or first is None or first > due:
        return None
    if misfire.policy is MisfirePolicy.SKIP:
        last = timing.last_before_ms(now_ms - misfire.grace_ms - patience_ms)
    else:
        last = due if now_ms > due + misfire.window_ms + patience_ms else None
    if last is None or last < first:
        return None
    return Decision(from_ms=mark_ms, to_ms=last, missed=count_range(timing, first, last))


def _last_misfire(timing: Timing, misfire: Misfire, *, newest_ms: int, now_ms: int, afresh: bool) -> int | None:
    if now_ms > newest_ms + misfire.grace_ms:
        return newest_ms
    return timing.last_before_ms(newest_ms if afresh else now_ms - misfire.grace_ms)


def _miss_then_claim(timing: Timing, *, mark_ms: int, first: int, claim: int) -> Decision:
    before = timing.last_before_ms(claim)
    missed = count_range(timing, first, before) if before is not None and before >= first else None
    return Decision(from_ms=mark_ms, to_ms=claim, missed=missed, claim_ms=claim)


def _make_up_all(timing: Timing, misfire: Misfire, *, mark_ms: int, first: int, newest: int, now_ms: int) -> Decision:
    made_up: list[int] = []
    plan: int | None = newest
    while plan is not None and plan >= first and len(made_up) < misfire.limit and plan + misfire.window_ms >= now_ms:
        made_up.append(plan)
        plan = timing.last_before_ms(plan)
    missed = count_range(timing, first, plan) if plan is not None and plan >= first else None
    return Decision(from_ms=mark_ms, to_ms=newest, missed=missed, requests=tuple(reversed(made_up)))
