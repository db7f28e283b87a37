"""A claimed run on its way to its process: at its time, within its grace, and only on a fresh claim."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.chaos.model import settling
from tests.chaos.model.etcd import KV, Delete, Put, Txn, create_is, mod_is
from tests.chaos.model.runs import Run
from tests.chaos.model.settings import HAND_ON, NO_LIMIT, STAMP
from tests.chaos.model.values import Record, Request, RunId
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker

_LASTS: Final = ((20, 400), (400, 3_000), (3_000, 14_000), (14_000, 30_000))
"""How long commands go, from and to."""


def carry(w: Worker, run: Run) -> Flow[None]:
    """Ends with its process started, or its end without one, or somebody else's run."""
    while w.runs.get(run.id) is run:
        if w.wall < run.entry.plan:
            yield run.entry.plan - w.wall
            continue
        if _is_killed(w, run):
            yield from settling.settle(w, run, "killed", "before start")
        elif w.wall > run.start_by:
            yield from settling.settle(w, run, "missed", "claimed, not started")
        elif w.running >= w.slots:
            if w.wall < max(run.entry.plan, run.entry.claim) + HAND_ON or len(w.view.workers) < 2:
                yield 50
                continue
            if not (yield from _hand_on(w, run)):
                continue
        elif w.rules.restamp and w.world.now - run.sent >= STAMP:
            w.starting += 1
            yield from _restamp(w, run)
            w.starting -= 1
            continue
        else:
            run.phase = "running"
            w.spawn(_exec(w, run, w.world.now))
        return


def _is_killed(w: Worker, run: Run) -> bool:
    kill = w.view.kills.get(run.id)
    return kill is not None and (kill.create > run.fence or not w.rules.kill_after_fence)


def kill_wished(w: Worker, run_id: RunId, kill: KV) -> None:
    run = w.runs.get(run_id) or w.given_up.get(run_id)
    if run is None or run.process is None or (w.rules.kill_after_fence and kill.create < run.fence):
        return
    w.machine.kill(run.process)


def _exec(w: Worker, run: Run, looked: int) -> Flow[None]:
    """The intent is written and the clock looked at; the worker may be stopped here, and exec later."""
    if w.freeze_next and not w.world.calm:
        w.actor.stopped_until, w.freeze_next = w.world.now + w.freeze_next, 0
    yield 1
    rng = w.world.rng
    shortest, longest = _LASTS[0] if w.world.calm else rng.choices(_LASTS, (16, 8, 3, 1))[0]
    lasts = rng.randint(shortest, longest)
    verdict = "failed" if rng.random() < 0.25 and not w.world.calm else "success"

    def ended(how: str) -> None:
        late = w.runs.get(run.id) is not run
        w.given_up.pop(run.id, None)
        status = how if how in ("success", "failed") else "killed"
        w.spawn(settling.settle(w, run, status, how) if not late else _late(w, run, status))

    frozen = w.world.now - looked > STAMP
    if not frozen and w.runs.get(run.id) is not run:
        return
    run.process = w.machine.start(run, verdict, lasts, ended, frozen=frozen)
    if _is_killed(w, run):
        w.machine.kill(run.process)


def _late(w: Worker, run: Run, status: str) -> Flow[None]:
    """It had been given up as lost: its record replaces that."""
    yield 1
    w.machine.spool_append(Record(run=run.id, status=status, reason="late", fence=run.fence))


def _restamp(w: Worker, run: Run) -> Flow[None]:
    session = w.session
    if session is None:
        yield 300
        return
    entry, sent = replace(run.entry, session=session.id, stamp=run.entry.stamp + 1), w.world.now
    compares = [session.alive(w.rules), mod_is(run.id.key, run.mod)]
    answer = yield Txn(w.name, compares, [Put(run.id.key, entry)])
    if answer is None:
        yield 300
    elif answer.ok:
        run.entry, run.session, run.mod, run.sent = entry, session, answer.rev, sent
    elif run.take_over(answer.found[run.id.key]):
        yield 300
    elif w.runs.get(run.id) is run:
        w.forget(run)


def _hand_on(w: Worker, run: Run) -> Flow[bool]:
    """To whoever has a slot; False: it is still this worker's."""
    entry = run.entry
    by = None if run.start_by >= NO_LIMIT else run.start_by
    request = Request(origin="handed on", job_create=run.job.create, plan=entry.plan, not_before=w.wall, expires=by)
    compares = [mod_is(run.id.key, run.mod)]
    then: list[Put | Delete] = [Delete(run.id.key), Put(run.id.request_key, request)]
    if run.holds_lock:
        compares.append(create_is(("lock", run.id.job), run.fence))
        then.append(Delete(("lock", run.id.job)))
    answer = yield from settling.patiently(Txn(w.name, compares, then))
    if not answer.ok and run.take_over(answer.found[run.id.key]):
        yield 300
        return False
    w.forget(run)
    w.lock_freed(run.id.job)
    return True
