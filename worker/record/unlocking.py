"""The transactions that end runs: the lock goes (or the run key says `ended`), and what follows comes, in one.

Many runs share a transaction, within etcd's limits; each step does once what it does. It is carried out, or refused
because one of its own compares is false. Where no answer came it is sent again, the same: whether the first sending
was carried out then shows in its compares. One that etcd itself refuses, for want of a permission, say, is put aside,
holds up no other, and is tried again with those that come a second later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from common.clock import Clock
from common.errors import EtcdRefusedError
from common.etcd import EtcdClient
from common.etcd.pack import Step, apart, together
from common.etcd.settle import AGAIN_S, Patience, answered
from common.process import failpoints
from common.protocol.follow_ups import NOTHING, End, FollowUp
from common.protocol.keys import Keys
from common.protocol.run_writes import free_lock, owns_lock, say_ended
from common.protocol.txn import packed
from worker.record.follow_up_reader import FollowUpReader
from worker.refusals import PATIENT, Refusals
from worker.runs import Run

MAX_STEPS: Final = 120
"""In one transaction, of such as compare and write one key each: within etcd's 128."""


class Steps:
    """Carries out steps; patient while etcd is away."""

    def __init__(self, client: EtcdClient, refusals: Refusals, clock: Clock) -> None:
        self._client = client
        self._refusals = refusals
        self._clock = clock
        self._aside: deque[Step] = deque()
        self._again_at = float("-inf")
        self.busy = 0
        """Steps that are on their way."""

    @property
    def aside(self) -> int:
        """Steps that etcd refuses; they are tried again as soon as `carry_out` is called, a second later."""
        return len(self._aside)

    async def carry_out(self, steps: Iterable[Step]) -> None:
        """All of them, each given what became of it; those that etcd refuses wait aside."""
        await self._carry_out(steps)
        while self._aside and self._clock.monotonic() >= self._again_at:
            before = len(self._aside)
            await self._carry_out([self._aside.popleft() for _ in range(min(before, MAX_STEPS))])
            if len(self._aside) == before:
                break  # not one of them: the others wait for their turn

    async def _carry_out(self, steps: Iterable[Step]) -> None:
        for batch in packed(steps, lambda step: step.txn, most=MAX_STEPS):
            self.busy += len(batch)
            try:
                await together(self._client, batch, PATIENT, self._put_aside)
            finally:
                self.busy -= len(batch)

    def _put_aside(self, step: Step, error: EtcdRefusedError) -> None:
        self._refusals.note(step.of, error)
        self._aside.append(step)
        self._again_at = self._clock.monotonic() + AGAIN_S


_PAUSE_S: Final = 0.02
"""Before another look, where something moved between a look and a write."""


class Unlocking:
    """Ends runs whose records are safe; each is reported once: unlocked, or its key was not as believed."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        follow_ups: FollowUpReader,
        steps: Steps,
        refusals: Refusals,
        on_unlocked: Callable[[Run], None],
        on_changed: Callable[[Run], None],
    ) -> None:
        self._client = client
        self._keys = keys
        self._follow_ups = follow_ups
        self._steps = steps
        self._refusals = refusals
        self._on_unlocked = on_unlocked
        self._on_changed = on_changed
        self._waiting: list[Run] = []
        self._to_ask_of: list[Run] = []
        self._aside: list[Run] = []
        self._asking = 0

    @property
    def unsettled(self) -> int:
        """Runs that wait, or are looked at."""
        return len(self._waiting) + len(self._to_ask_of) + len(self._aside) + self._asking

    @property
    def aside(self) -> int:
        """Runs of which etcd refuses to say what is to follow; asked of again with the next batch."""
        return len(self._aside)

    def add(self, run: Run) -> None:
        """The run is to be ended when the next batch is."""
        self._waiting.append(run)

    async def carry_out(self) -> None:
        """Ends all that wait: nearly all by the catalog alone, in one transaction."""
        runs, self._waiting = self._waiting, []
        if failpoints.armed and runs:
            failpoints.hit("before_unlock")
        steps = []
        for run in runs:
            then = self._follow_ups.known(_end_of(run))
            if then is None:  # the catalog does not say: etcd has to be asked
                self._to_ask_of.append(run)
            elif run.delivered and not run.entry.locked:
                run.tried_again = False
                self._on_unlocked(run)
            else:
                steps.append(self._freeing(run, then))
        await self._steps.carry_out(steps)
        self._to_ask_of += self._aside
        self._aside = []
        while self._to_ask_of:
            runs, self._to_ask_of = self._to_ask_of, []
            self._asking += len(runs)
            try:
                await apart(runs, self._ask, self._put_aside)
            finally:
                self._asking -= len(runs)
            if self._to_ask_of:
                await asyncio.sleep(_PAUSE_S)

    async def _ask(self, runs: Sequence[Run]) -> bool:
        """Ends the runs after which something follows that only etcd knows enough of; also what was refused."""
        follows = await self._follows(runs, PATIENT)
        wanted = [self._keys.lock(run.run_id.job) for run in runs if run.entry.locked]
        locks = await answered(partial(self._client.get_keys, wanted), PATIENT)
        steps = []
        for run, then in zip(runs, follows, strict=True):
            if run.entry.locked and not owns_lock(locks.get(self._keys.lock(run.run_id.job)), run.fence):
                self._on_unlocked(run)
            else:
                steps.append(self._freeing(run, then))
        await self._steps.carry_out(steps)
        return True

    def _put_aside(self, run: Run, error: EtcdRefusedError) -> None:
        self._refusals.note(str(run.run_id), error)
        self._aside.append(run)

    async def follows_of(self, run: Run) -> FollowUp:
        """What follows the run, as etcd knows it; while etcd refuses to say, no other run may wait for the answer."""
        [then] = await self._follows([run], self._refusals.patience(str(run.run_id)))
        return then

    async def _follows(self, runs: Sequence[Run], patience: Patience) -> list[FollowUp]:
        """What follows each; nothing where the transaction that ends it has been."""
        follows = await answered(lambda: self._follow_ups.asked([_end_of(run) for run in runs]), patience)
        return [NOTHING if run.unlocked else then for run, then in zip(runs, follows, strict=True)]

    def _freeing(self, run: Run, then: FollowUp) -> Step:
        """Its lock goes, or its key says that it has ended; and what follows comes, or neither."""
        if run.entry.locked:

            def freed(_: int) -> None:
                run.tried_again = then.tries_again
                self._on_unlocked(run)

            return Step(free_lock(self._keys, run, then), freed, lambda: self._refused(run, then), str(run.run_id))
        entry, txn = say_ended(self._keys, run, then)

        def done(revision: int) -> None:
            run.entry, run.mod_revision, run.tried_again = entry, revision, then.tries_again
            self._on_unlocked(run)

        return Step(txn, done, lambda: self._on_changed(run), str(run.run_id))

    def _refused(self, run: Run, then: FollowUp) -> None:
        """The lock is not its own any more; or what follows is not as believed."""
        if then.compares:
            self._to_ask_of.append(run)
        else:
            self._on_unlocked(run)


def _end_of(run: Run) -> End:
    assert run.record is not None, "it has ended"
    return End(entry=run.entry, record=run.record, frees_lock=run.holds_lock)
