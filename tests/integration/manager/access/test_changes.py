"""The matrix of changes: every call that changes something, by every role and reach, on jobs of every label.

What is expected is a rule that is written here by hand: `allowed` and `CALLS`. After every refusal etcd is as before,
byte for byte, and nothing is told of what the caller may not know.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from aiohttp import web

from common.access.callers import Identity, Via
from common.access.rights import Role
from common.access.subjects import Subject
from common.protocol.keys import RunId
from manager.access.needs import inventory
from tests.integration.manager.access.changing import (
    OURS,
    PLAN_MS,
    SECRETS,
    TARGETS,
    THEIRS,
    VERSION,
    World,
    job,
    quoted,
    run_of,
    world_of,
)  # fmt: skip
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.managing import Place, managing

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.asyncio(loop_scope="module")]
"""What an allowed call has changed is put back."""

RANK: Final = {"": -1, "viewer": 0, "operator": 1, "editor": 2, "admin": 3}
REACHES: Final[Mapping[str, frozenset[str]]] = {
    "own": frozenset({"ours"}), "other": frozenset(), "all": frozenset(TARGETS), "none": frozenset(),
    "empty": frozenset(),
}  # fmt: skip
"""The jobs that a caller of this reach may know of. A binding whose selector is empty grants nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call on one object; ``{name}`` is the job's, in the path and in what is sent."""

    route: str
    path: str
    role: str
    """Of the caller on the job."""
    anything: str = ""
    """The role that the guard wants on something; left out: the same."""
    body: Any = None
    form: Any = None
    taken: bool = False
    """It says of a name that is hidden that it is taken."""
    each: bool = False
    """It answers 200, with a result for each name."""
    misses: int = 404
    """What it answers where there is no such job; else 200, with nothing done."""


JOB, RUN, BULK = "/api/v1/jobs/{name}", "/api/v1/runs/{run}", "/api/v1/jobs/bulk"
CALLS: Final = {
    "put": Call(route="PUT /api/v1/jobs/{name}", path=JOB, role="editor", body={"spec": True}, taken=True),
    "save": Call(route="POST /job/save", path="/job/save", role="editor", form={"job": True}, taken=True),
    "check": Call(
        route="POST /api/v1/jobs/check", path="/api/v1/jobs/check", role="editor", body={"named": True}, taken=True
    ),
    "preview of a spread": Call(
        route="POST /api/v1/forecast/spread", path="/api/v1/forecast/spread", role="viewer", anything="viewer",
        body={"names": ["{name}"], "by": "minute"},
    ),
    "patch": Call(route="PATCH /api/v1/jobs/{name}", path=JOB, role="editor", body={"command": "echo changed"}),
    "delete": Call(route="DELETE /api/v1/jobs/{name}", path=JOB, role="editor", misses=200),
    "legacy delete": Call(
        route="POST /job/delete", path="/job/delete", role="editor", form={"name": "{name}"}, misses=200
    ),
    "pause": Call(
        route="POST /api/v1/jobs/{name}/pause", path=JOB + "/pause", role="operator", body={"reason": "now for another"}
    ),
    "resume": Call(route="POST /api/v1/jobs/{name}/resume", path=JOB + "/resume", role="operator"),
    "unblock": Call(
        route="POST /api/v1/jobs/{name}/unblock", path=JOB + "/unblock", role="admin", body={"force": True}
    ),
    "kill": Call(route="POST /api/v1/jobs/{name}/kill", path=JOB + "/kill", role="operator", misses=200),
    "legacy kill": Call(
        route="POST /job/kill", path="/job/kill", role="operator", form={"name": "{name}"}, misses=200
    ),
    "run": Call(route="POST /api/v1/jobs/{name}/run", path=JOB + "/run", role="operator"),
    "run with args": Call(
        route="POST /api/v1/jobs/{name}/run", path=JOB + "/run", role="editor", anything="operator",
        body={"args": ["--all"]},
    ),
    "run with env": Call(
        route="POST /api/v1/jobs/{name}/run", path=JOB + "/run", role="editor", anything="operator",
        body={"env": {"LD_PRELOAD": "/tmp/x.so"}},
    ),
    "restore": Call(
        route="POST /api/v1/jobs/{name}/versions/{revision}/restore", path=f"{JOB}/versions/{VERSION}/restore",
        role="editor",
    ),
    "kill of a run": Call(route="POST /api/v1/runs/{id}/kill", path=RUN + "/kill", role="operator"),
    "give-up": Call(
        route="POST /api/v1/runs/{id}/give-up", path=RUN + "/give-up", role="operator", body={"reason": "gone"}
    ),
    "silence": Call(
        route="POST /api/v1/silences", path="/api/v1/silences", role="operator", body={"jobs": ["{name}"], "hours": 1}
    ),
    "acknowledgement": Call(
        route="POST /api/v1/alerts/ack", path="/api/v1/alerts/ack", role="operator", body={"job": "{name}"}
    ),
    "end of a silence": Call(
        route="DELETE /api/v1/silences/{id}", path="/api/v1/silences/s-{name}", role="operator"
    ),
    **{
        f"bulk {action}": Call(
            route="POST /api/v1/jobs/bulk", path=BULK, role=role, anything="operator", each=True,
            body={"action": action, "names": ["{name}"], "reason": "now for another", **more},
        )
        for action, role, more in (
            ("pause", "operator", {}), ("resume", "operator", {}), ("delete", "editor", {}), ("kill", "operator", {}),
            ("run", "operator", {}), ("label", "editor", {"labels": {"tier": "0"}}),
        )
    },
}  # fmt: skip
EVERYWHERE: Final = {
    "POST /api/v1/workers/{name}/drain": "/api/v1/workers/w1/drain",
    "POST /api/v1/workers/{name}/undrain": "/api/v1/workers/w1/undrain",
    "DELETE /api/v1/workers/{name}": "/api/v1/workers/w9",
}
"""For administrators of everything."""
CHANGES_NO_JOB: Final = (
    "login",
    "logout",
    "password",
    "sessions",
    "tokens",
    "users",
    "services",
    "bindings",
    "schedule",
    "crontab",
    "channels",
    "rules",
    "notices",
)
"""Calls that touch no job that is there, no run and no worker."""


def allowed(call: Call, role: str, reach: str, target: str) -> bool:
    """The rule: the role on the labels of the job, all from one binding."""
    return target in REACHES[reach] and RANK[role] >= RANK[call.role]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(etcd_server: EtcdServer, log_store: LogStore) -> AsyncIterator[World]:
    """One for all tests that leave it as it was."""
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, auth="required") as manager:
        yield await world_of(manager, place)


@pytest_asyncio.fixture(loop_scope="module")
async def world(place: Place) -> AsyncIterator[World]:
    async with managing(place, auth="required") as manager:
        yield await world_of(manager, place)


@pytest.fixture(autouse=True)
def _nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody carries out what is asked for here."""
    for seconds in ("_END_S", "_VERDICT_S"):
        monkeypatch.setattr(f"manager.api.runs.{seconds}", 0.01)


async def test_every_call_that_changes_something_stands_in_the_matrix(kept: World) -> None:
    found = {f"{method} {path}" for method, path in inventory(kept.manager.http.app) if method not in ("GET", "HEAD")}
    others = {one for one in found if one.startswith(tuple(f"{m} /api/v1/{word}" for m in (
        "POST", "PATCH", "DELETE", "PUT") for word in CHANGES_NO_JOB))}  # fmt: skip
    assert found - others == {call.route for call in CALLS.values()} | EVERYWHERE.keys()


async def made(world: World, call: Call, headers: dict[str, str], name: str, labels: dict[str, str]) -> tuple[int, str]:
    """The call, on the job of this name; a spec that it saves has these labels."""
    spec = job(name, labels, command="echo anew", env={})
    body, form = call.body, call.form
    if body == {"spec": True}:
        body = {key: value for key, value in spec.items() if key != "name"}
    elif body == {"named": True}:
        body = spec
    elif body is not None:
        body = json.loads(json.dumps(body).replace("{name}", name))
    if form is not None:
        form = {"job": json.dumps(spec)} if "job" in form else {"name": name}
    # A run that has ended answers at once; whoever may not end it must not learn that either.
    run = RunId.planned(name, PLAN_MS, 2)
    path = call.path.format(name=name, run=quoted(run))
    return await world.call(headers, call.route.split()[0], path, body, form=form)


@pytest.mark.parametrize("title", CALLS)
async def test_change_is_for_who_has_its_role_on_the_very_job(title: str, kept: World) -> None:
    call = CALLS[title]
    before = await kept.manager.stored()
    for (role, reach), headers in kept.callers.items():
        for target, labels in TARGETS.items():
            where = f"{title} of {target} by {role or 'nobody'} on {reach}"
            own = OURS if reach == "own" else labels
            status, text = await made(kept, call, headers, target, own)
            if allowed(call, role, reach, target):
                assert status in (200, 201, 202), (where, text)
                assert not call.each or json.loads(text)["results"][0]["ok"], (where, text)
                await kept.put_back(before)
                before = await kept.manager.stored()
                continue
            assert await kept.manager.stored() == before, where
            is_let_in = RANK[role] >= RANK[call.anything or call.role] and reach != "empty"
            if target in REACHES[reach] or not is_let_in or call.taken:
                refused = json.loads(text)["results"][0]["ok"] is False if is_let_in and call.each else status == 403
                assert refused, (where, status, text)
            else:
                missing = await made(kept, call, headers, "absent", own)
                assert (status, text.replace(target, "absent")) == missing, where
                assert status == (200 if call.each else call.misses), (where, text)
                assert await kept.manager.stored() == before, where
            if target not in REACHES[reach]:
                assert not [word for word in SECRETS if word in text], (where, text)


@pytest.mark.parametrize("route", EVERYWHERE)
async def test_workers_are_for_who_administers_everything(route: str, world: World) -> None:
    before = await world.manager.stored()
    for (role, reach), headers in world.callers.items():
        status, text = await world.call(headers, route.split()[0], EVERYWHERE[route])
        if (role, reach) == ("admin", "all"):
            assert status == (404 if route.startswith("DELETE") else 200), text
            await world.put_back(before)
            before = await world.manager.stored()
        else:
            assert status == 403, (role, reach, text)
            assert await world.manager.stored() == before


@pytest.mark.parametrize("title", CALLS)
async def test_stranger_changes_nothing(title: str, kept: World) -> None:
    before = await kept.manager.stored()
    status, _ = await made(kept, CALLS[title], {}, "ours", OURS)
    assert status == 401
    assert await kept.manager.stored() == before


@pytest.mark.parametrize("via", [Via.TOKEN, Via.SESSION, Via.SOCKET, Via.PROXY, Via.OWNER])
async def test_rights_are_the_same_by_whichever_way_somebody_is_known(via: Via, world: World) -> None:
    headers = {"X-Test": "yes"}
    match via:
        case Via.TOKEN:
            headers = world.callers["editor", "own"]
        case Via.SESSION:
            headers = (await world.access.session("user:editor-own")).headers
        case _:
            subject = "uid:1000" if via is Via.SOCKET else "user:editor-own"
            if via is Via.SOCKET:
                await world.access.bind(subject, Role.EDITOR, labels={"team": ["ours"]})

            async def way(request: web.Request) -> Identity | None:
                known = frozenset({Subject.parse(subject)})
                return Identity(name="x", subjects=known, via=via) if "X-Test" in request.headers else None

            access = world.manager.parts.access
            access.ways = (way, *access.ways)
    status, text = await world.call(headers, "PATCH", "/api/v1/jobs/ours", {"command": "echo changed"})
    assert status == 200, text
    before = await world.manager.stored()
    status, text = await world.call(headers, "PATCH", "/api/v1/jobs/theirs", {"command": "echo changed"})
    if via is Via.OWNER:
        assert status == 200, text
    else:
        assert status == 404, text
        assert await world.manager.stored() == before


async def test_run_that_is_going_is_ended_by_its_operator(world: World) -> None:
    path = f"/api/v1/runs/{quoted(run_of('ours'))}/kill"
    assert (await world.call(world.callers["viewer", "own"], "POST", path))[0] == 403
    status, text = await world.call(world.callers["operator", "own"], "POST", path)
    assert (status, json.loads(text)["outcome"]) == (200, "pending")
    assert await world.manager.etcd.get(world.manager.keys.kill(run_of("ours"))) is not None


async def test_bad_input_is_answered_alike_for_a_hidden_job_and_for_none(world: World) -> None:
    """An attack: whichever mistake is found first would tell whether the job is there."""
    headers = world.callers["editor", "own"]
    calls: list[tuple[str, str, object]] = [
        ("PUT", "", {"cronExpr": "nonsense"}), ("PATCH", "", {"cronExpr": "nonsense"}), ("PATCH", "", {"name": "x"}),
        ("POST", "/pause", {"reason": 5}), ("POST", "/resume", {"reason": 5}), ("POST", "/kill", {"reason": 5}),
        ("POST", "/run", {"args": 5}), ("POST", "/run", {"at": "2020-01-01T00:00:00Z"}),
        ("POST", f"/versions/{VERSION}/restore", {"reason": 5}), ("POST", "/versions/x/restore", None),
    ]  # fmt: skip
    before = await world.manager.stored()
    for method, path, body in calls:
        answers = []
        for name in ("theirs", "absent"):
            status, text = await world.call(headers, method, f"/api/v1/jobs/{name}{path}", body)
            answers.append((status, text.replace("theirs", "absent")))
        assert answers[0] == answers[1], (method, path, body)
        assert answers[0][0] >= 400
    assert await world.manager.stored() == before


@pytest.mark.parametrize("match", ['"1"', '"0"', "*"])
async def test_if_match_tells_nothing_of_a_hidden_job(match: str, world: World) -> None:
    headers = world.callers["editor", "own"] | {"If-Match": match}
    for method, body in (("PATCH", {"command": "true"}), ("DELETE", None)):
        answers = []
        for name in ("theirs", "absent"):
            status, text = await world.call(headers, method, f"/api/v1/jobs/{name}", body)
            answers.append((status, text.replace("theirs", "absent")))
        assert answers[0] == answers[1], (method, match)
    fields = {key: value for key, value in job("theirs", OURS).items() if key != "name"}
    status, text = await world.call(headers, "PUT", "/api/v1/jobs/theirs", fields)
    assert status == 403, text
    assert "taken" in text
    assert not [word for word in (*SECRETS, "revision") if word in text]


async def test_masked_value_is_refused_with_a_remedy_and_never_stored(world: World) -> None:
    masked = {key: value for key, value in job("ours", OURS, env={"KEY": "***"}).items() if key != "name"}
    headers, before = world.callers["editor", "own"], await world.manager.stored()
    for method, path, body in (
        ("PUT", "/api/v1/jobs/ours", masked), ("PATCH", "/api/v1/jobs/ours", {"env": {"KEY": "***"}}),
        ("PUT", "/api/v1/jobs/new", masked),
    ):  # fmt: skip
        status, text = await world.call(headers, method, path, body)
        assert status == 400, text
        assert json.loads(text)["errors"][0]["field"] == "env.KEY"
        assert "PATCH" in json.loads(text)["errors"][0]["remedy"]
    assert await world.manager.stored() == before
    assert (await world.call(headers, "PATCH", "/api/v1/jobs/ours", {"command": "echo new"}))[0] == 200
    _, text = await world.call(headers, "GET", "/api/v1/jobs/ours")
    assert '"KEY":"plain"' in text


async def test_broken_job_is_for_who_administers_everything(world: World) -> None:
    await world.manager.etcd.put(world.manager.keys.job("broken"), b"payroll")
    before = await world.manager.stored()
    for name in (("editor", "own"), ("editor", "all"), ("admin", "own")):
        status, text = await world.call(world.callers[name], "DELETE", "/api/v1/jobs/broken")
        assert (status, json.loads(text)["deleted"]) == (200, False)
        fields = {key: value for key, value in job("broken", OURS).items() if key != "name"}
        assert (await world.call(world.callers[name], "PUT", "/api/v1/jobs/broken", fields))[0] == 403
    assert await world.manager.stored() == before
    status, text = await world.call(world.callers["admin", "all"], "DELETE", "/api/v1/jobs/broken")
    assert (status, json.loads(text)["deleted"]) == (200, True)


async def test_preview_touches_no_job(world: World) -> None:
    before = await world.manager.stored()
    body = {"cronExpr": "@daily", "name": "theirs"}
    answers = [await world.call(world.callers["viewer", who], "POST", "/api/v1/schedule/preview", body)
               for who in ("own", "all")]  # fmt: skip
    assert answers[0] == answers[1]
    assert await world.manager.stored() == before
    assert THEIRS["team"] not in answers[0][1]
