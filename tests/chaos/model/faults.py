"""What goes wrong, drawn from the world's one source of chance; what users do; and how the quiet at the end begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.run import EntryState
from common.protocol.txn import Put, Txn
from tests.chaos.model.manager import Manager, changed
from tests.chaos.model.reading import entry_in
from tests.chaos.model.settings import FAULTS_FOR, KEYS, LOST_AFTER, START, TTL
from tests.chaos.model.world import World

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


class Faults:
    """Each has its weight in :meth:`strike`."""

    def __init__(self, world: World, workers: Sequence[Worker], managers: Sequence[Manager], specs: dict[str, JobSpec]):
        self.world = world
        self.workers = workers
        self.managers = managers
        self.specs = specs
        self._rng = world.rng

    def plan(self) -> None:
        """Draw the moments of all faults and edits."""
        rng, nature = self._rng, self.world.nature
        for _ in range(20 if self.world.busy else rng.randint(8, 22)):
            self.world.later(rng.randint(3_000, FAULTS_FOR), nature, self.slow if self.world.busy else self.strike)
        for _ in range(rng.randint(4, 14)):
            self.world.later(rng.randint(2_000, FAULTS_FOR), nature, self.use)
        self.world.later(FAULTS_FOR, nature, self.calm)

    def strike(self) -> None:
        weights = {
            self.stop: 3, self.stop_after_claim: 4, self.cut: 4, self.slow: 5, self.crash: 3, self.crash_at_end: 2,
            self.freeze: 1, self.out_of_touch: 2, self.revoke: 2, self.detach: 2, self.deaf: 1,
            self.etcd_away: 1, self.store_away: 1,
        }  # fmt: skip
        self._rng.choices(list(weights), list(weights.values()))[0]()

    def _worker(self) -> Worker:
        return self._rng.choice([w for w in self.workers if not w.gone])

    def _for(self, what: str, longest: int) -> int:
        ms = self._rng.choice((self._rng.randint(100, 3_000), self._rng.randint(3_000, longest)))
        self.world.fault(f"{what} for {ms} ms")
        return ms

    # Faults

    def stop(self) -> None:
        w = self._worker()
        w.actor.stopped_until = self.world.now + self._for(f"{w.name} stopped", 25_000)

    def stop_after_claim(self) -> None:
        """Stopped the moment that its next claim has committed, or within ms of it."""
        w, ms = self._worker(), self._rng.randint(500, 26_000)
        self.world.fault(f"{w.name} stopped for {ms} ms right after its next claim")
        known = len(self.world.history.commits)
        delay = self._rng.randint(0, 6)

        def look(tries: int) -> None:
            nonlocal known
            for commit in self.world.history.commits[known:]:
                if commit.who == w.name and any(_is_open(put) for put in commit.puts):
                    w.actor.stopped_until = self.world.now + ms
                    return
            known = len(self.world.history.commits)
            if tries:
                self.world.later(1 + delay, self.world.nature, look, tries - 1)

        look(600)

    def freeze(self) -> None:
        w = self._worker()
        w.freeze_next = self._for(f"{w.name} stopped just before its next exec,", 25_000)

    def out_of_touch(self) -> None:
        """Until just about when its runs are given up; those who judge are on a slow line."""
        w, ms = self._worker(), TTL + LOST_AFTER + self._rng.randint(-500, 3_000)
        self.world.fault(f"{w.name} stopped for {ms} ms, the others on a slow line at its end")
        w.actor.stopped_until = self.world.now + ms
        for other in self.workers:
            if other is not w:
                self.world.later(ms - 1_500, self.world.nature, self._slow_down, other)
                self.world.later(ms + 4_000, self.world.nature, self._mend, other)

    def _slow_down(self, w: Worker) -> None:
        w.actor.link.slow = not self.world.calm

    def cut(self) -> None:
        w = self._worker()
        w.actor.link.cut = True
        self.world.later(self._for(f"{w.name} cut off", 22_000), self.world.nature, self._mend, w)

    def slow(self) -> None:
        w = self._worker()
        w.actor.link.slow = True
        self.world.later(self._for(f"{w.name} on a slow line", 22_000), self.world.nature, self._mend, w)

    def _mend(self, w: Worker) -> None:
        w.actor.link.cut = w.actor.link.slow = w.actor.link.deaf = False

    def deaf(self) -> None:
        """The steward's watches die silently; meanwhile another's session is replaced, and its worker stopped."""
        steward = self.world.etcd.get(KEYS.steward)
        name = None if steward is None else steward.value.decode().partition("/")[0]
        others = [w for w in self.workers if w.up and w.name != name]
        deaf = [w for w in self.workers if w.name == name]
        if not others or not deaf:
            return
        other, ms = self._rng.choice(others), self._rng.randint(4_000, 20_000)
        deaf[0].actor.link.deaf = True
        self.world.fault(f"the watches of {deaf[0].name} dead for {ms} ms, the lease of {other.name} revoked")
        self.world.later(ms, self.world.nature, self._mend, deaf[0])
        self._revoke(other.name)
        self.world.later(self._rng.randint(3_000, 9_000), self.world.nature, self._stop, other)

    def _stop(self, w: Worker) -> None:
        if not self.world.calm:
            w.actor.stopped_until = self.world.now + self._for(f"{w.name} stopped", 25_000)

    def _revoke(self, name: str) -> None:
        for kv in self.world.etcd.under(KEYS.worker_sessions(name)):
            self.world.etcd.revoke(kv.lease)

    def crash(self) -> None:
        w = self._worker()
        if w.up:
            w.crash()
            self.world.later(self._for(f"{w.name} killed", 18_000), self.world.nature, self._start, w)

    def crash_at_end(self) -> None:
        """Killed within ms of the end of one of its commands; sometimes its disk is lost, too."""
        w, for_good = self._worker(), self._rng.random() < 0.4 and not any(one.gone for one in self.workers)
        within, away = self._rng.randint(0, 40), self._for(f"{w.name} killed at an end", 15_000)

        def look(running: int, tries: int) -> None:
            now = len(w.machine.processes)
            if now < running and w.up:
                self.world.later(within, self.world.nature, die)
            elif tries:
                self.world.later(7, self.world.nature, look, now, tries - 1)

        def die() -> None:
            if not w.up:
                return
            w.crash()
            if for_good:
                w.gone = True
                self.world.history.lost_disks.add(w.name)
                self.world.fault(f"{w.name} lost with its disk")
            else:
                self.world.later(away, self.world.nature, self._start, w)

        look(len(w.machine.processes), 1_000)

    def _start(self, w: Worker) -> None:
        if not w.up and not w.gone:
            w.start()

    def revoke(self) -> None:
        if there := self.world.etcd.under(KEYS.workers):
            session = self._rng.choice(there)
            self.world.fault(f"the lease of {KEYS.session_of(session.key)[0]} revoked")
            self.world.etcd.revoke(session.lease)

    def detach(self) -> None:
        """Again and again, and its owner on a slow line."""
        w = self._worker()
        self.world.fault(f"the session key of {w.name} detached five times")
        w.actor.link.slow = True
        for number in range(5):
            self.world.later(700 * number, self.world.nature, self._detach, w.name)
        self.world.later(6_000, self.world.nature, self._mend, w)

    def _detach(self, name: str) -> None:
        for kv in self.world.etcd.under(KEYS.worker_sessions(name)):
            self.world.etcd.txn(Txn((), [Put(kv.key, kv.value)]))

    def etcd_away(self) -> None:
        self.world.etcd.up = False
        self.world.later(self._for("etcd away", 9_000), self.world.nature, self._etcd_back)

    def _etcd_back(self) -> None:
        self.world.etcd.up = True
        self.world.etcd.elect()

    def store_away(self) -> None:
        self.world.store_up = False
        self.world.later(self._for("log store away", 30_000), self.world.nature, self._store_back)

    def _store_back(self) -> None:
        self.world.store_up = True

    # Users

    def use(self) -> None:
        manager, name, rng = self._rng.choice(self.managers), self._rng.choice(list(self.specs)), self._rng
        revision = self.world.etcd.revision
        spec = changed(self.specs[name], revision, enabled=rng.random() < 0.75)
        again = changed(self.specs[name], revision, enabled=True)
        match rng.choices(("save", "delete", "run now", "kill", "old kill"), (5, 1, 3, 2, 2))[0]:
            case "save":
                self.world.spawn(manager.actor, manager.edit(name, spec))
                if not spec.enabled:
                    self.world.later(rng.randint(500, 9_000), self.world.nature, self._edit, name, again)
            case "delete":
                self.world.spawn(manager.actor, manager.edit(name, None))
                self.world.later(rng.randint(100, 5_000), self.world.nature, self._edit, name, again)
            case "run now":
                self.world.spawn(manager.actor, manager.run_now(name))
            case "kill":
                self.world.spawn(manager.actor, manager.kill(name))
            case "old kill":
                self._old_kill(name)

    def _edit(self, name: str, spec: JobSpec) -> None:
        manager = self._rng.choice(self.managers)
        self.world.spawn(manager.actor, manager.edit(name, spec))

    def _old_kill(self, name: str) -> None:
        """Somebody's hand: a kill under the id of a fire that is still to come."""
        every = self.specs[name].every
        assert every is not None, "every job of the model has a fixed rate"
        plan = self.world.now - self.world.now % every.ms + 2 * every.ms
        kill = Kill(run_id=RunId.planned(name, plan), by="hand", at_ms=self.world.now)
        self.world.fault(f"a kill of {kill.run_id} by hand, before its claim")
        self.world.etcd.txn(Txn((), [Put(KEYS.kill(kill.run_id), kill.to_json())]))

    # The end

    def calm(self) -> None:
        """All is well again, and everybody there who can be."""
        self.world.calm = self.world.etcd.up = self.world.store_up = True
        for w in self.workers:
            self._mend(w)
            w.actor.stopped_until = min(w.actor.stopped_until, self.world.now + 1)
            self._start(w)
        self.world.fault(f"calm, {self.world.now - START} ms after the start")


def _is_open(put: Put) -> bool:
    return put.key.startswith(KEYS.runs) and entry_in(put.value).state is EntryState.OPEN
