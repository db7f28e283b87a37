"""What a caller may see: every GET, called by those who may know of one team's jobs, of another's, of all, of none.

Everything of the other team has the word "hidden" in it, everything of one's own team the word "ours". What is expected
is written down here by hand.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest
import pytest_asyncio
from msgspec.structs import replace

from common.access.rights import Role
from common.access.selectors import Selector
from common.instants import iso
from common.jobs.reader import parse_job
from common.notices.alerts import Alert, Standing
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.silences import SILENCE, Silence
from common.protocol.keys import RunId, encode_mark
from common.protocol.member import Beat
from common.protocol.request import Origin, Request
from common.protocol.run import RunEntry, RunRecord, Trigger
from common.protocol.saved_job import EditKind, JobVersion, SavedJob
from common.runlog.alerts import Bucket
from common.verdicts import EventKind, Verdict
from manager.access.needs import inventory
from manager.api import versions
from tests.support.access import Accessing, token_id
from tests.support.etcd_server import EtcdServer
from tests.support.event_stream import EventStream, listening
from tests.support.joining import join
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import now_ms, open_entry, record_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.asyncio(loop_scope="module")]

DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
OURS: Final = {"team": "ours"}
THEIRS: Final = {"team": "theirs", "secret-label": "hidden-label"}
HIDDEN: Final = (
    "hidden-job", "hidden-command", "hidden-value", "HIDDEN_NAME", "hidden-label", "hidden-output", "hidden-reason",
    "hidden-caller", "hidden-zone", "hidden-former", "hidden-moved", "hidden-arg", "hidden-broken", "hidden-gone",
)  # fmt: skip
"""What must not occur in any answer to those who may know of our jobs alone."""
MASKED: Final = "ours-value"
"""The value of a variable, which a viewer may not read."""

ADMIN_ONLY: Final = ("GET /metrics", "GET /api/v1/channels", "GET /api/v1/rules", "GET /api/v1/notices")
"""Calls for those who may read everything."""
WITHOUT_JOBS: Final = frozenset({
    "GET /", "GET /jobs", "GET /new", "GET /jobs/{name}", "GET /jobs/{name}/edit", "GET /runs", "GET /runs/{id}",
    "GET /workers", "GET /workers/{name}", "GET /timeline", "GET /crontab",
    "GET /system", "GET /static/{path}", "GET /livez", "GET /api/v1/openapi.json",
    "GET /login", "GET /users", "GET /tokens", "GET /audit", "GET /access", "GET /account",
    "GET /alerts", "GET /notifications",
    "GET /api/v1/whoami", "GET /api/v1/login", "GET /api/v1/login/oidc", "GET /api/v1/login/oidc/callback",
    "GET /api/v1/sessions", "GET /api/v1/tokens", "GET /api/v1/users", "GET /api/v1/users/{name}",
    "GET /api/v1/services", "GET /api/v1/bindings", "GET /api/v1/access/explain", "GET /api/v1/audit",
    "GET /api/v1/audit/verify", "GET /api/v1/channels/{name}", "GET /api/v1/rules/{name}", "GET /api/v1/notices/{id}",
})  # fmt: skip
"""Calls that answer nothing of jobs or runs, or have a test of their own for who is told what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one call is made: by our own things, and by theirs and by what there is not, which must be told alike."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    """``{job}`` and ``{run}``: theirs in one call, and in another one some that there are not."""
    shows: tuple[str, ...] = ()
    """What our own answers hold, one for each; "" where nothing of ours is in it."""


RUNS: Final = "/api/v1/runs"
JOBS: Final = "/api/v1/jobs"
MATRIX: Final = {
    "GET /readyz": Look(ours=("/readyz", "/readyz?verbose"), shows=("", "ours-zone")),
    "GET /job/list": Look(ours=("/job/list",), shows=("ours-command",)),
    "GET /job/log": Look(
        ours=("/job/log?name=ours-job", "/job/log?name=moved-job"), theirs=("/job/log?name={job}",),
        shows=("ours-output", ""),
    ),
    "GET /worker/list": Look(ours=("/worker/list",), shows=("10.0.0.1",)),
    "GET /api/v1/jobs": Look(
        ours=(
            JOBS, f"{JOBS}?limit=1", f"{JOBS}?q=ours", f"{JOBS}?q=hidden", f"{JOBS}?label=team",
            f"{JOBS}?label=secret-label", f"{JOBS}?state=running", f"{JOBS}?state=failing", f"{JOBS}?state=broken",
            f"{JOBS}?sort=next&limit=1", f"{JOBS}?sort=-failure&limit=1", f"{JOBS}?sort=-duration&limit=1",
        ),
        shows=(
            "ours-job", "moved-job", "ours-job", '"total":0', "ours-job", '"total":0', "ours-job", "", '"total":0',
            "", "", "",
        ),
    ),
    "GET /api/v1/jobs/{name}": Look(
        ours=(f"{JOBS}/ours-job", f"{JOBS}/moved-job"), theirs=(f"{JOBS}/{{job}}",), shows=("ours-command", "moved")
    ),
    "GET /api/v1/jobs/{name}/fires": Look(
        ours=(f"{JOBS}/ours-job/fires", f"{JOBS}/ours-job/fires?from=1&limit=500", f"{JOBS}/moved-job/fires?from=1"),
        theirs=(f"{JOBS}/{{job}}/fires", f"{JOBS}/{{job}}/fires?from=1&limit=500"),
        shows=("ours-job@", "ours-job@", ""),
    ),
    "GET /api/v1/jobs/{name}/calendar": Look(
        ours=(f"{JOBS}/ours-job/calendar",), theirs=(f"{JOBS}/{{job}}/calendar",), shows=('"days":',)
    ),
    "GET /api/v1/forecast": Look(
        ours=("/api/v1/forecast", "/api/v1/forecast?q=hidden"), shows=('"jobs":', '"jobs":0')
    ),
    "GET /api/v1/forecast/week": Look(ours=("/api/v1/forecast/week?q=hidden",), shows=('"jobs":0',)),
    "GET /api/v1/forecast/jobs": Look(
        ours=("/api/v1/forecast/jobs", "/api/v1/forecast/jobs?q=hidden"), shows=("", '"total":0')
    ),
    "GET /api/v1/timeline": Look(
        ours=(
            "/api/v1/timeline", "/api/v1/timeline?q=hidden", "/api/v1/timeline?by=label&key=team",
            "/api/v1/timeline?by=label&key=secret-label", "/api/v1/timeline?by=worker",
        ),
        shows=("ours-job@", '"total":0', "ours-job@", '"total":0', "ours-job@"),
    ),
    "GET /api/v1/jobs/{name}/durations": Look(
        ours=(f"{JOBS}/ours-job/durations", f"{JOBS}/moved-job/durations"), theirs=(f"{JOBS}/{{job}}/durations",),
        shows=("ours-job@", '"points":[]'),
    ),
    "GET /api/v1/deleted-jobs": Look(
        ours=("/api/v1/deleted-jobs", "/api/v1/deleted-jobs?limit=1"), shows=("ours-gone", "ours-gone")
    ),
    "GET /api/v1/jobs/{name}/versions": Look(
        ours=(f"{JOBS}/ours-job/versions", f"{JOBS}/moved-job/versions"), theirs=(f"{JOBS}/{{job}}/versions",),
        shows=('"current":true', '"current":true'),
    ),
    "GET /api/v1/jobs/{name}/versions/{revision}": Look(
        ours=(f"{JOBS}/ours-job/versions/7",), shows=("ours-former",),
        theirs=(f"{JOBS}/{{job}}/versions/8", f"{JOBS}/{{job}}/versions/odd"),
    ),
    "GET /api/v1/jobs/{name}/versions/{revision}/compare": Look(
        ours=(f"{JOBS}/ours-job/versions/7/compare",), shows=("ours-former",),
        theirs=(f"{JOBS}/{{job}}/versions/8/compare",),
    ),
    "GET /api/v1/runs": Look(
        ours=(
            RUNS, f"{RUNS}?limit=1", f"{RUNS}?status=running", f"{RUNS}?status=failed", f"{RUNS}?worker=w1",
            f"{RUNS}?job=ours-job", f"{RUNS}?job=moved-job", f"{RUNS}?q=job", f"{RUNS}?q=hidden",
            f"{RUNS}?label=secret-label", f"{RUNS}?group=error", f"{RUNS}?group=error&q=hidden",
        ),
        theirs=(f"{RUNS}?job={{job}}", f"{RUNS}?job={{job}}&status=running", f"{RUNS}?q={{job}}"),
        shows=(
            "ours-job@", "ours-job@", "ours-job@", "", "ours-job@", "ours-arg", "", "ours-job@", '"items":[]',
            '"items":[]', '"groups":', '"groups":[]',
        ),
    ),
    "GET /api/v1/runs/{id}": Look(
        ours=(f"{RUNS}/{quote('ours-job@1000000#1')}",), theirs=(f"{RUNS}/{{run}}",), shows=("ours-output",)
    ),
    "GET /api/v1/runs/{id}/output": Look(
        ours=(f"{RUNS}/{quote('ours-job@1000000#1')}/output", f"{RUNS}/{quote('ours-job@1000000#1')}/output?follow=1"),
        theirs=(f"{RUNS}/{{run}}/output", f"{RUNS}/{{run}}/output?follow=1", f"{RUNS}/{{run}}/output?tail=1"),
        shows=("ours-output", "ours-output"),
    ),
    "GET /api/v1/statistics": Look(
        ours=("/api/v1/statistics", "/api/v1/statistics?job=ours-job", "/api/v1/statistics?job=moved-job"),
        theirs=("/api/v1/statistics?job={job}",), shows=("", "", '"runs":0'),
    ),
    "GET /api/v1/overview": Look(ours=("/api/v1/overview",), shows=("ours-output",)),
    "GET /api/v1/workers": Look(ours=("/api/v1/workers",), shows=('"w1"',)),
    "GET /api/v1/workers/{name}": Look(ours=("/api/v1/workers/w1",), shows=("ours-job@",)),
    "GET /api/v1/workers/{name}/history": Look(ours=("/api/v1/workers/w1/history",), shows=('"events":null',)),
    "GET /api/v1/system": Look(ours=("/api/v1/system",), shows=("ours-zone",)),
    "GET /api/v1/alerts": Look(
        ours=(
            "/api/v1/alerts", "/api/v1/alerts?limit=1", "/api/v1/alerts?job=ours-job", "/api/v1/alerts?state=ended",
        ),
        theirs=("/api/v1/alerts?job={job}",), shows=('"open":1', "ours-reason", "ours-reason", "ours-reason"),
    ),
    "GET /api/v1/jobs/{name}/notifications": Look(
        ours=(f"{JOBS}/ours-job/notifications",), theirs=(f"{JOBS}/{{job}}/notifications",), shows=("ours-reason",)
    ),
    "GET /api/v1/silences": Look(
        ours=("/api/v1/silences", "/api/v1/silences?limit=1"), shows=("ours-reason", "ours-reason")
    ),
    "GET /api/v1/events": Look(ours=()),
}  # fmt: skip
"""The stream has a test of its own, below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Jobs, runs and callers of two teams."""

    manager: Managed
    callers: dict[str, dict[str, str]]
    """By who they are: ours, theirs, viewer and admin of all, and one without any binding."""

    async def get(self, who: str, path: str) -> tuple[int, str]:
        async with self.manager.http.get(path, headers=self.callers[who]) as response:
            return response.status, await response.text()

    async def save(self, name: str, labels: dict[str, str], *, saved_ms: int | None = None, **fields: Any) -> int:
        """Put the job as a manager would; its revision."""
        document = {"name": name, "command": "true", "cronExpr": "0 0 0 1 1 * 2099", "labels": labels} | fields
        at_ms = now_ms() if saved_ms is None else saved_ms
        saved = SavedJob(spec=parse_job(document), anchor_ms=at_ms, saved_ms=at_ms, saved_by=f"{name}-caller")
        keys, etcd = self.manager.keys, self.manager.etcd
        return await etcd.put(keys.job(name), saved.to_json())

    async def settled(self) -> None:
        """The manager has seen all that is in etcd."""
        revision = await self.save("zzz-ours-last", OURS)
        runs = self.manager.parts.watching.open_runs
        assert await self.manager.parts.watching.has_reached(revision)
        await wait_until(lambda: len(runs) == 3, description="the open runs are seen")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def still(etcd_server: EtcdServer, log_store: LogStore) -> AsyncIterator[World]:
    """One for all tests that only look."""
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, auth="required") as guarded:
        yield await world_of(guarded)


@pytest_asyncio.fixture(loop_scope="module")
async def world(place: Place) -> AsyncIterator[World]:
    async with managing(place, auth="required") as guarded:
        yield await world_of(guarded)


async def world_of(guarded: Managed) -> World:
    """The manager asks everybody who they are."""
    access = Accessing(guarded)
    callers = {
        "ours": await access.user("olive", Role.VIEWER, labels={"team": ["ours"]}),
        "ours-operator": await access.user("otto", Role.OPERATOR, labels={"team": ["ours"]}),
        "theirs": await access.user("theo", Role.VIEWER, labels={"team": ["theirs"]}),
        "viewer": await access.user("vera", Role.VIEWER),
        "admin": await access.user("ada", Role.ADMIN),
        "nobody": await access.user("nemo"),
        "anonymous": {},
    }
    world = World(manager=guarded, callers=callers)
    keys, etcd = guarded.keys, guarded.etcd
    await join(guarded, "w1", labels={"zone": "a"})
    saved_ms = now_ms() - MINUTE_MS
    await world.save("ours-job", OURS, command="echo ours-command", env={"OURS_NAME": MASKED}, saved_ms=saved_ms)
    await world.save("ours-lost", OURS, command="true", workers={"zone": ["ours-zone"]})
    await world.save("moved-job", OURS, command="echo moved", saved_ms=saved_ms)
    await world.save(
        "hidden-job", THEIRS, command="echo hidden-command", env={"HIDDEN_NAME": "hidden-value"}, saved_ms=saved_ms
    )
    await world.save("hidden-lost", THEIRS, command="true", workers={"zone": ["hidden-zone"]})
    await etcd.put(keys.job("hidden-broken"), b"no job")
    mark = encode_mark(now_ms() + DAY_MS)
    await etcd.put(keys.mark("hidden-job"), mark)
    for job, labels, word in (("ours-job", OURS, "ours"), ("hidden-job", THEIRS, "hidden"),
                              ("moved-job", THEIRS, "hidden-moved")):  # fmt: skip
        await write(guarded, job, labels, word)
    for job, word in (("hidden-job", "hidden"), ("ours-job", "ours")):
        there = await etcd.get(keys.job(job))
        assert there is not None
        request = Request(
            run_id=RunId(job, "r-9"), origin=Origin.RUN_NOW, job_create_revision=there.create_revision, plan_ms=1,
            dispatch_ms=1, not_before_ms=now_ms() + DAY_MS, trigger=Trigger.API, by=f"{word}-caller",
            args=(f"{word}-arg",),
        )  # fmt: skip
        await etcd.put(keys.request(request.run_id), request.to_json())
    await guarded.runlog.alerts.take(1)
    await guarded.runlog.alerts.write({
        number: Bucket(
            standings={job: Standing(alert=alert_of(job, labels, word))},
            ended=(replace(alert_of(job, labels, word), end_ms=9),),
        )
        for number, (job, labels, word) in enumerate(
            (("ours-job", OURS, "ours"), ("hidden-job", THEIRS, "hidden"), ("", {}, "hidden"))
        )
    }, 1)  # fmt: skip
    for number, job, labels, word in ((1, "ours-job", OURS, "ours"), (2, "hidden-job", THEIRS, "hidden")):
        for place, silence in enumerate((
            Silence(jobs=(job,), from_ms=0, until_ms=1, reason=f"{word}-reason"),
            Silence(labels=Selector.of({"team": [labels["team"]]}), from_ms=0, until_ms=1, reason=f"{word}-reason"),
        )):  # fmt: skip
            value = SILENCE.to_json(Stored(record=silence, created_by=f"{word}-caller"))
            await etcd.put(keys.silence(f"{number}{place:011}"), value)
    await world.settled()
    await guarded.parts.watching.blocked.look()
    return world


async def write(manager: Managed, job: str, labels: dict[str, str], word: str) -> None:
    """One run that has ended, one that goes, and a former version, all of which carry these labels."""
    records = [
        record(RunId.planned(job, 1_000_000), labels, word),
        record(RunId.planned(job, now_ms() - 2 * MINUTE_MS), labels, word, status=Verdict.FAILED),
    ]
    await manager.write(records)
    going = replace_entry(open_entry(now_ms() - MINUTE_MS, dispatch_ms=1), labels, word)
    await manager.etcd.put(manager.keys.run(RunId.planned(job, going.plan_ms)), going.to_json())
    spec = {
        "name": job, "cronExpr": "@daily", "command": f"echo {word}-former", "labels": labels,
        "env": {f"{word.upper()}_NAME".replace("-", "_"): f"{word}-value-former"},
    }  # fmt: skip
    revision = {"ours-job": 7, "hidden-job": 8, "moved-job": 9}[job]
    version = JobVersion(
        job=job, revision=revision, spec=spec, saved_ms=1, saved_by=f"{word}-caller", ended_ms=2,
        ended_by=f"{word}-caller", ended_with=EditKind.SAVE,
    )  # fmt: skip
    await manager.etcd.put(f"{manager.keys.versions}{job}/{revision}", version.to_json())
    gone = dataclasses.replace(version, job=f"{word}-gone", ended_with=EditKind.DELETE)
    await manager.etcd.put(f"{manager.keys.versions}{gone.job}/{revision}", gone.to_json())


def alert_of(job: str, labels: dict[str, str], word: str) -> Alert:
    kind = EventKind.FAILED if job else EventKind.WORKER_DOWN
    event = Event(kind=kind, at_ms=5, job=job, subject=f"{word}-worker", labels=labels, reason=f"{word}-reason")
    return Alert(event=event, since_ms=5, first_run=f"{job}@5#1")


def record(run: RunId, labels: dict[str, str], word: str, *, status: Verdict = Verdict.SUCCESS) -> RunRecord:
    return record_of(
        run, status, labels=labels, output=f"{word}-output\n", command=f"echo {word}-command", by=f"{word}-caller",
        reason=f"{word}-reason", err=f"{word}-reason",
    )  # fmt: skip


def replace_entry(entry: RunEntry, labels: dict[str, str], word: str) -> RunEntry:
    values = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return RunEntry(**values | {"labels": labels, "by": f"{word}-caller", "args": (f"{word}-arg",)})


def opened(text: str) -> str:
    """The answer, with what its cursors say when somebody decodes them."""
    found = re.findall(r'"nextCursor":"([^"]+)"', text)
    decoded = []
    for cursor in found:
        try:
            decoded.append(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode(errors="replace"))
        except binascii.Error:
            continue
    return "\n".join((text, *decoded))


async def test_every_get_stands_in_the_matrix(still: World) -> None:
    found = {f"{method} {path}" for method, path in inventory(still.manager.http.app) if method == "GET"}
    missing = found - MATRIX.keys() - WITHOUT_JOBS - {*ADMIN_ONLY}
    assert not missing, f"say in MATRIX what callers may see of them: {sorted(missing)}"


@pytest.mark.parametrize("call", MATRIX)
async def test_nothing_of_another_team_is_told(call: str, still: World) -> None:
    look = MATRIX[call]
    assert len(look.shows) == len(look.ours)
    for path, shows in zip(look.ours, look.shows, strict=True):
        status, text = await still.get("ours", path)
        assert status == 200, (path, text)
        assert [word for word in (*HIDDEN, MASKED, "hidden") if word in opened(text)] == [], path
        assert shows in text, (path, text)


@pytest.mark.parametrize("call", MATRIX)
async def test_what_may_not_be_seen_answers_like_what_there_is_not(call: str, still: World) -> None:
    """An attack: somebody asks for names one after the other, and compares the answers."""
    for template in MATRIX[call].theirs:
        answers = []
        for job, run in (("hidden-job", quote("hidden-job@1000000#1")), ("absent-job", quote("absent-job@1000000#1"))):
            status, text = await still.get("ours", template.format(job=job, run=run))
            answers.append((status, text.replace("absent-job", "hidden-job")))
        assert answers[0] == answers[1], template


@pytest.mark.parametrize("call", MATRIX)
async def test_other_team_is_told_nothing_of_ours(call: str, still: World) -> None:
    look = MATRIX[call]
    for path in look.ours:
        _, text = await still.get("theirs", path)
        words = ("ours-command", "ours-output", "ours-value", "ours-caller", "ours-arg", "ours-zone", "ours-former")
        assert [word for word in words if word in opened(text)] == [], path
    for template in look.theirs:
        status, text = await still.get("theirs", template.format(job="hidden-job", run=quote("hidden-job@1000000#1")))
        assert "hidden-value" not in text
        assert status == (400 if template.endswith("odd") else 200), (template, text)


@pytest.mark.parametrize("call", [*MATRIX, *ADMIN_ONLY])
async def test_who_has_no_binding_is_refused_and_a_stranger_has_to_log_in(call: str, still: World) -> None:
    if call == "GET /readyz":
        for who in ("nobody", "anonymous"):
            _, text = await still.get(who, "/readyz?verbose")
            assert set(json.loads(text)) == {"status"}
        return
    look = MATRIX.get(call, Look(ours=(call.removeprefix("GET "),)))
    for path in look.ours or ("/api/v1/events",):
        assert (await still.get("nobody", path))[0] == 403, path
        assert (await still.get("anonymous", path))[0] == 401, path


TOOK_MS: Final = 7_654_321


@pytest.mark.parametrize(
    "path",
    ["/api/v1/timeline", "/api/v1/workers/w1", "/api/v1/overview", JOBS, f"{JOBS}/moved-job", "/api/v1/forecast/jobs"],
)
async def test_how_long_runs_of_a_former_owner_took_is_not_told(world: World, path: str) -> None:
    manager, saved_ms = world.manager, now_ms() - MINUTE_MS
    runs = [RunId.planned("moved-job", saved_ms - (hours + 3) * 60 * MINUTE_MS) for hours in range(3)]
    await manager.write([record_of(one, labels=THEIRS, end_ms=(one.plan_ms or 0) + 2 + TOOK_MS) for one in runs])
    await world.save("moved-job", OURS, cronExpr="* * * * *", saved_ms=saved_ms)
    going = replace_entry(open_entry(saved_ms + 1, dispatch_ms=1), OURS, "ours")
    await manager.etcd.put(manager.keys.run(RunId.planned("moved-job", going.plan_ms)), going.to_json())
    open_runs = manager.parts.watching.open_runs
    await wait_until(lambda: len(open_runs) == 4, description="the run is seen")
    await world.save("zzz-ours-last", OURS)
    told = {}
    for who in ("viewer", "ours"):
        status, told[who] = await world.get(who, path)
        assert status == 200
        assert "moved-job" in told[who]
    assert ('"usualMs":7654321' in told["viewer"], "7654321" in opened(told["ours"])) == (True, False)


@pytest.mark.parametrize("call", ADMIN_ONLY)
async def test_sums_over_everything_are_for_who_may_read_everything(call: str, still: World) -> None:
    path = call.removeprefix("GET ")
    assert [(await still.get(who, path))[0] for who in ("ours", "theirs", "viewer", "admin")] == [403, 403, 200, 200]


async def test_who_reads_everything_reads_both_teams_and_only_an_administrator_what_is_no_job(still: World) -> None:
    for who, names in (("viewer", False), ("admin", True)):
        _, text = await still.get(who, JOBS)
        assert "ours-job" in text
        assert "hidden-job" in text
        assert ("hidden-broken" in text) is names
        assert (await still.get(who, f"{JOBS}/hidden-broken"))[0] == (200 if names else 404)
        _, text = await still.get(who, "/api/v1/system")
        assert bool(json.loads(text)["configuration"]) is names


async def test_values_of_variables_are_for_operators(still: World) -> None:
    for path in (f"{JOBS}/ours-job", JOBS, "/job/list", f"{JOBS}/ours-job/versions/7",
                 f"{JOBS}/ours-job/versions/7/compare"):  # fmt: skip
        _, text = await still.get("ours", path)
        assert "OURS_NAME" in text, path
        assert '"***"' in text, path
        assert MASKED not in text, path
        assert MASKED in (await still.get("ours-operator", path))[1], path


async def test_events_tell_each_team_its_own_and_are_spelled_apart(world: World) -> None:
    manager = world.manager
    async with (
        listening(manager, world.callers["ours"]) as ours,
        listening(manager, world.callers["theirs"]) as theirs,
        listening(manager, world.callers["admin"]) as admin,
    ):
        await world.save("hidden-job", THEIRS, command="echo hidden-command again")
        run = RunId.planned("moved-job", now_ms())
        await manager.etcd.put(
            manager.keys.run(run), replace_entry(open_entry(now_ms()), THEIRS, "hidden-moved").to_json()
        )
        await manager.write([record(run, THEIRS, "hidden-moved")])
        await manager.etcd.delete(manager.keys.run(run))
        await told(theirs, "moved-job")  # its run is theirs
        await world.save("ours-job", OURS, command="echo again")
        heard = await told(ours, "ours-job")
        assert "hidden" not in heard
        assert "moved-job" not in heard
        heard = await told(admin, "ours-job")
        assert "hidden-job" in heard


async def test_job_that_changes_hands_is_gone_for_those_who_had_it(world: World) -> None:
    async with listening(world.manager, world.callers["theirs"]) as theirs:
        await world.save("hidden-job", OURS, command="echo taken-over")
        assert "taken-over" not in await told(theirs, "hidden-job")
    assert (await world.get("theirs", f"{JOBS}/hidden-job"))[0] == 404
    assert (await world.get("ours", f"{JOBS}/hidden-job"))[0] == 200
    # What ran before stays theirs: the run that goes, the records, the former versions.
    _, text = await world.get("ours", f"{RUNS}?job=hidden-job")
    assert json.loads(text)["items"] == []
    _, text = await world.get("theirs", f"{RUNS}?job=hidden-job")
    assert len(json.loads(text)["items"]) == 3
    _, text = await world.get("ours", f"{JOBS}/hidden-job")
    row = json.loads(text)
    assert (row["running"], row["lastResult"], row["lastRun"], row["recent"]) == ([], None, None, [])


async def test_attack_a_preview_changes_what_another_caller_with_the_same_rights_is_shown(world: World) -> None:
    """It is a POST, by rights that are looked up each time; and the first call by these at this manager."""
    access, team = Accessing(world.manager), {"team": "new"}
    alice, bob = [await access.user(name, Role.VIEWER, labels={"team": ["new"]}) for name in ("alice", "bob")]

    async def shown(revision: int) -> list[str]:
        assert await world.manager.parts.watching.has_reached(revision)
        async with world.manager.http.get(JOBS, headers=bob) as answer:
            assert answer.status == 200, await answer.text()
            return [row["name"] for row in (await answer.json())["items"]]

    assert await world.manager.parts.watching.has_reached(await world.save("first", team))
    wish = {"names": ["first"], "by": "minute"}
    await world.manager.call("POST", "/api/v1/forecast/spread", wish, **alice)
    await access.bind("user:alice", Role.VIEWER, labels={"team": ["theirs"]})
    assert await shown(await world.save("hidden-new", THEIRS)) == ["first"]
    await access.delete(access.keys.token(token_id(alice)))
    await world.save("first", THEIRS)
    assert await shown(await world.save("second", team)) == ["second"]
    await world.manager.etcd.delete(world.manager.keys.job("second"))
    assert await shown(await world.save("third", team)) == ["third"]


async def test_attack_name_of_a_hidden_job_is_found_out_by_a_deleted_one_that_had_it(world: World) -> None:
    await world.save("ours-gone", THEIRS)
    await world.settled()
    assert "ours-gone" in (await world.get("ours", "/api/v1/deleted-jobs"))[1]
    assert "ours-gone" not in (await world.get("viewer", "/api/v1/deleted-jobs"))[1], "it is there again"


async def test_attack_deletions_of_hidden_jobs_are_found_in_the_cursors_of_ones_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at some hundred; its cursor names the last of them to nobody."""
    monkeypatch.setattr(versions, "_DELETIONS", 20)
    names = ["ours-late", *(f"hidden-{number}" for number in range(30)), "ours-early"]
    assert not await world.manager.runlog.versions.put([
        JobVersion(
            job=name, revision=10_000 - number, spec={"name": name, "labels": OURS if "ours" in name else THEIRS},
            saved_ms=1, saved_by="a", ended_ms=10_000 - number, ended_by="a", ended_with=EditKind.DELETE,
        )
        for number, name in enumerate(names)
    ])  # fmt: skip
    found, cursors, path = list[str](), list[str](), "/api/v1/deleted-jobs"
    while not cursors or cursors[-1]:
        _, text = await world.get("ours", f"{path}?cursor={cursors[-1]}" if cursors else path)
        found += [one["name"] for one in json.loads(text)["items"]]
        cursors.append(json.loads(text)["nextCursor"])
        assert not re.fullmatch("[0-9]+-[0-9]+", cursors[-1] or "")
    assert found == ["ours-late", "ours-early", "ours-gone"]
    assert len(cursors) > 1


async def test_attack_names_of_hidden_jobs_are_found_in_what_etcd_refuses_a_process(world: World) -> None:
    refused = "kills: etcd refused a transaction (the first on '/cron/kill/hidden-job@1'): permission denied"
    await join(world.manager, "w2", beat=Beat(kind="worker", wall_ms=now_ms(), not_permitted=refused))
    beat = Beat(kind="manager", wall_ms=now_ms(), problem="the rules of hidden-job cannot be read")
    await world.manager.etcd.put(world.manager.keys.beat("m2"), beat.to_json())
    for path in ("/readyz?verbose", "/api/v1/system"):
        said = (await world.get("ours", path))[1]
        assert "hidden-job" not in said
        assert "the notifier m2 cannot tell all that happens: it has a problem" in said
        assert "/cron/kill/hidden-job@1" in (await world.get("admin", path))[1], "who sees everything reads it"


async def test_attack_names_of_hidden_jobs_are_found_in_what_is_wrong_with_a_worker(world: World) -> None:
    problem = "1 jobs without a signature that is believed here are set aside: hidden-job"
    await join(world.manager, "w2", beat=Beat(kind="worker", wall_ms=now_ms(), problem=problem))
    for path in ("/api/v1/workers", "/api/v1/workers/w2"):
        said = (await world.get("ours", path))[1]
        assert "hidden-job" not in said
        assert "it has a problem" in said
        assert problem in (await world.get("viewer", path))[1]


async def test_pages_go_on_behind_many_hidden_records(world: World) -> None:
    """A page looks at about 1,000 records; its cursor names the last of them to nobody."""
    manager, start = world.manager, now_ms() - 30 * MINUTE_MS
    for part in range(3):
        await manager.write([
            record(RunId.planned("hidden-job", start + part * 500 + number), THEIRS, "hidden")
            for number in range(500)
        ])  # fmt: skip
    await manager.write([record(RunId.planned("ours-job", start - 1), OURS, "ours")])
    found, path, pages = list[str](), f"{RUNS}?limit=50&status=success", 0
    cursor: str | None = None
    while pages == 0 or cursor is not None:
        status, text = await world.get("ours", path if cursor is None else f"{path}&cursor={cursor}")
        assert status == 200, text
        assert "hidden" not in opened(text)
        page = json.loads(text)
        found += [one["id"] for one in page["items"]]
        cursor, pages = page["nextCursor"], pages + 1
    assert found == [f"ours-job@{start - 1}#1", "ours-job@1000000#1"]
    assert pages > 1


async def test_attack_name_of_a_job_is_found_out_by_the_pages_of_its_many_hidden_records(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.views.fires.MOST_PAGES", 1)  # so 1,000 hidden records are enough, in place of 10,000
    start = now_ms() - 30 * MINUTE_MS
    for part in range(3):
        await world.manager.write([
            record(RunId.planned("hidden-job", start + part * 500 + number), THEIRS, "hidden")
            for number in range(500)
        ])  # fmt: skip
    lists = [f"{RUNS}?job={{}}{more}" for more in ("", "&status=success", "&worker=w1", "&limit=1")]
    lists += [f"/api/v1/jobs/{{}}/fires?from={iso(start)}&to={iso(now_ms())}&limit={limit}" for limit in (1, 100)]
    for path in lists:
        answers = [await world.get("ours", path.format(name)) for name in ("hidden-job", "absent-job")]
        assert (answers[0][0], answers[0][1].replace("hidden-job", "absent-job")) == answers[1], path


async def told(stream: EventStream, name: str) -> str:
    """Everything that the stream tells until it names the job."""
    heard = ""
    async with asyncio.timeout(60):
        while (event := await stream.next()) is not None:
            heard += json.dumps(event.data)
            if event.kind in ("jobs", "runs") and name in heard:
                return heard
    raise AssertionError(f"the stream ended before it named {name}: {heard}")
