"""The users of a chaos run: they save, edit, pause, delete, ask for runs and kill some, whatever goes wrong meanwhile.

Every call is repeated, with the same content, until it is answered: so its effect lies between its first sending and
its answer. Edits of one job follow each other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from common.errors import EtcronError
from common.protocol.saved_job import Again, SavedJob
from common.protocol.txn import Get, Txn
from tests.chaos.faults.breaking import KEYS
from tests.chaos.fleet import Fleet
from tests.chaos.history import DRAINED, MADE_AGAIN, SAVED_BETWEEN, Call, Fault, Op, Stage, boot_ns, wall_ms
from tests.chaos.jobs import Spec

_PATIENCE_S = 12.0
_BETWEEN_TRIES_S = 0.3
_DEFINITE = 500
"""Below this status an answer is definite."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered at last, and when it was sent first."""

    status: int
    body: dict[str, Any]
    sent_ms: int
    in_doubt: bool
    """An earlier sending had no definite answer."""


class Users:
    """Calls the managers, whichever answers, and notes each call."""

    def __init__(self, fleet: Fleet, http: aiohttp.ClientSession, seed: int) -> None:
        self._fleet = fleet
        self._http = http
        self._chance = random.Random(f"users {seed}")
        self.specs: dict[str, Spec] = {}
        """What they have saved last, by name."""
        self.are_done = False
        """Set: each finishes what it is at, and asks for nothing more."""

    async def save(self, spec: Spec) -> None:
        answer = await self._ask("PUT", f"/api/v1/jobs/{spec['name']}", spec)
        if answer.status < 300:
            self.specs[spec["name"]] = spec
            await self._note(Op.SAVE, spec["name"], answer, spec=spec)
        else:
            failed = f"refused with {answer.status}: {str(answer.body)[:200]}"
            self._fleet.history.add(Stage(name=f"save of {spec['name']}", at_ms=wall_ms(), failed=failed))

    async def pause(self, name: str) -> None:
        answer = await self._ask("POST", f"/api/v1/jobs/{name}/pause", {})
        if answer.status < 300:
            await self._note(Op.PAUSE, name, answer)

    async def resume(self, spec: Spec) -> None:
        answer = await self._ask("POST", f"/api/v1/jobs/{spec['name']}/resume", {})
        if answer.status < 300:
            await self._note(Op.RESUME, spec["name"], answer, spec=spec)

    async def delete(self, name: str) -> None:
        answer = await self._ask("DELETE", f"/api/v1/jobs/{name}")
        if answer.status < 300:
            await self._note(Op.DELETE, name, answer)

    async def run(self, name: str) -> None:
        key = f"chaos-{self._chance.getrandbits(60):x}"
        answer = await self._ask("POST", f"/api/v1/jobs/{name}/run", {"dedupeKey": key})
        if answer.status < 300:
            body = answer.body
            await self._note(Op.RUN, name, answer, runs=body.get("runIds") or [body["runId"]])

    async def kill(self, run: str) -> None:
        answer = await self._ask("POST", f"/api/v1/runs/{run.replace('#', '%23')}/kill", {})
        if answer.status < 300:
            await self._note(Op.KILL, _job(run), answer, runs=[run], outcome=answer.body["outcome"])

    async def relabel(self, name: str) -> None:
        """A save that leaves alone when the job fires."""
        await self.save({**self.specs[name], "labels": {"number": str(self._chance.randrange(1000))}})

    async def give_up(self, run: str) -> bool:
        """Ask for it once; False: refused, as the run is well, or may be."""
        reason = {"reason": "its machine does not come back"}
        answer = await self._ask("POST", f"/api/v1/runs/{run.replace('#', '%23')}/give-up", reason)
        if answer.status < 300:
            await self._note(Op.GIVE_UP, _job(run), answer, runs=[run], outcome=answer.body["outcome"])
        return answer.status not in (409, 429)

    async def unblock(self, name: str, *, is_blocked: bool) -> bool:
        """Have the job fire again; False: refused, as some clock is wrong, or it is not blocked.

        ``is_blocked``: it is, for certain; so where it is not any more, a call before, which got no answer, did it.
        """
        body = {"reason": "a clock was ahead", "force": True}
        answer = await self._ask("POST", f"/api/v1/jobs/{name}/unblock", body)
        if answer.status >= 300 and not (is_blocked and "is not blocked" in str(answer.body)):
            return False
        outcome = "; ".join(answer.body.get("warnings", ()))
        await self._note(Op.UNBLOCK, name, answer, spec=self.specs[name], outcome=outcome)
        return True

    async def edit_until_done(self, specs: list[Spec]) -> None:
        """One edit after the other: each time another job, and often at the worst moment."""
        while not self.are_done:
            await asyncio.sleep(self._chance.uniform(0.2, 2.5))
            spec, from_ms = self._chance.choice(specs), wall_ms()
            match self._chance.choice(("edit", "edit", "edit between", "edit between", "pause", "delete")):
                case "edit":
                    await self._edit(spec)
                case "edit between":
                    # Its fires are claimed up to 200 ms before their time, which is always a whole second.
                    await asyncio.sleep(1 - time.time() % 1 - self._chance.uniform(0.02, 0.19))
                    await self._edit(spec)
                    self._note_fault(SAVED_BETWEEN, spec["name"], from_ms)
                case "pause":
                    await self.pause(spec["name"])
                    await asyncio.sleep(self._chance.uniform(0, 4))
                    await self.resume(spec)
                case _:
                    await self.delete(spec["name"])
                    await asyncio.sleep(self._chance.uniform(0, 3))
                    await self.save(spec)
                    self._note_fault(MADE_AGAIN, spec["name"], from_ms)

    async def _edit(self, spec: Spec) -> None:
        """Of when it fires, or of something else, which takes no fire away."""
        if self._chance.random() < 0.5:
            step = self._chance.choice([1, 2, 3, 4])
            spec.update(every=f"{step}s", offset=f"{self._chance.randrange(step)}s")
        else:
            spec.update(priority=self._chance.randrange(100))
        await self.save(spec)

    def _note_fault(self, what: str, target: str, from_ms: int) -> None:
        self._fleet.history.add(Fault(name=what, what=what, target=target, from_ms=from_ms, until_ms=wall_ms()))

    async def ask_until_done(self, names: list[str]) -> None:
        """Runs beside the schedule."""
        while not self.are_done:
            await asyncio.sleep(self._chance.uniform(1, 4))
            await self.run(self._chance.choice(names))

    async def drain_until_done(self, workers: list[str]) -> None:
        """A worker gets no runs for a while."""
        while not self.are_done:
            await asyncio.sleep(self._chance.uniform(5, 20))
            worker, sent_ms = self._chance.choice(workers), wall_ms()
            await self._ask("POST", f"/api/v1/workers/{worker}/drain", {})
            await asyncio.sleep(self._chance.uniform(1, 8))
            await self._ask("POST", f"/api/v1/workers/{worker}/undrain", {})
            self._note_fault(DRAINED, worker, sent_ms)

    async def kill_until_done(self, running: Callable[[], list[str]]) -> None:
        """The end of one that seems to be going."""
        while not self.are_done:
            await asyncio.sleep(self._chance.uniform(3, 9))
            runs = running()
            if runs:
                await self.kill(self._chance.choice(runs))

    async def _ask(self, method: str, path: str, body: object = None) -> Answer:
        """The first definite answer of any manager."""
        sent_ms, in_doubt = wall_ms(), False
        while True:
            port = self._chance.choice(self._fleet.managers).port
            try:
                timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
                url = URL(f"http://127.0.0.1:{port}{path}", encoded=True)
                async with self._http.request(method, url, json=body, timeout=timeout) as answer:
                    if answer.status < _DEFINITE:
                        return Answer(answer.status, await answer.json(), sent_ms, in_doubt)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass
            in_doubt = True
            await asyncio.sleep(_BETWEEN_TRIES_S)

    async def _note(
        self, op: Op, job: str, answer: Answer, *, spec: Spec | None = None, runs: list[str] | None = None,
        outcome: str = "",
    ) -> None:  # fmt: skip
        ack_ms, ack_boot_ns = wall_ms(), boot_ns()
        job_revision = etcd_revision = again = None
        while op.is_edit and job_revision is None:  # the checker needs it to know the schedule of each fire
            job_revision, etcd_revision, again = await self._saved(job)
        self._fleet.history.add(Call(
            op=op, job=job, sent_ms=answer.sent_ms, ack_ms=ack_ms, ack_boot_ns=ack_boot_ns,
            spec=dict(spec) if spec else None, job_revision=job_revision, etcd_revision=etcd_revision,
            runs=runs or [], outcome=outcome, in_doubt=answer.in_doubt,
            again_until_ms=again.until_ms if again else None, again_attempt=again.attempt if again else None,
        ))  # fmt: skip

    async def _saved(self, job: str) -> tuple[int | None, int | None, Again | None]:
        """The job's own revision and etcd's, read after the answer; and what an unblocking has written of it."""
        try:
            async with asyncio.timeout(3):
                found = await self._fleet.client.txn(Txn((), [Get(KEYS.job(job))]))
        except (EtcronError, TimeoutError):  # etcd is away
            await asyncio.sleep(_BETWEEN_TRIES_S)
            return None, None, None
        kv = found.one(0)
        if kv is None:
            return 0, found.revision, None
        return kv.mod_revision, found.revision, SavedJob.from_json(kv.value, name=job).again


def _job(run: str) -> str:
    return run.partition("@")[0].partition("~")[0]
