"""What to do first about the undecided fires of one job: a function of (job, mark, now), applied elsewhere.

A decision names the mark that it starts from, so that etcd refuses it if another process decided meanwhile: nothing is
skipped silently, nothing decided twice. Pure: no clock, no I/O. The rules are *Catching up* in
``docs/internals/protocol.md`` and ``misfire`` in ``docs/reference/job-model.md``.

A fire is due at its dispatch time; its grace and its window count from there. Dispatch times lie before the next plan
time (:mod:`common.schedules.schedule`), so that of two fires the earlier is always due, late and out of its window
first.

Fires that the calendar closes are decided by themselves, as ranges: no decision does both such and others. Where open
fires are missed or superseded from one to another, the closed ones between them go with them, and are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, Protocol

from msgspec import Struct

from common.jobs.job import Misfire, MisfirePolicy

COUNT_LIMIT: Final = 1000
"""A range is counted exactly up to here; beyond, the count says "at least", so that no outage costs more than this."""

NO_WORKER_FOR_MS: Final = 60_000
"""No worker could take a fire for so long, before it is missed for that; and the shortest range of such fires."""
LONGEST_RANGE_MS: Final = 86_400_000


class Timing(Protocol):
    """The part of a schedule that stepping needs; times in ms since the epoch."""

    def next_after_ms(self, ms: int) -> int | None: ...
    def last_before_ms(self, ms: int) -> int | None: ...
    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]: ...


class Planned(Timing, Protocol):
    """Every planned fire, and those of them that the calendar lets run."""

    @property
    def open_fires(self) -> Timing: ...


def at_once(plan_ms: int) -> int:
    """The dispatch time of a fire without jitter."""
    return plan_ms


class Fires(Struct, frozen=True, kw_only=True):
    """The fires of one job: planned, open, and when each of them is to start."""

    planned: Timing
    open: Timing
    dispatch_ms: Callable[[int], int] = at_once
    keeps_one: bool = False
    """Of those that are due, the newest waits for lock and slot, and the others are superseded."""

    @classmethod
    def of(cls, schedule: Planned, dispatch_ms: Callable[[int], int] = at_once, *, keeps_one: bool = False) -> Fires:
        """The fires of a schedule."""
        return cls(planned=schedule, open=schedule.open_fires, dispatch_ms=dispatch_ms, keeps_one=keeps_one)

    def newest_due_ms(self, ms: int) -> int | None:
        """The newest planned fire that is due at this moment, closed or open."""
        return self._newest(self.planned, ms)

    def newest_open_ms(self, ms: int) -> int | None:
        """The newest open fire that is due at this moment."""
        return self._newest(self.open, ms)

    def _newest(self, timing: Timing, ms: int) -> int | None:
        newest = timing.last_before_ms(ms + 1)
        if newest is None or self.dispatch_ms(newest) <= ms:
            return newest
        return timing.last_before_ms(newest)  # due before the next plan time, and so by now

    def follow_at_once(self, before: int, after: int) -> bool:
        """Whether no planned fire lies between these two."""
        return self.open is self.planned or self.planned.last_before_ms(after) == before


class FireRange(Struct, frozen=True, kw_only=True):
    """Consecutive fires of a job, first and last included, with one reason for all."""

    lo_ms: int
    hi_ms: int
    count: int
    at_least: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """One step for one job, from the mark ``from_ms`` to the mark ``to_ms``: what is passed, made up for, claimed.

    At most one range of fires is passed, and only before those that are made up for or claimed.
    """

    from_ms: int
    to_ms: int
    missed: FireRange | None = None
    superseded: FireRange | None = None
    """They waited together with a newer one, which alone is kept."""
    closed: FireRange | None = None
    """The calendar does not let them run; then there is nothing else in the decision."""
    requests: tuple[int, ...] = ()
    """Plan times to be made up for one after the other, oldest first."""
    claim_ms: int | None = None
    """The fire to claim; always the one that the mark moves to."""

    @property
    def passed(self) -> FireRange | None:
        """The fires that do not run, whatever the reason."""
        return self.missed or self.superseded or self.closed


class Held(Struct, frozen=True, kw_only=True):
    """From when until when nothing was decided, though all was there to decide it: a fire due meanwhile has waited."""

    from_ms: int
    until_ms: int

    def limits(self, fresh_ms: int, misfire: Misfire, *, now_ms: int) -> int:
        """``fresh_ms``, but so that no fire that has waited loses its grace by it, until that is over."""
        return min(fresh_ms, self.from_ms) if now_ms <= self.until_ms + misfire.grace_ms else fresh_ms

    def waited_until_ms(self, dispatch_ms: int) -> int:
        """From when its grace counts."""
        return self.until_ms if self.from_ms <= dispatch_ms < self.until_ms else dispatch_ms


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
    fires: Fires,
    misfire: Misfire,
    *,
    mark_ms: int,
    until_ms: int,
    now_ms: int,
    fresh_ms: int | None = None,
    waited: bool = False,
    held: Held | None = None,
) -> Decision | None:
    """The next step for the fires in (mark, until]; None where all of them are decided.

    ``until_ms`` may lie a little in the future (a claim ahead of its time). ``fresh_ms``: the job was looked at afresh
    when this fire was the newest due; the open fires before it have no grace. ``waited``: of a job that keeps one, the
    lock was held when they became due; the newest has its window in place of its grace. ``held``: the grace of what was
    due meanwhile counts from its end.
    """
    first = fires.planned.next_after_ms(mark_ms)
    if first is None or first > until_ms:
        return None
    closed = _closed(fires, mark_ms=mark_ms, first=first, until_ms=until_ms)
    if closed is not None:
        return closed
    newest = fires.open.last_before_ms(until_ms + 1)
    assert newest is not None, "there is an open fire at or before until"
    if waited and (kept := _keep_newest(fires, misfire, mark_ms=mark_ms, newest=newest, now_ms=now_ms)) is not None:
        return kept
    late_ms = _late_ms(now_ms, misfire, held)
    stale = _last_misfire(fires, late_ms=late_ms, newest_ms=newest, fresh_ms=fresh_ms)
    if stale is None or stale < first:
        return _claim(fires, mark_ms=mark_ms, first=first, newest=newest, now_ms=now_ms)
    match misfire.policy:
        case MisfirePolicy.ALL:
            return _catch_up_all(fires, misfire, mark_ms=mark_ms, newest=newest, now_ms=now_ms)
        case MisfirePolicy.LATEST if stale == newest and now_ms <= fires.dispatch_ms(newest) + misfire.window_ms:
            return _pass_then_claim(fires, mark_ms=mark_ms, claim=newest)
        case MisfirePolicy.LATEST | MisfirePolicy.SKIP:
            if stale == newest:
                return _miss(fires, mark_ms=mark_ms, last=stale)
            live = fires.open.next_after_ms(stale)
            assert live is not None, "a fire that is not stale follows"
            if fires.keeps_one and live != newest:
                return _miss(fires, mark_ms=mark_ms, last=stale)
            return _pass_then_claim(fires, mark_ms=mark_ms, claim=live)


def give_up_unclaimed(
    fires: Fires, misfire: Misfire, *, mark_ms: int, now_ms: int, patience_ms: int, held: Held | None = None
) -> Decision | None:
    """The steward's step for fires that no worker took: those given up by now, as one missed range.

    ``skip``: a fire older than its grace and ``patience_ms``; ``latest`` and ``all``: only once the newest due fire is
    older than the window as well, so that a worker that comes back in time still makes up for it. So it is, whatever
    the policy, where the newest fire may wait for a lock.
    """
    due, first = fires.newest_open_ms(now_ms), _first_open_ms(fires, mark_ms)
    if due is None or first is None:
        return None
    if misfire.policy is MisfirePolicy.SKIP and not fires.keeps_one:
        last = fires.newest_open_ms(_late_ms(now_ms - patience_ms, misfire, held))
    else:
        last = due if now_ms > fires.dispatch_ms(due) + misfire.window_ms + patience_ms else None
    return None if last is None or last < first else _miss(fires, mark_ms=mark_ms, last=last)


def miss_while_no_worker(
    fires: Fires, misfire: Misfire, *, mark_ms: int, now_ms: int, since_ms: int, patience_ms: int
) -> Decision | None:
    """The steward's step while no live worker can take the fires, since then: those that can never run any more.

    What a worker that comes now would still start waits for it: fires in their grace; of those in their window the
    newest due one under ``latest``, the newest ``limit`` under ``all``. Ranges grow with the absence, from a minute to
    a day, so that a long one has few records. Where one fire is kept, the others are superseded by it, as ever.
    """
    due, first = fires.newest_open_ms(now_ms), _first_open_ms(fires, mark_ms)
    if due is None or first is None:
        return None
    length_ms = min(max(mark_ms - since_ms, NO_WORKER_FOR_MS), LONGEST_RANGE_MS)
    too_old_ms = now_ms - patience_ms - 1
    out_of_window_ms, out_of_grace_ms = too_old_ms - misfire.window_ms, too_old_ms - misfire.grace_ms
    is_over = fires.dispatch_ms(due) <= out_of_window_ms
    until_ms = out_of_window_ms if is_over else out_of_grace_ms
    if now_ms - since_ms < NO_WORKER_FOR_MS or until_ms - fires.dispatch_ms(first) < length_ms:
        return None
    last = (
        due
        if is_over
        else _last_without_a_chance(
            fires, misfire, due, out_of_window_ms=out_of_window_ms, out_of_grace_ms=out_of_grace_ms
        )
    )
    if last is None or last < first:
        return None
    missed = _miss(fires, mark_ms=mark_ms, last=last)
    if is_over or not fires.keeps_one:
        return missed
    return Decision(from_ms=mark_ms, to_ms=last, superseded=missed.missed)


def _first_open_ms(fires: Fires, mark_ms: int) -> int | None:
    """The first fire after the mark; None where there is none, or the calendar closes it: that is decided first."""
    first = fires.planned.next_after_ms(mark_ms)
    return first if first == fires.open.next_after_ms(mark_ms) else None


def _last_without_a_chance(
    fires: Fires, misfire: Misfire, due: int, *, out_of_window_ms: int, out_of_grace_ms: int
) -> int | None:
    """The newest fire that no worker would start any more, where the newest due one is in its window.

    What was due by ``out_of_window_ms`` is out of its window; so with the grace.
    """
    late = fires.newest_open_ms(out_of_grace_ms)
    if misfire.policy is MisfirePolicy.SKIP and not fires.keeps_one:
        return late
    before: int | None = due
    for _ in range(misfire.limit if misfire.policy is MisfirePolicy.ALL else 1):
        before = None if before is None else fires.open.last_before_ms(before)
    passed = None if before is None or late is None else min(before, late)
    if misfire.policy is not MisfirePolicy.ALL:
        return passed
    over = fires.newest_open_ms(out_of_window_ms)
    return max((one for one in (passed, over) if one is not None), default=None)


def _closed(fires: Fires, *, mark_ms: int, first: int, until_ms: int) -> Decision | None:
    """The fires up to the next open one, where the first is closed."""
    if fires.open is fires.planned:
        return None
    opens = fires.open.next_after_ms(mark_ms)
    if opens == first:
        return None
    before = until_ms + 1 if opens is None else min(opens, until_ms + 1)
    last = fires.planned.last_before_ms(before)
    assert last is not None, "the first of them is before"
    return Decision(from_ms=mark_ms, to_ms=last, closed=count_range(fires.planned, first, last))


def _late_ms(now_ms: int, misfire: Misfire, held: Held | None) -> int:
    """What was due by then is out of its grace."""
    late_ms = now_ms - misfire.grace_ms - 1
    return late_ms if held is None or held.waited_until_ms(late_ms) == late_ms else held.from_ms - 1


def _last_misfire(fires: Fires, *, late_ms: int, newest_ms: int, fresh_ms: int | None) -> int | None:
    """The last open fire, up to the newest, that has no grace or is out of it."""
    late = fires.newest_open_ms(late_ms)
    if fresh_ms is not None:
        fresh = fires.open.last_before_ms(fresh_ms + 1)
        older = None if fresh is None else fires.open.last_before_ms(fresh)
        late = max((at for at in (late, older) if at is not None), default=None)
    return None if late is None else min(late, newest_ms)


def _claim(fires: Fires, *, mark_ms: int, first: int, newest: int, now_ms: int) -> Decision:
    """The oldest of those in their grace; where one is kept, the newest that is due."""
    if first == newest:
        return Decision(from_ms=mark_ms, to_ms=first, claim_ms=first)
    due = fires.newest_open_ms(now_ms) if fires.keeps_one else None
    claim = first if due is None else max(first, min(due, newest))
    return _pass_then_claim(fires, mark_ms=mark_ms, claim=claim, superseded=True)


def _keep_newest(fires: Fires, misfire: Misfire, *, mark_ms: int, newest: int, now_ms: int) -> Decision | None:
    """Of the due ones, the newest is claimed within its window and the others are superseded; None: none is due."""
    if fires.dispatch_ms(newest) > now_ms:
        due = fires.newest_open_ms(now_ms)
        if due is None or due <= mark_ms:
            return None
        newest = due
    if now_ms > fires.dispatch_ms(newest) + misfire.window_ms:
        return _miss(fires, mark_ms=mark_ms, last=newest)
    return _pass_then_claim(fires, mark_ms=mark_ms, claim=newest, superseded=True)


def _miss(fires: Fires, *, mark_ms: int, last: int) -> Decision:
    first = fires.open.next_after_ms(mark_ms)
    assert first is not None, "there is one to miss"
    return Decision(from_ms=mark_ms, to_ms=last, missed=count_range(fires.open, first, last))


def _pass_then_claim(fires: Fires, *, mark_ms: int, claim: int, superseded: bool = False) -> Decision:
    before = fires.open.last_before_ms(claim)
    if before is None or before <= mark_ms:
        return Decision(from_ms=mark_ms, to_ms=claim, claim_ms=claim)
    missed = _miss(fires, mark_ms=mark_ms, last=before).missed
    # Where closed ones lie in between, they come next, by themselves.
    now_claimed = claim if fires.follow_at_once(before, claim) else None
    to_ms = before if now_claimed is None else claim
    if superseded:
        return Decision(from_ms=mark_ms, to_ms=to_ms, superseded=missed, claim_ms=now_claimed)
    return Decision(from_ms=mark_ms, to_ms=to_ms, missed=missed, claim_ms=now_claimed)


def _catch_up_all(fires: Fires, misfire: Misfire, *, mark_ms: int, newest: int, now_ms: int) -> Decision:
    caught_up: list[int] = []
    plan: int | None = newest if fires.dispatch_ms(newest) <= now_ms else fires.newest_open_ms(now_ms)
    while plan is not None and plan > mark_ms and len(caught_up) < misfire.limit:
        if now_ms > fires.dispatch_ms(plan) + misfire.window_ms:
            break
        caught_up.append(plan)
        plan = fires.open.last_before_ms(plan)
    caught_up.reverse()
    if plan is None or plan <= mark_ms:
        requests = _up_to_a_gap(fires, caught_up)
        return Decision(from_ms=mark_ms, to_ms=requests[-1], requests=requests)
    missed = _miss(fires, mark_ms=mark_ms, last=plan).missed
    requests = _up_to_a_gap(fires, caught_up) if caught_up and fires.follow_at_once(plan, caught_up[0]) else ()
    return Decision(from_ms=mark_ms, to_ms=requests[-1] if requests else plan, missed=missed, requests=requests)


def _up_to_a_gap(fires: Fires, plans: list[int]) -> tuple[int, ...]:
    """The first of these fires, up to where closed ones lie in between: those come next, by themselves."""
    for number, (before, after) in enumerate(pairwise(plans), 1):
        if not fires.follow_at_once(before, after):
            return tuple(plans[:number])
    return tuple(plans)
