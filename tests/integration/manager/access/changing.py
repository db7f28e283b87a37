"""Jobs of three kinds (ours, another team's, without labels), and callers of each role and reach, for tests of changes.

Whatever belongs to the other team says "payroll" somewhere, and its name alone is what a caller may have guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientResponse

from common.access.rights import Role
from common.jobs.reader import parse_job
from common.json_text import dumps
from common.notices.alerts import Alert, Standing
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.silences import SILENCE, Silence
from common.protocol.keys import RunId, encode_mark
from common.protocol.run import EntryState, RunEntry
from common.protocol.saved_job import EditKind, JobVersion, SavedJob
from common.protocol.txn import KeyValue
from common.runlog.alerts import Bucket
from common.verdicts import EventKind
from tests.support.access import Accessing
from tests.support.joining import join
from tests.support.managing import Managed, Place

OURS: Final = {"team": "ours"}
THEIRS: Final = {"team": "payroll"}
TARGETS: Final = {"ours": OURS, "theirs": THEIRS, "bare": dict[str, str]()}
"""By the job's name: its labels."""
REACHED: Final = {"own": {"team": ["ours"]}, "other": {"team": ["sales"]}, "all": None}
"""The selectors of callers, by their reach."""
SECRETS: Final = ("payroll", "cat /srv", "hush")
"""Label, command and variable of the other team's job: in no answer to those who may not know of it."""
VERSION: Final = 7
PLAN_MS: Final = 1_700_000_000_000
AHEAD_MS: Final = 4_000_000_000_000


def job(name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    command, env = ("cat /srv", {"KEY": "hush"}) if labels == THEIRS else ("true", {"KEY": "plain"})
    document = {"name": name, "command": command, "cronExpr": "0 0 0 1 1 * 2099", "labels": labels, "env": env}
    return document | fields


def run_of(name: str) -> RunId:
    return RunId.planned(name, PLAN_MS)


def quoted(run: RunId) -> str:
    return quote(str(run), safe="")


def _sent(method: str, body: object) -> object:
    return {} if body is None and method == "POST" else body


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One manager, and what there is to be changed."""

    manager: Managed
    etcd: str
    access: Accessing
    callers: dict[tuple[str, str], dict[str, str]]
    """Headers, by role and reach."""

    async def call(
        self, headers: dict[str, str], method: str, path: str, body: object = None, *, form: object = None
    ) -> tuple[int, str]:
        response: ClientResponse
        if form is not None:
            response = await self.manager.http.request(method, path, data=form, headers=headers)
        else:
            response = await self.manager.http.request(method, path, json=_sent(method, body), headers=headers)
        return response.status, await response.text()

    async def save(self, name: str, labels: dict[str, str], **fields: Any) -> int:
        """The job is in etcd, as a manager has saved it; its revision."""
        saved = SavedJob(spec=parse_job(job(name, labels, **fields)), anchor_ms=1, saved_ms=1, saved_by="somebody")
        return await self.manager.etcd.put(self.manager.keys.job(name), saved.to_json())

    async def version(self, name: str, labels: dict[str, str], *, revision: int = VERSION, **fields: Any) -> None:
        """A former version of the job."""
        version = JobVersion(
            job=name, revision=revision, spec=job(name, labels, **fields), saved_ms=1, saved_by="somebody", ended_ms=2,
            ended_by="somebody", ended_with=EditKind.SAVE,
        )  # fmt: skip
        await self.manager.etcd.put(self.manager.keys.version(name, revision), version.to_json())

    async def run(
        self, run: RunId, labels: dict[str, str], *, revision: int = 0, state: EntryState = EntryState.OPEN
    ) -> None:
        """A run in etcd, claimed with these labels."""
        entry = RunEntry(
            state=state, worker="w1", session="1", plan_ms=PLAN_MS, dispatch_ms=PLAN_MS, claim_ms=PLAN_MS,
            labels=labels, revision=revision,
        )  # fmt: skip
        await self.manager.etcd.put(self.manager.keys.run(run), entry.to_json())

    async def put_back(self, before: dict[str, KeyValue]) -> None:
        """Whatever an allowed call has changed is again as it was."""
        etcd, now = self.manager.etcd, await self.manager.stored()
        for key in now.keys() - before.keys():
            await etcd.delete(key)
        for key, kv in before.items():
            if key not in now or now[key].value != kv.value:
                await etcd.put(key, kv.value, kv.lease)


async def world_of(manager: Managed, place: Place) -> World:
    """Three jobs, each with a run, a former version and a mark that is ahead; a live worker; all callers."""
    access = Accessing(manager)
    callers: dict[tuple[str, str], dict[str, str]] = {}
    for role in Role:
        for reach, reached in REACHED.items():
            callers[role, reach] = await access.user(f"{role}-{reach}", role, labels=reached)
    callers["", "none"] = await access.user("nobody")
    callers["admin", "empty"] = await access.user("empty")
    binding = {"subject": "user:empty", "role": "admin", "labels": {}, "runAs": "all", "workers": "all"}
    await access.put(access.keys.binding("0" * 12), dumps(binding).encode())
    world = World(manager=manager, etcd=place.etcd, access=access, callers=callers)
    await join(manager, "w1")
    await manager.runlog.alerts.take(1)
    standings = {
        name: Standing(alert=Alert(event=Event(kind=EventKind.FAILED, at_ms=1, job=name, labels=labels), since_ms=1))
        for name, labels in TARGETS.items()
    }
    await manager.runlog.alerts.write({0: Bucket(standings=standings)}, 1)
    for name, labels in TARGETS.items():
        await world.save(name, labels, enabled=False)
        await world.version(name, labels)
        await world.run(run_of(name), labels)
        await world.run(RunId.planned(name, PLAN_MS, 2), labels, state=EntryState.ENDED)
        await manager.etcd.put(manager.keys.mark(name), encode_mark(AHEAD_MS))
        silence = Stored(record=Silence(jobs=(name,), from_ms=0, until_ms=1), created_by="somebody")
        await manager.etcd.put(manager.keys.silence(f"s-{name}"), SILENCE.to_json(silence))
    return world
