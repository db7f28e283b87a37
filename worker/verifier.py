"""What this worker believes of what lies in etcd, by its own configuration: ``signing`` and ``signingKeys``.

    a job      at sight: is it signed, by a key that is known here, and not older than what was seen; before its first
               claim at a revision: is it what was signed. Judged once; the exec looks at what came of it. What takes
               the place of a revision that was seen here is judged soon: its generation is the highest from then on
    a request  one that a user asked for, or that has `args` or `env`: only inside a manager's grant, before its end
    a kill     signed; else only where the signed spec says `replace` and a newer fire is due
    its place  a run starts only where this worker's own configuration has the labels that its job asks for: what
               etcd says of this worker's labels, another may have written

What is not believed is set aside: logged once, shown in the worker's beat, and nothing of it runs here. With ``warn``
it runs, and the rest is the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from common.clock import Clock
from common.errors import InvalidInputError
from common.jobs.job import Overlap
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.placement import fits
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.saved_job import SavedJob, Signed
from common.protocol.signatures import AskedRun, Grant, Proof, SigningMode, Trust
from worker.generations import Generations
from worker.runs import Run

_log = logging.getLogger(__name__)

_CLOCKS_MS: Final = 1000
"""So far ahead of this worker's clock another's may be that ends a run for a newer fire."""
_NAMED: Final = 3
_MOST: Final = 1000
"""Kinds of things that are remembered as logged."""


class Verifier:
    """Judges jobs, requests and kills; what is wrong with a job goes to ``on_doubt``."""

    def __init__(
        self, *, mode: SigningMode, trust: Trust | None, generations: Generations | None, clock: Clock,
        labels: Mapping[str, str], on_doubt: Callable[[PlannedJob, str], None],
    ) -> None:  # fmt: skip
        """``labels``: this worker's own. ``on_doubt``: called with a job that was believed at sight, a moment after it
        was found not to be what was signed."""
        self._mode = SigningMode.OFF if trust is None else mode
        self._trust = trust
        self._generations = generations
        self._clock = clock
        self._labels = labels
        self._on_doubt = on_doubt
        self.doubted: dict[str, str] = {}
        """Jobs that are not believed, and why."""
        self._logged: dict[str, None] = {}
        self._replacing: dict[str, PlannedJob] = {}
        """Newer revisions of jobs that were known here, until they are judged."""
        self._wake = asyncio.Event()

    @property
    def is_required(self) -> bool:
        """Whether what is not believed is set aside."""
        return self._mode is SigningMode.REQUIRE

    @property
    def problem(self) -> str | None:
        """For the beat."""
        if not self.doubted:
            return None
        names = ", ".join(sorted(self.doubted)[:_NAMED]) + (" ..." if len(self.doubted) > _NAMED else "")
        what = "set aside" if self.is_required else "run all the same (signing: warn)"
        return f"{len(self.doubted)} jobs without a signature that is believed here are {what}: {names}"

    # Jobs

    def proof_of(self, saved: SavedJob, value: bytes) -> Proof | None:
        """What goes along with the job that was read; None: no signatures are looked at."""
        return None if self._mode is SigningMode.OFF else Proof(value, saved.signature)

    def at_sight(self, job: PlannedJob, *, replaces: bool = False) -> str | None:
        """Why it is not believed, as far as that costs nothing; it is remembered. ``replaces``: another revision of the
        job was known here, which nobody may put back."""
        if job.proof is None or self._trust is None:
            return None
        fault = self._trust.key_fault(job.proof.signature) or self._age_fault(job, job.proof)
        if fault is not None:
            job.proof.value, job.proof.fault = None, fault
            self._doubt(job, fault)
        elif replaces:
            self._replacing[job.name] = job
            self._wake.set()
        return fault

    def forget(self, name: str) -> None:
        """There is another revision of the job, or none."""
        self.doubted.pop(name, None)
        self._replacing.pop(name, None)

    async def run(self) -> None:
        """Judge what took the place of another revision, until cancelled: one, a tenth of a millisecond, at a turn."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._replacing:
                self.believes(self._replacing.popitem()[1])
                await asyncio.sleep(0)

    def believes(self, job: PlannedJob) -> bool:
        """Whether it may run. The signature is looked at the first time."""
        proof = job.proof
        if proof is None:
            return True
        if proof.value is not None:
            self._judge(job, proof)
        return proof.fault is None or not self.is_required

    def _judge(self, job: PlannedJob, proof: Proof) -> None:
        value, proof.value = proof.value, None
        assert self._trust is not None, "there is a proof"
        assert value is not None, "it has not been judged"
        try:
            proof.fault = Signed.of(value).fault(self._trust, job.name) or self._age_fault(job, proof)
        except InvalidInputError as error:
            proof.fault = str(error)
        if proof.fault is not None:
            self._doubt(job, proof.fault)
            asyncio.get_running_loop().call_soon(self._on_doubt, job, proof.fault)
        elif proof.signature is not None and self._generations is not None:
            self._generations.note(job.name, proof.signature.generation)

    def _age_fault(self, job: PlannedJob, proof: Proof) -> str | None:
        seen = 0 if self._generations is None else self._generations.of(job.name)
        if proof.signature is None or proof.signature.generation >= seen:
            return None
        return "is older than one that was seen here before: somebody has put back what was replaced"

    def _doubt(self, job: PlannedJob, fault: str) -> None:
        self.doubted[job.name] = fault
        extra = {"action": "job.not_believed", "job": job.name, "fault": fault, "revision": job.revision}
        what = "is set aside" if self.is_required else "runs all the same"
        _log.warning("job %r %s; it %s", job.name, fault, what, extra=extra)

    # Runs that were asked for

    def request_fault(self, request: Request) -> str | None:
        """Why it is not run by this worker; None: it may be."""
        if self._mode is SigningMode.OFF or not (request.is_asked_for or request.args or request.env):
            return None
        fault = self._grant_fault(request.asked_run, request.grant)
        if fault is None and request.grant is not None and request.not_before_ms < request.grant.not_before_ms:
            fault = "is asked for earlier than what was signed"
        return self._once_logged("request", request.run_id, fault)

    def run_fault(self, run: Run) -> str | None:
        """Why a claimed run is not started: by this worker's labels, what was found of its job, its grant once more."""
        if not fits(run.job.spec.workers, self._labels):
            return "asks for workers with other labels than this one has"
        if self._mode is SigningMode.OFF:
            return None
        if not self.believes(run.job):
            return "not signed"
        entry, run_id = run.entry, run.run_id
        if run_id.plan_ms is not None and not (entry.args or entry.env):
            return None
        asked = AskedRun(
            sequence=run_id.job, fire=run_id.fire, args=entry.args, env=entry.env, scope=entry.scope
        )  # fmt: skip
        return self._once_logged("run", run_id, self._grant_fault(asked, entry.grant))

    def _grant_fault(self, asked: AskedRun, grant: Grant | None) -> str | None:
        assert self._trust is not None, "signatures are looked at"
        if (fault := self._trust.run_fault(asked, grant)) is not None:
            return fault
        if grant is not None and self._clock.wall_ms() > grant.expires_ms:
            return "has expired: what a manager signed is of use until then"
        return None

    # Kills

    def kill_fault(self, kill: Kill, job: PlannedJob | None) -> str | None:
        """Why it ends nothing here. ``job``: that of the run, as it is now."""
        if self._mode is SigningMode.OFF or self._trust is None:
            return None
        if (fault := kill.fault(self._trust)) is None or self._is_replaced(kill.run_id, job):
            return None
        return self._once_logged("kill of", kill.run_id, fault)

    def _is_replaced(self, run_id: RunId, job: PlannedJob | None) -> bool:
        """Whether the signed spec has a newer fire take the place of the run."""
        if job is None or job.spec.overlap is not Overlap.REPLACE or not self.believes(job):
            return False
        newest_ms = job.fires.newest_due_ms(self._clock.wall_ms() + _CLOCKS_MS)
        return newest_ms is not None and newest_ms > run_id.asked_or_planned_ms

    def _once_logged(self, what: str, run_id: RunId, fault: str | None) -> str | None:
        """The fault, as far as it stands in the way; logged once."""
        if fault is None:
            return None
        request = f"{what} {run_id}"
        if request not in self._logged:
            if len(self._logged) >= _MOST:
                self._logged.clear()
            self._logged[request] = None
            extra = {"action": "request.not_believed", "run": str(run_id), "what": what, "fault": fault}
            done = "set aside" if self.is_required else "believed all the same"
            _log.warning("the %s %s; it is %s", request, fault, done, extra=extra)
        return fault if self.is_required else None
