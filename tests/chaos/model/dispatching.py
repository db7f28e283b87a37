"""A claimed run on its way to its process: at its time, within its grace, and only on a fresh claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from common.protocol.kill import Kill
from common.protocol.run import OUT_OF_TOUCH
from common.protocol.run_writes import hand_on, restamp
from common.verdicts import Verdict
from tests.chaos.model import settling
from tests.chaos.model.runs import Run, Session
from tests.chaos.model.settings import HAND_ON, KEYS, STAMP
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker

_LASTS: Final = ((20, 400), (400, 3_000), (3_000, 14_000), (14_000, 30_000))
"""How long commands go, from and to."""
_OFTEN: Final = (16, 8, 3, 1)
_OFTEN_BUSY: Final = (0, 1, 1, 0)


def carry(w: Worker, run: Run) -> Flow[None]:
    """Ends with its process started, or its end without one, or somebody else's run."""
    while w.runs.get(run.run_id) is run:
        if w.wall < run.entry.dispatch_ms:
            yield run.entry.dispatch_ms - w.wall
            continue
        if _is_killed(w, run):
            yield from settling.settle(w, run, Verdict.KILLED, "before start")
        elif w.wall > run.start_by_ms:
            yield from settling.settle(w, run, Verdict.MISSED, "claimed, not started")
        elif w.running >= w.slots:
            waits_since = max(run.entry.dispatch_ms, run.entry.claim_ms)
            if w.wall < waits_since + HAND_ON or len(w.view.placement.names) < 2:
                yield 50
                continue
            if not (yield from _hand_on(w, run)):
                continue
        elif w.world.now - run.sent >= STAMP:
            w.starting += 1
            yield from _restamp(w, run)
            w.starting -= 1
            continue
        else:
            run.phase = "running"
            w.spawn(_exec(w, run, w.world.now))
        return


def _is_killed(w: Worker, run: Run) -> bool:
    kill = w.view.kills.get(run.run_id)
    return kill is not None and kill.reaches(run.fence)


def kill_wished(w: Worker, kill: Kill) -> None:
    run = w.runs.get(kill.run_id) or w.given_up.get(kill.run_id)
    if run is not None and run.process is not None and kill.reaches(run.fence):
        w.machine.kill(run.process)


def _exec(w: Worker, run: Run, looked: int) -> Flow[None]:
    """The intent is written and the clock looked at; the worker may be stopped here, and exec later."""
    if w.freeze_next and not w.world.calm:
        w.actor.stopped_until, w.freeze_next = w.world.now + w.freeze_next, 0
    yield 1
    rng = w.world.rng
    often = _OFTEN_BUSY if w.world.busy else _OFTEN
    shortest, longest = _LASTS[0] if w.world.calm else rng.choices(_LASTS, often)[0]
    lasts = rng.randint(shortest, longest)
    verdict = "failed" if rng.random() < 0.25 and not w.world.calm else "success"

    def ended(how: str) -> None:
        late = w.runs.get(run.run_id) is not run
        w.given_up.pop(run.run_id, None)
        status = Verdict(how) if how in ("success", "failed") else Verdict.KILLED
        reason = OUT_OF_TOUCH if how == "out of touch" else how
        w.spawn(settling.settle(w, run, status, reason) if not late else _late(w, run, status))

    frozen = w.world.now - looked > STAMP
    if not frozen and w.runs.get(run.run_id) is not run:
        return
    run.process = w.machine.start(run, verdict, lasts, ended, frozen=frozen)
    if _is_killed(w, run):
        w.machine.kill(run.process)


def _late(w: Worker, run: Run, status: Verdict) -> Flow[None]:
    """It had been given up as lost: its record replaces that."""
    yield 1
    w.machine.spool_append(settling.record_of(w, run, status, "late"))


def _restamp(w: Worker, run: Run) -> Flow[None]:
    is_ours = None if w.session is None else (yield from stamped(w, run, w.session))
    if is_ours is None:
        yield 300
    elif not is_ours:
        w.forget(run)


def stamped(w: Worker, run: Run, session: Session) -> Flow[bool | None]:
    """Put under this session. None: no answer, or not as it was; False: it is this worker's no more."""
    entry, txn = restamp(KEYS, run.run_id, run.entry, mod_revision=run.mod_revision, session=session)
    sent, answer = w.world.now, (yield txn)
    if answer is None:
        return None
    if answer.succeeded:
        run.entry, run.session, run.mod_revision, run.sent = entry, session, answer.revision, sent
        return True
    return None if run.reread(answer.one(0)) else False


def _hand_on(w: Worker, run: Run) -> Flow[bool]:
    """To whoever has a slot; False: it is still this worker's."""
    answer = yield from settling.patiently(hand_on(KEYS, run, now_ms=w.wall))
    if not answer.succeeded and run.reread(answer.one(0)):
        yield 300
        return False
    w.forget(run)
    w.lock_freed(run.run_id.job)
    return True
