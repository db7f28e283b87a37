"""A manager: saves, pauses, resumes, deletes, runs now, kills; each sent again, identical, while it is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from common.instants import Duration
from common.jobs.job import JobSpec
from common.protocol import kill
from common.protocol.dedupe import Remembered
from common.protocol.edits import Stored, plan_delete, plan_save
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.request import Origin, Request
from common.protocol.request_writes import CallKeys, ask
from common.protocol.run import EntryState, Trigger
from common.protocol.txn import Txn
from tests.chaos.model.reading import entry_in, run_of
from tests.chaos.model.settings import KEYS
from tests.chaos.model.world import Actor, Flow, World

_TRIES: Final = 4
"""Then it gives up, in doubt."""


class Manager:
    """One of several, all alike; their clocks differ."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.actor = Actor(name)
        self._number = 0

    @property
    def wall(self) -> int:
        return self.world.now + self.actor.skew

    def edit(self, name: str, spec: JobSpec | None) -> Flow[None]:
        """Save, pause or resume; None: delete. Once it is answered, nothing is claimed under the spec before."""
        answer = yield Txn((), Stored.look(KEYS, name))
        stored = None if answer is None else Stored.found(name, answer)
        for _ in range(5):
            if stored is None:
                return
            if spec is None:
                edit = plan_delete(KEYS, stored, now_ms=self.wall, by=self.name)
            else:
                edit = plan_save(KEYS, stored, spec, now_ms=self.wall, by=self.name)
            if edit is None:
                return
            answer, in_doubt = yield from self._until_answered(edit.txn)
            if answer is None:
                return
            stored = None if answer.succeeded else edit.meanwhile(answer)
            if stored is None:
                self.world.history.acks.append((self.world.now, name, answer.revision))
            elif in_doubt and edit.is_carried_out_in(stored):
                self.world.history.acks.append((self.world.now, name, stored.revision))
                return

    def run_now(self, name: str) -> Flow[None]:
        self._number += 1
        run_id, now = RunId(name, f"r-{self.name}-{self._number}"), self.wall
        call = CallKeys(job=KEYS.job(name), own=KEYS.deduped(name, run_id.fire), dedupe=None)
        answer = yield call.look
        there = None if answer is None else call.found(answer)
        if there is None or there.job is None:
            return
        request = Request(
            run_id=run_id, origin=Origin.RUN_NOW, job_create_revision=there.job.create_revision, plan_ms=now,
            dispatch_ms=now, not_before_ms=now, trigger=Trigger.API, by=self.name,
        )  # fmt: skip
        own = Remembered(expires_ms=now + 60_000, token=run_id.fire)
        yield from self._until_answered(ask(KEYS, call, there, [request], own, None))

    def kill(self, name: str) -> Flow[None]:
        """Every run of the job that is open."""
        runs = yield lambda etcd: etcd.under(KEYS.runs_of(name))
        for kv in runs or ():
            entry = entry_in(kv.value)
            if entry.state is EntryState.OPEN and entry.dispatch_ms <= self.wall:
                wish = Kill(run_id=run_of(kv.key), by=self.name, at_ms=self.wall)
                yield from self._until_answered(kill.ask(KEYS, wish))

    def _until_answered(self, txn: Txn) -> Flow[tuple[Any, bool]]:
        """The answer, and whether there was none before; None: it is given up, in doubt."""
        for tries in range(_TRIES):
            answer = yield txn
            if answer is not None:
                return answer, tries > 0
            yield 100
        return None, True


def changed(spec: JobSpec, revision: int, *, enabled: bool) -> JobSpec:
    """Another spec than any before; every other one also fires at other times."""
    assert spec.every is not None, "every job of the model has a fixed rate"
    period = spec.every.ms // 1000 + revision % 2
    return replace(spec, command=f"true {revision}", enabled=enabled, every=seconds(period))


def seconds(number: int) -> Duration:
    return Duration(f"{number}s", number * 1000)
