"""Known ways to change what one may not: each test is named for what the attacker tries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from common.access.rights import Grant, Rights, Role
from common.access.selectors import EVERYTHING, Selector
from common.clock import SystemClock
from common.errors import ForbiddenError, NotFoundError
from common.etcd import EtcdClient
from common.jobs.reader import parse_job
from common.protocol.keys import RunId
from common.protocol.txn import Txn, TxnResult
from common.timings import Timings
from manager.use_cases.jobs import Changed, JobService
from tests.integration.manager.access.changing import (
    OURS,
    PLAN_MS,
    REACHED,
    SECRETS,
    THEIRS,
    World,
    job,
    quoted,
    run_of,
    world_of,
)  # fmt: skip
from tests.support.access import token_id
from tests.support.managing import Place, managing
from tests.support.open_runs import record_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOBS = "/api/v1/jobs"


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with managing(place, auth="required") as manager:
        yield await world_of(manager, place)


def body(name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in job(name, labels, **fields).items() if key != "name"}


async def refused(
    world: World, headers: dict[str, str], method: str, path: str, sent: object, *, status: int, says: str = ""
) -> None:
    """The call fails, changes nothing, and tells nothing of the other team."""
    before = await world.manager.stored()
    answered, text = await world.call(headers, method, path, sent)
    assert (answered, says in text) == (status, True), text
    assert not [word for word in SECRETS if word in text], text
    assert await world.manager.stored() == before


async def test_attack_run_of_another_team_is_killed_or_given_up_by_its_guessed_id(world: World) -> None:
    headers = world.callers["admin", "own"]
    recorded = RunId.planned("theirs", 5)
    await world.manager.write([record_of(recorded, labels=THEIRS)])
    absent = RunId.planned("theirs", 12_345)
    for what, sent in (("kill", None), ("give-up", {"reason": "x"})):
        for run in (run_of("theirs"), RunId.planned("theirs", PLAN_MS, 2), recorded, absent):
            path = f"/api/v1/runs/{quoted(run)}/{what}"
            await refused(world, headers, "POST", path, sent, status=404, says=f"no run {run}: it never was")


async def test_attack_job_gets_a_label_that_secrets_of_others_go_by(world: World) -> None:
    """A worker gives a secret to jobs with zone=vault, and an editor of team=ours adds that label to their own job."""
    headers = world.callers["editor", "own"]
    sent = body("ours", {**OURS, "zone": "vault"})
    status, _ = await world.call(headers, "PUT", f"{JOBS}/ours", sent)
    assert status == 200, "no editor is bound by it: it is nobody's"
    await world.access.bind("group:vault", Role.EDITOR, labels={"zone": ["vault"]})
    for name in ("ours", "new"):
        other = body(name, {**OURS, "zone": "cellar"})
        await refused(world, headers, "PUT", f"{JOBS}/{name}", other, status=403, says="the label zone=cellar")
    form = {"job": json.dumps({"name": "new", "command": "true", "cronExpr": "@yearly", "labels": sent["labels"]})}
    status, text = await world.call(headers, "POST", "/job/save", form=form)
    assert "the label zone=vault" in text, (status, text)
    status, text = await world.call(headers, "PUT", f"{JOBS}/ours", {**sent, "command": "false"})
    assert status == 200, f"it has the label already: {text}"


async def test_attack_changes_that_wait_for_their_turn_are_made_by_a_right_that_was_taken_away(world: World) -> None:
    """Whoever fears to be thrown out has a hundred of them on the way."""
    headers = await world.access.user("mallory")
    binding = await world.access.bind("user:mallory", Role.EDITOR, labels=REACHED["own"])
    key = world.manager.keys.job("ours")
    first = await world.manager.etcd.get(key)

    async def put_until_refused(number: int) -> int:
        status, count = 200, 0
        while status == 200:
            sent = body("ours", OURS, command=f"echo {number} {count}")
            status, count = (await world.call(headers, "PUT", f"{JOBS}/ours", sent))[0], count + 1
        return status

    puts = [asyncio.create_task(put_until_refused(number)) for number in range(30)]

    async def is_made() -> bool:
        now = await world.manager.etcd.get(key)
        return first is not None and now is not None and now.version > first.version

    await wait_until(is_made, description="the first is made")
    await world.access.delete(world.access.keys.binding(binding))
    then = await world.manager.etcd.get(key)
    assert {await one for one in puts} == {403}
    now = await world.manager.etcd.get(key)
    assert then is not None
    assert now is not None
    assert now.version - then.version <= 1  # the one that etcd had already been asked for


async def test_attack_call_on_many_goes_on_by_a_token_that_was_revoked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = await world.access.user("mallory", Role.EDITOR, labels=REACHED["own"])
    names = [f"ours-{number}" for number in range(300)]
    for name in names:
        await world.save(name, OURS)
    parts, keys, etcd = world.manager.parts, world.manager.keys, world.manager.etcd
    token, sent, revoked, txn = token_id(headers), list[Txn](), asyncio.Event(), parts.etcd.txn

    async def waits_after_some(transaction: Txn) -> TxnResult:
        sent.append(transaction)
        if len(sent) > 20:
            await revoked.wait()
        return await txn(transaction)

    monkeypatch.setattr(parts.etcd, "txn", waits_after_some)
    call = asyncio.create_task(world.call(headers, "POST", f"{JOBS}/bulk", {"action": "delete", "names": names}))
    await wait_until(lambda: len(sent) > 20, description="some are deleted, and others on their way")
    await world.access.delete(world.access.keys.token(token))
    await wait_until(lambda: token not in parts.directory.tokens, description="the manager knows it")
    left = await etcd.count(keys.job("ours-"))
    revoked.set()
    status, said = await call
    assert status == 200
    assert left < len(names)
    assert left - await etcd.count(keys.job("ours-")) <= 16  # those that were on their way
    assert said.count("there was no job") > 100


async def test_attack_version_with_another_user_is_restored(world: World) -> None:
    headers = await world.access.user("mallory", Role.EDITOR, labels={"team": ["ours"]}, run_as=["@worker"])
    await world.version("ours", OURS, revision=8, user="root")
    await refused(world, headers, "POST", f"{JOBS}/ours/versions/8/restore", None, status=403, says="root")
    status, text = await world.call(headers, "POST", f"{JOBS}/ours/versions/7/restore")
    assert status == 200, text


async def test_attack_version_for_workers_out_of_reach_is_restored(world: World) -> None:
    headers = await world.access.user(
        "mallory", Role.EDITOR, labels={"team": ["ours"]}, workers={"zone": ["eu"]}
    )  # fmt: skip
    await world.version("ours", OURS, revision=8, workers={"zone": ["us"]})
    await refused(world, headers, "POST", f"{JOBS}/ours/versions/8/restore", None, status=403, says="zone=eu")


async def test_attack_version_of_the_team_that_had_the_name_is_restored(world: World) -> None:
    await world.version("ours", THEIRS, revision=8)
    headers = world.callers["admin", "own"]
    await refused(world, headers, "POST", f"{JOBS}/ours/versions/8/restore", None, status=404, says="no version 8")


async def test_attack_job_of_others_is_stolen_by_relabelling_it(world: World) -> None:
    headers = world.callers["admin", "own"]
    await refused(
        world, headers, "PATCH", f"{JOBS}/theirs", {"labels": OURS}, status=404, says="there is no job theirs"
    )
    await refused(world, headers, "PUT", f"{JOBS}/theirs", body("theirs", OURS), status=403, says="taken")
    sees = await world.access.user("reader", Role.EDITOR, labels={"team": ["ours"]})
    await world.access.bind("user:reader", Role.VIEWER)
    before = await world.manager.stored()
    status, text = await world.call(sees, "PUT", f"{JOBS}/theirs", body("theirs", OURS))
    assert (status, "as it is now" in text) == (403, True), text
    assert await world.manager.stored() == before


async def test_attack_own_job_is_hidden_under_the_labels_of_others(world: World) -> None:
    headers = world.callers["admin", "own"]
    for labels in ({"team": "sales"}, {"team": None}, None):
        await refused(world, headers, "PATCH", f"{JOBS}/ours", {"labels": labels}, status=403, says="team=ours")
    await refused(world, headers, "PUT", f"{JOBS}/new", body("new", {}), status=403, says="team=ours")


async def test_attack_role_of_one_binding_is_joined_with_the_user_of_another(world: World) -> None:
    headers = await world.access.user("mallory", Role.EDITOR, labels={"team": ["ours"]}, run_as=["@worker"])
    await world.access.bind("user:mallory", Role.EDITOR, labels={"team": ["sales"]}, run_as=["root"])
    await refused(world, headers, "PATCH", f"{JOBS}/ours", {"user": "root"}, status=403, says="root")


async def test_attack_others_jobs_are_applied_over_and_pruned(world: World) -> None:
    """`etcron apply --prune` saves with PUT, lists what there is, and deletes what is not in its files."""
    headers = world.callers["editor", "own"]
    await refused(world, headers, "PUT", f"{JOBS}/theirs", body("theirs", OURS), status=403, says="taken")
    _, text = await world.call(headers, "GET", JOBS)
    assert [row["name"] for row in json.loads(text)["items"]] == ["ours"]
    await refused(world, headers, "DELETE", f"{JOBS}/theirs", None, status=200, says='"deleted":false')
    await refused(world, headers, "DELETE", f"{JOBS}/bare", None, status=200, says='"deleted":false')


async def test_attack_operator_chooses_the_code_of_a_run_by_its_environment(world: World) -> None:
    headers = world.callers["operator", "own"]
    for sent in ({"env": {"LD_PRELOAD": "/tmp/x.so"}}, {"args": ["-c", "id"]}):
        await refused(world, headers, "POST", f"{JOBS}/ours/run", sent, status=403, says="editor")
    await world.save("wide", OURS, broadcast=True)
    for sent in ({"env": {"BASH_ENV": "/tmp/x"}}, {"args": ["x"]}):
        await refused(world, headers, "POST", f"{JOBS}/wide/run", sent, status=403, says="editor")
    assert (await world.call(headers, "POST", f"{JOBS}/wide/run", {}))[0] == 202


async def test_attack_editor_chooses_code_for_a_user_or_a_worker_that_they_have_no_right_to(world: World) -> None:
    """Another team has given the job its user and its workers: an editor who cannot save it so injects a variable."""
    headers = await world.access.user(
        "mallory", Role.EDITOR, labels={"team": ["ours"]}, run_as=["billing"], workers={"zone": ["eu"]}
    )  # fmt: skip
    await world.access.bind("user:mallory", Role.EDITOR, labels={"team": ["sales"]}, run_as=["root"])
    here, there = {"zone": ["eu"]}, {"zone": ["us"]}
    await world.save("as-root", OURS, user="root", workers=here)
    await world.save("abroad", OURS, user="billing", workers=there)
    await world.save("fitting", OURS, user="billing", workers=here)
    for name, says in (("as-root", "root"), ("abroad", "zone=eu")):
        for sent in ({"env": {"BASH_ENV": "/tmp/x"}}, {"args": ["x"]}):
            await refused(world, headers, "POST", f"{JOBS}/{name}/run", sent, status=403, says=says)
        assert (await world.call(headers, "POST", f"{JOBS}/{name}/run", {}))[0] == 202
    assert (await world.call(headers, "POST", f"{JOBS}/fitting/run", {"args": ["x"]}))[0] == 202


async def test_attack_dedupe_key_tells_the_run_of_another_team(world: World) -> None:
    sent = {"dedupeKey": "nightly"}
    assert (await world.call(world.callers["admin", "all"], "POST", f"{JOBS}/theirs/run", sent))[0] == 202
    await refused(
        world, world.callers["admin", "own"], "POST", f"{JOBS}/theirs/run", sent, status=404, says="no job theirs"
    )


async def test_attack_bulk_with_the_names_of_others(world: World) -> None:
    await world.save("ours", OURS, enabled=True)
    theirs = await world.manager.etcd.get(world.manager.keys.job("theirs"))
    sent = {"action": "pause", "names": ["theirs", "ours", "absent", "bare"]}
    status, text = await world.call(world.callers["operator", "own"], "POST", f"{JOBS}/bulk", sent)
    assert status == 200, text
    told = {one["name"]: (one["ok"], one["message"]) for one in json.loads(text)["results"]}
    assert told == {
        "ours": (True, "paused"), **{name: (False, f"there is no job {name}") for name in ("theirs", "absent", "bare")}
    }  # fmt: skip
    assert await world.manager.etcd.get(world.manager.keys.job("theirs")) == theirs


async def test_attack_runs_of_the_team_that_had_the_name_are_killed(world: World) -> None:
    """A job is deleted, and made anew by another team: what still runs was never theirs."""
    etcd, keys = world.manager.etcd, world.manager.keys
    at = await world.save("name", THEIRS)
    old_style, new_style = RunId.planned("name", PLAN_MS), RunId.planned("name", PLAN_MS, 2)
    await world.run(old_style, {}, revision=at)  # claimed by a worker that does not write labels
    await world.run(new_style, THEIRS, revision=at)
    await etcd.delete(keys.job("name"))
    await world.save("name", OURS)
    headers = world.callers["admin", "own"]
    await refused(world, headers, "POST", f"{JOBS}/name/kill", None, status=200, says="no run of name was going")
    for run in (old_style, new_style):
        await refused(world, headers, "POST", f"/api/v1/runs/{quoted(run)}/kill", None, status=404, says="never was")
    its_own = await world.access.user("paul", Role.OPERATOR, labels={"team": ["payroll"]})
    status, text = await world.call(its_own, "POST", f"{JOBS}/name/kill")
    assert (status, json.loads(text)["killed"]) == (200, [str(old_style), str(new_style)])


class Racing(EtcdClient):
    """etcd, in which another manager gives the job other labels just before each edit."""

    def __init__(self, world: World) -> None:
        super().__init__([world.etcd])
        self._world = world
        self.races = 0

    async def txn(self, txn: Txn) -> TxnResult:
        if txn.writes and not self.races:
            self.races += 1
            await self._world.save("ours", THEIRS)
        return await super().txn(txn)


OURS_RIGHTS = Rights((
    Grant(role=Role.ADMIN, labels=Selector.of({"team": ["ours"]}), run_as=None, workers=EVERYTHING),
))  # fmt: skip
SPEC = parse_job(job("ours", OURS, command="echo mine"))
RACES: dict[str, tuple[Callable[[JobService], Awaitable[object]], type[Exception] | None]] = {
    "pause": (lambda service: service.pause("ours", by="x", rights=OURS_RIGHTS), NotFoundError),
    "resume": (lambda service: service.resume("ours", by="x", rights=OURS_RIGHTS), NotFoundError),
    "change": (lambda service: service.change("ours", lambda _: SPEC, by="x", rights=OURS_RIGHTS), NotFoundError),
    "save": (lambda service: service.save(SPEC, by="x", rights=OURS_RIGHTS), ForbiddenError),
    "delete": (lambda service: service.delete("ours", by="x", rights=OURS_RIGHTS), None),
}
"""With what each is refused once the job is another team's; a delete finds none to delete."""


@pytest.mark.parametrize("change", RACES)
async def test_attack_job_is_relabelled_between_the_look_and_the_write(change: str, world: World) -> None:
    """The job's revision is compared, so a change that loses the race is judged anew."""
    await world.save("ours", OURS, enabled=change != "resume")
    call, refusal = RACES[change]
    async with Racing(world) as etcd:
        service = JobService(
            etcd, world.manager.keys, clock=SystemClock(), timings=Timings(), deliver=lambda _: None
        )  # fmt: skip
        if refusal is None:
            done = await call(service)
            assert isinstance(done, Changed)
            assert not done.changed
        else:
            with pytest.raises(refusal) as refused:
                await call(service)
            assert "payroll" not in str(refused.value)
        assert etcd.races == 1
    there = await world.manager.etcd.get(world.manager.keys.job("ours"))
    assert there is not None
    assert b"payroll" in there.value
