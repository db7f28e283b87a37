"""The mutants: small patches, each of which takes one load-bearing rule of ``docs/internals/protocol.md`` away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One text of one file, and what stands there in the mutant."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule that is taken away."""

    name: str
    shared: tuple[Patch, ...] = ()
    """Of the protocol, which product and model run."""
    product: tuple[Patch, ...] = ()
    """Where the rule stands in a flow: of the product's ..."""
    model: tuple[Patch, ...] = ()
    """... and of the model's."""
    in_a_busy_world: bool = False
    """Whether the model looks for it where slots are few and lines slow (`World.busy`); elsewhere it hardly shows."""
    noticed_by: tuple[str, ...] = ()
    """Fault runs (pytest's ids below tests/faults) that have to fail; none: only the model notices, see `why`."""
    why: str = ""


_FIRE_CLAIMS: Final = "common/protocol/fire_claims.py"
_RUN_WRITES: Final = "common/protocol/run_writes.py"
_MODEL: Final = "tests/chaos/model"
_SELDOM: Final = "no fault run brings about, surely enough, the moments in which it matters"

MUTANTS: Final = (
    Mutant(
        name="no mark comparison",
        shared=(
            Patch(file=_FIRE_CLAIMS, old=", value_is(mark, encode_mark(decision.from_ms))],\n", new="],\n"),
            Patch(
                file=_FIRE_CLAIMS,
                old="    if read_mark(mark) != proposal.decision.from_ms:\n",
                new="    if read_mark(mark) is None:\n",
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_before_a_claim_for_less_than_its_session",),
    ),
    Mutant(
        name="marks may go back",
        shared=(
            Patch(
                file="common/protocol/edits.py",
                old="    return max(before.mark_ms or 0, new_ms)\n",
                new="    return new_ms\n",
            ),
        ),
        noticed_by=("test_clocks.py::test_a_manager_behind",),
    ),
    Mutant(
        name="unconditional release of locks",
        shared=(
            Patch(
                file=_RUN_WRITES,
                old="[create_revision_is(lock, run.fence), *follow_up.compares]",
                new="[*follow_up.compares]",
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_before_it_frees_a_lock_until_its_run_was_given_up",),
    ),
    Mutant(
        name="no re-stamp after a pause",
        product=(
            Patch(
                file="worker/dispatcher.py",
                old="        elif self._clock.boottime() - run.sent >= STAMP_VALID_S:\n",
                new="        elif run.sent < 0:\n",
            ),
            Patch(
                file="worker/dispatcher.py",
                old="            start_until=run.sent + STAMP_VALID_S, ",
                new="            start_until=None, ",
            ),
        ),
        model=(
            Patch(
                file=f"{_MODEL}/dispatching.py",
                old="        elif w.world.now - run.sent >= STAMP:\n",
                new="        elif w.world.now < 0:\n",
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_until_its_runs_were_given_up",),
    ),
    Mutant(
        name="in-doubt claims forgotten",
        product=(
            Patch(
                file="worker/plan/sending.py",
                old="            await self._doubts.settle(batch, self._listener)\n",
                new="            for proposal in batch.proposals:\n"
                "                not_done = Result(proposal=proposal, answer=Answer.NOT_DONE)\n"
                "                self._listener.answered(not_done, batch.session)\n",
            ),
        ),
        model=(
            Patch(
                file=f"{_MODEL}/deciding.py",
                old="    yield 100\n    while True:\n        result",
                new="    return Result(proposal=batch.proposals[0], answer=Answer.NOT_DONE)\n"
                "    while True:\n        result",
            ),
            Patch(
                file=f"{_MODEL}/requesting.py",
                old="            doubtful = True\n            yield 300\n            continue\n",
                new="            return\n",
            ),
        ),
        noticed_by=("test_stores.py::test_the_answers_to_claims_are_lost_after_their_commit",),
    ),
    Mutant(
        name="worker key reused between sessions",
        product=(
            Patch(
                file="worker/registry.py",
                old="            key_of=lambda lease: self._keys.worker(self._identity.worker, lease),\n",
                new='            key_of=lambda _: self._keys.worker(self._identity.worker, "1"),\n',
            ),
        ),
        model=(
            Patch(file=f"{_MODEL}/sessions.py", old='    name = f"{lease:x}"\n', new='    name = "1"\n'),
            Patch(
                file=f"{_MODEL}/sessions.py",
                old="            [absent(session.key), *share.compares],\n"
                "            [Put(session.key, _member(w, session), lease), *share.then],\n",
                new="            share.compares,\n            [Put(session.key, _member(w, session), lease)],\n",
            ),
            Patch(
                file=f"{_MODEL}/sessions.py",
                old=" or kv.create_revision != session.incarnation:\n",
                new=":\n",
            ),
            Patch(file=f"{_MODEL}/runs.py", old="import Compare, lease_is\n", new="import Compare, present\n"),
            Patch(file=f"{_MODEL}/runs.py", old="lease_is(self.key, self.lease_id)", new="present(self.key)"),
            # A session key counts only under the lease in its name; without that, nothing would run at all.
            Patch(file="common/protocol/member.py", old="attached=lease == int(session, 16)", new="attached=True"),
        ),
        noticed_by=("test_stopped.py::test_stopped_after_a_claim_for_longer_than_its_session",),
    ),
    Mutant(
        name="no guardian",
        product=(
            Patch(file="worker/guardian/program.py", old="        self._end_all()\n", new=""),
            Patch(
                file="worker/guardian/program.py",
                old="            if guarded.past_since is not None and guarded.run not in self._ends:\n",
                new="            if now < 0:\n",
            ),
        ),
        model=(
            Patch(
                file=f"{_MODEL}/machine.py",
                old="        for process in list(self.processes):\n",
                new="        for process in list[Process]():\n",
            ),
            Patch(
                file=f"{_MODEL}/machine.py",
                old="        elif process.run.entry.locked:\n            self.world.later(left, self.nature, ",
                new="        elif process.run.entry.locked and process.life == self.worker.life:\n"
                "            self.world.later(left, self.worker, ",
            ),
        ),
        noticed_by=(
            "test_killed_at_failpoints.py::test_steward_and_manager_killed_before_they_say_what_they_have_done",
        ),
    ),
    Mutant(
        name="run key deleted before the log is acknowledged",
        product=(
            Patch(
                file="worker/record/settlement.py",
                old="        if run is None or not run.delivered:\n",
                new="        if run is not None:\n            run.delivered = True\n        else:\n",
            ),
        ),
        model=(
            Patch(
                file=f"{_MODEL}/settling.py",
                old="    while run.unlocked and run.delivered and ",
                new="    while run.unlocked and ",
            ),
        ),
        noticed_by=("test_stores.py::test_the_log_store_away_while_a_worker_loses_its_disk",),
    ),
    Mutant(
        name="retry outside of the transaction that ends the run",
        shared=(
            Patch(
                file=_RUN_WRITES,
                old="    return Txn([create_revision_is(lock, run.fence), *follow_up.compares], "
                "[Delete(lock), *follow_up.then])\n",
                new="    return Txn([create_revision_is(lock, run.fence)], [Delete(lock)])\n",
            ),
            Patch(
                file=_RUN_WRITES,
                old="    compares = [mod_revision_is(key, run.mod_revision), *follow_up.compares]\n"
                "    return ended, Txn(compares, [Put(key, ended.to_json()), *follow_up.then])\n",
                new="    compares = [mod_revision_is(key, run.mod_revision)]\n"
                "    return ended, Txn(compares, [Put(key, ended.to_json())])\n",
            ),
        ),
        model=(
            Patch(
                file=f"{_MODEL}/settling.py",
                old="        if (yield from _end(w, run, follow_up)):\n",
                new="        if (yield from _end(w, run, follow_up)):\n"
                "            if follow_up.then:\n"
                "                yield from patiently(Txn(follow_up.compares, follow_up.then))\n",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="a kill older than the fence applied",
        shared=(
            Patch(
                file="common/protocol/kill.py",
                old="        return fence < self.revision\n",
                new="        return True\n",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="lost without comparing the run",
        shared=(
            Patch(
                file=_RUN_WRITES,
                old="    compares = [*only_if, mod_revision_is(kv.key, kv.mod_revision)]\n",
                new="    compares = [*(only_if or [mod_revision_is(kv.key, kv.mod_revision)])]\n",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="no job comparison",
        shared=(
            Patch(file=_FIRE_CLAIMS, old="compares=[mod_revision_is(job_key, job.revision), ", new="compares=["),
            Patch(
                file="common/protocol/request_writes.py",
                old="            mod_revision_is(keys.job(job.name), job.revision),\n",
                new="",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="a session gone by the watch alone",
        model=(
            Patch(
                file=f"{_MODEL}/stewarding.py",
                old="    new = sorted(gone - term.gone.keys())\n",
                new="    new: list[str] = []\n",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="no deadline for an unlocked intent",
        model=(
            Patch(
                file=f"{_MODEL}/machine.py",
                old="        if run.entry.locked or frozen:\n",
                new="        if run.entry.locked:\n",
            ),
        ),
        why=_SELDOM,
    ),
    Mutant(
        name="a mark before P ends a doubt",
        shared=(
            Patch(
                file="common/protocol/proposals.py",
                old="            return self.mark_ms is not None and self.mark_ms > self.proposal.decision.from_ms\n",
                new="            return True\n",
            ),
        ),
        in_a_busy_world=True,
        why=_SELDOM,
    ),
)
BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
