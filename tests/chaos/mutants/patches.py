"""The mutants: small patches of the shipped code, each without one load-bearing rule of ``docs/protocol.md``."""

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
    """A rule that is taken away; named as in the model."""

    name: str
    patches: tuple[Patch, ...]
    noticed_by: tuple[str, ...]
    """Fault runs (pytest's ids below tests/faults) that have to fail; none: only the model notices, see `why`."""
    why: str = ""


MUTANTS: Final = (
    Mutant(
        name="no mark comparison",
        patches=(
            Patch(
                file="common/protocol/fire_claims.py",
                old=", value_is(mark, encode_mark(decision.from_ms))],\n",
                new="],\n",
            ),
            Patch(
                file="common/protocol/fire_claims.py",
                old="    if mark_ms != proposal.decision.from_ms:\n",
                new="    if mark_ms is None:\n",
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_before_a_claim_for_less_than_its_session",),
    ),
    Mutant(
        name="marks may go back",
        patches=(
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
        patches=(
            Patch(
                file="common/protocol/run_writes.py",
                old="[create_revision_is(lock, run.fence), *follow_up.compares]",
                new="[*follow_up.compares]",
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_until_its_runs_were_given_up",),
    ),
    Mutant(
        name="no re-stamp after a pause",
        patches=(
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
        noticed_by=("test_stopped.py::test_stopped_until_its_runs_were_given_up",),
    ),
    Mutant(
        name="in-doubt claims forgotten",
        patches=(
            Patch(
                file="worker/plan/sending.py",
                old="            await self._doubts.settle(batch, self._listener)\n",
                new="            for proposal in batch.proposals:\n"
                "                not_done = Result(proposal=proposal, answer=Answer.NOT_DONE)\n"
                "                self._listener.answered(not_done, batch.session)\n",
            ),
        ),
        noticed_by=("test_stores.py::test_the_answers_to_claims_are_lost_after_their_commit",),
    ),
    Mutant(
        name="worker key reused between sessions",
        patches=(
            Patch(
                file="worker/registry.py",
                old="            key_of=lambda lease: self._keys.worker(self._identity.worker, lease),\n",
                new='            key_of=lambda _: self._keys.worker(self._identity.worker, "1"),\n',
            ),
        ),
        noticed_by=("test_stopped.py::test_stopped_after_a_claim_for_longer_than_its_session",),
    ),
    Mutant(
        name="no guardian",
        patches=(
            Patch(file="worker/guardian/program.py", old="        self._end_all()\n", new=""),
            Patch(
                file="worker/guardian/program.py",
                old="            if ward.past_since is not None and ward.run not in self._ends:\n",
                new="            if now < 0:\n",
            ),
        ),
        noticed_by=(
            "test_killed_at_failpoints.py::test_steward_and_manager_killed_before_they_say_what_they_have_done",
        ),
    ),
    Mutant(
        name="run key deleted before the log is acknowledged",
        patches=(
            Patch(
                file="worker/settling/settlement.py",
                old="        if run is None or not run.delivered:\n",
                new="        if run is not None:\n            run.delivered = True\n        else:\n",
            ),
        ),
        noticed_by=("test_stores.py::test_the_log_store_away_while_a_worker_loses_its_disk",),
    ),
)
BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
