"""A manager: saves, pauses, resumes, deletes, runs now, kills; each sent again, identical, while it is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.model.etcd import Compare, Delete, Put, Txn, absent, mod_is, value_is
from tests.chaos.model.values import Entry, Job, Record, Request, RunId, Saved, Spec
from tests.chaos.model.world import Actor, Flow, World

if TYPE_CHECKING:
    from tests.chaos.model.etcd import Etcd


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

    def edit(self, name: str, spec: Spec | None) -> Flow[None]:
        """Save, pause or resume; None: delete. Once it is answered, nothing is claimed under the spec before."""
        key, mark_key = ("job", name), ("mark", name)
        for _ in range(5):
            there = yield lambda etcd: (etcd.get(key), etcd.get(mark_key))
            if there is None or (spec is None and not there[0].create):
                return
            before, mark = there
            now = self.wall
            old = mark.value if mark.create else 0
            new = max(old, now) if self.world.rules.marks_forward else now
            keeps = bool(before.create and mark.create and spec is not None and spec.fires_alike(before.value.spec))
            if keeps:  # what is planned and not decided goes on under the new spec
                new = max(old, before.value.anchor)
            compares = [mod_is(key, before.mod)]
            compares.append(value_is(mark_key, old) if mark.create else absent(mark_key))
            then: list[Put | Delete] = [Delete(key) if spec is None else Put(key, Saved(spec, new)), Put(mark_key, new)]
            was_planned = before.create and mark.create and not keeps
            record = self._skipped(Job.of(name, before), old, max(new, now)) if was_planned else None
            if record is not None:
                compares.append(absent(record.run.key))
                then.append(Put(record.run.key, Entry(record=record)))
            revision = yield from self._send(Txn(self.name, compares, then), key, before.mod, spec, new)
            if revision is None:
                return
            if revision:
                self.world.history.acks.append((self.world.now, name, revision))
                return

    def _send(self, txn: Txn, key: tuple[str, str], before: int, spec: Spec | None, new: int) -> Flow[int | None]:
        """The revision; 0: certainly not carried out; None: given up in doubt."""
        for tries in range(4):
            answer = yield txn
            if answer is not None:
                there = answer.found[key]
                if answer.ok:
                    return int(answer.rev)
                carried_out = spec is not None and there.mod > before and there.value == Saved(spec, new)
                return int(there.mod) if tries and carried_out else 0
            yield 100
        return None

    def _skipped(self, job: Job, old: int, until: int) -> Record | None:
        """The old spec's undecided fires, as one record."""
        first, last = job.after(max(old, job.anchor)), job.last(until)
        if not job.spec.enabled or first > last:
            return None
        return Record(run=RunId(job.name, first, 1), status="skipped", reason="edited", hi=last)

    def run_now(self, name: str) -> Flow[None]:
        self._number += 1
        run = RunId(name, f"r{self.name}{self._number}", 1)
        dedupe = ("dedupe", *run)
        job = yield lambda etcd: etcd.get(("job", name))
        if job is None or not job.create:
            return
        request = Request(origin="run now", job_create=job.create, plan=self.wall, not_before=self.wall)
        compares = [mod_is(("job", name), job.mod), absent(dedupe)]
        yield from self._until_answered(Txn(self.name, compares, [Put(run.request_key, request), Put(dedupe, 1)]))

    def kill(self, name: str) -> Flow[None]:
        """Every run of the job that is open."""
        runs = yield lambda etcd: etcd.prefix("run", name)
        for key, kv in (runs or {}).items():
            if kv.value.record is None and not kv.value.ended and kv.value.plan <= self.wall:
                there = Compare("there", key, True)
                yield from self._until_answered(Txn(self.name, [there], [Put(RunId(*key[1:]).kill_key, self.name)]))

    def _until_answered(self, txn: Txn) -> Flow[None]:
        for _ in range(4):
            if (yield txn) is not None:
                return
            yield 100


def changed(spec: Spec, etcd: Etcd, *, enabled: bool) -> Spec:
    """Another spec than any before; every other one also fires at other times."""
    return replace(spec, text=etcd.rev, enabled=enabled, period=spec.period + etcd.rev % 2 * 500)
