"""What a request says goes with its run: arguments, who asked, whom to avoid; and what may take its place."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.jobs.reader import parse_job
from common.protocol.keys import RunId, Watched, encode_mark
from common.protocol.kill import Kill
from common.protocol.request import Origin, Request, scope_of
from common.protocol.request_writes import RequestClaim
from common.protocol.run import Trigger
from common.protocol.txn import KeyValue, Put, Txn
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from tests.support.working import NEVER, Place, World, working
from worker.admission import Admission, Reason

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_MS = 86_400_000


def now_ms() -> int:
    return SystemClock().wall_ms()


def request(job: KeyValue, fire: str | None = None, **changes: Any) -> Request:
    """A run of the job `job` that somebody asks for now."""
    plan_ms = changes.pop("plan_ms", now_ms())
    values: dict[str, Any] = {
        "run_id": RunId("job", fire or f"r-{plan_ms}"), "origin": Origin.RUN_NOW, "trigger": Trigger.API,
        "job_create_revision": job.create_revision, "plan_ms": plan_ms, "dispatch_ms": plan_ms,
        "not_before_ms": plan_ms, "by": "somebody", "create_ms": plan_ms,
    }  # fmt: skip
    return Request(**(values | changes))


async def put(world: World, *requests: Request) -> None:
    puts = [Put(one.key(world.keys), one.to_json()) for one in requests]
    await world.etcd.txn(Txn([], [*puts, Put(world.keys.seen(Watched.REQUESTS), b"")]))


def retry(job: KeyValue, mark_ms: int, **changes: Any) -> Request:
    """The second attempt of a fire after which the mark stood there."""
    plan_ms = mark_ms
    return request(
        job, run_id=RunId.planned("job", plan_ms, 2), origin=Origin.RETRY, trigger=Trigger.RETRY, plan_ms=plan_ms,
        mark_ms=mark_ms, not_before_ms=now_ms(), **changes,
    )  # fmt: skip


async def test_its_arguments_and_its_environment_reach_the_command_and_the_record(place: Place, world: World) -> None:
    job = await world.save(command="echo $WHAT $0 $*", env={"WHAT": "job's", "OTHER": "1"})
    asked = request(job, args=("a  b", "c"), env={"WHAT": "run's"}, note="a reason")
    await put(world, asked)
    async with working(place) as worker:
        await worker.deciding()
        record = await world.record(asked.run_id)
    assert record["output"] == "run's etcron a  b c\n".replace("  ", " ")
    assert record["command"] == "echo $WHAT $0 $* 'a  b' c"
    assert (record["trigger"], record["by"], record["note"]) == ("api", "somebody", "a reason")
    assert record["createTime"] == asked.create_ms < record["claimTime"]


async def test_a_program_gets_them_after_its_own_and_no_shell_between(place: Place, world: World) -> None:
    job = await world.save(command=["printf", "%s|", "own"])
    asked = request(job, args=("$HOME", ""))
    await put(world, asked)
    async with working(place) as worker:
        await worker.deciding()
        record = await world.record(asked.run_id)
    assert record["output"] == "own|$HOME||"
    assert record["command"] == "printf '%s|' own '$HOME' ''"


@pytest.mark.parametrize("origin", [Origin.RUN_NOW, Origin.CHAIN])
async def test_what_is_handed_on_keeps_all_that_was_asked(
    place: Place, world: World, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.save(command="echo $WHAT $*")
    run_id = RunId.planned("job", now_ms()) if origin is Origin.CHAIN else RunId("job", "r-1")
    asked = request(
        job, run_id=run_id, origin=origin, args=("a",), env={"WHAT": "x"}, note="why", avoid="w9",
        plan_ms=run_id.plan_ms or now_ms(),
    )  # fmt: skip
    async with working(place, "w1") as one:
        await one.deciding()
        monkeypatch.setattr(Admission, "starts_claimed", False)
        one.parts.admission.set(Reason.SPOOL, "not yet")
        await put(world, asked)
        before = await world.etcd.get(asked.key(world.keys))
        assert before is not None
        one.parts.admission.set(Reason.SPOOL, None)
        one.parts.admission.announced()
        one.parts.requests.wake()

        async def handed_on() -> bool:
            kv = await world.etcd.get(asked.key(world.keys))
            return kv is not None and kv.create_revision != before.create_revision

        await wait_until(handed_on, description="it is handed on")
        one.parts.admission.set(Reason.SPOOL, "not again")

        async def left() -> bool:
            return not one.agent._claims and await world.has(asked.key(world.keys))

        await wait_until(left, description="it is left to others")
        kv = await world.etcd.get(asked.key(world.keys))
        assert kv is not None
        given = Request.from_json(kv.value, run_id=run_id)
        assert given.origin is (Origin.CHAIN if origin is Origin.CHAIN else Origin.HANDED_ON)
        told = ("args", "env", "note", "by", "create_ms", "trigger", "avoid", "expires_ms", "plan_ms")
        assert {name: getattr(given, name) for name in told} == {name: getattr(asked, name) for name in told}
        await one.agent.spool_refuses("not this one")
        monkeypatch.undo()
        async with working(place, "w2") as other:
            await other.deciding()
            record = await world.record(run_id)
        assert (record["worker"], record["output"], record["createTime"]) == ("w2", "x a\n", asked.create_ms)


async def test_what_has_no_expiry_starts_however_long_it_waited(place: Place, world: World) -> None:
    job = await world.save(misfire={"policy": "latest", "graceSeconds": 1, "windowSeconds": 1})
    asked = request(job, plan_ms=now_ms() - 2 * DAY_MS)
    await put(world, asked)
    async with working(place) as worker:
        await worker.deciding()
        assert (await world.record(asked.run_id))["status"] == "success"


async def test_a_paused_job_runs_for_a_user_only(place: Place, world: World) -> None:
    job = await world.save(enabled=False)
    asked = request(job)
    scheduled = request(job, run_id=RunId.planned("job", 5), origin=Origin.OFFERED, trigger=Trigger.SCHEDULE, plan_ms=5)
    await put(world, asked, scheduled)
    async with working(place) as worker:
        await worker.deciding()
        assert (await world.record(asked.run_id))["status"] == "success"
        record = await world.record(scheduled.run_id)
    assert (record["status"], record["reason"]) == ("skipped", "paused")


async def test_where_slots_are_scarce_the_more_urgent_job_goes_first(
    place: Place, world: World, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence"
    command = f"echo $ETCRON_JOB >> {evidence}"
    jobs = {name: await world.save(name, command, priority=urgency) for name, urgency in (("low", 0), ("high", 5))}
    async with working(place, slots=1) as worker:
        await worker.deciding()
        worker.parts.table.running_slots += 1  # its only slot is taken
        start_ms = now_ms()
        asked = [
            request(jobs[name], run_id=RunId(name, f"r-{number}"), plan_ms=start_ms + number)
            for number, name in enumerate(["low", "low", "high"])
        ]
        await put(world, *asked)
        by_job = worker.parts.requests.by_job
        await wait_until(lambda: len(by_job) == 2 and now_ms() > start_ms + 3, description="they are seen, and due")
        worker.parts.table.running_slots -= 1
        worker.agent.slot_free()
        for one in asked:
            await world.record(one.run_id)
    assert evidence.read_text().split() == ["high", "low", "low"]


# Whom to avoid


async def two_deciding(stack: AsyncExitStack, place: Place, **changes: Any) -> None:
    workers = [await stack.enter_async_context(working(place, name, **changes)) for name in ("w1", "w2")]
    for worker in workers:
        await worker.deciding()
        members = worker.parts.members
        await wait_until(lambda members=members: len(members.accepting()) == 2, description="both are ranked")  # type: ignore[misc]


async def test_another_worker_takes_what_is_to_avoid_one(place: Place, world: World) -> None:
    job = await world.save(overlap="allow")
    async with AsyncExitStack() as stack:
        await two_deciding(stack, place)
        asked = [request(job, f"r-{number}", avoid="w1") for number in range(8)]
        await put(world, *asked)
        assert {(await world.record(one.run_id))["worker"] for one in asked} == {"w2"}


async def test_a_workers_own_sequence_is_run_by_that_worker(place: Place, world: World) -> None:
    job = await world.save(broadcast=True)
    async with AsyncExitStack() as stack:
        await two_deciding(stack, place)
        asked = [request(job, run_id=RunId(f"job~{name}", f"r-{n}")) for name in ("w1", "w2") for n in range(4)]
        await put(world, *asked)
        ran = {one.run_id.job: (await world.record(one.run_id))["worker"] for one in asked}
        assert ran == {"job~w1": "w1", "job~w2": "w2"}


@pytest.mark.parametrize(
    "now",
    [
        {"user": "nobody"},
        {"labels": {"team": "b"}},
        {"workers": {"zone": ["eu"]}},
        {"workers": {"zone": ["us"]}},
        {"timeoutSeconds": 60},
    ],
)
async def test_attack_code_that_was_chosen_for_a_job_waits_until_the_job_runs_as_somebody_else(
    place: Place, world: World, now: dict[str, Any]
) -> None:
    """An editor asks for a run in an hour with a variable, and the job is given to another user meanwhile.

    What is judged for a save is compared, and nothing else: a job that is edited otherwise runs it.
    """
    spec = parse_job({"name": "job", "command": "echo $WHAT", "cronExpr": NEVER, "labels": {"team": "a"}})
    job = await world.save(command="echo $WHAT", labels={"team": "a"})
    asked = request(job, env={"WHAT": "theirs"}, scope=scope_of(spec))
    await put(world, asked)
    await world.save(**{"command": "echo $WHAT", "labels": {"team": "a"}, **now})
    async with working(place, labels={"zone": "eu"}) as worker:
        await worker.deciding()
        record = await world.record(asked.run_id)
    if "timeoutSeconds" in now:
        assert record["output"] == "theirs\n"
    else:
        assert (record["status"], record["reason"], record.get("output", "")) == ("skipped", "job changed", "")
        assert "the job has another user, other labels or other workers since; ask for it again" in record["err"]


# What takes its place


async def test_a_retry_that_a_newer_fire_has_overtaken_is_skipped(place: Place, world: World, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    hour_ms = now_ms() // 3_600_000 * 3_600_000
    job = await world.save(command=f"echo x >> {evidence}", cron="0 0 * * * * *", mark_ms=hour_ms - 7_200_000)
    await world.etcd.put(world.keys.mark("job"), encode_mark(hour_ms))
    asked = retry(job, hour_ms - 3_600_000)
    await put(world, asked)
    async with working(place) as worker:
        await worker.deciding()
        record = await world.record(asked.run_id)
    assert (record["status"], record["reason"]) == ("skipped", "overlap: a newer fire was decided")
    assert not evidence.exists()


@pytest.mark.parametrize("how", ["nothing newer", "allow", "edited since"])
async def test_a_retry_that_nothing_has_overtaken_runs(place: Place, world: World, how: str) -> None:
    hour_ms = now_ms() // 3_600_000 * 3_600_000
    fields = {"overlap": "allow"} if how == "allow" else {}
    anchor_ms = hour_ms if how == "edited since" else hour_ms - 7_200_000
    job = await world.save(cron="0 0 * * * * *", mark_ms=anchor_ms, **fields)
    await world.etcd.put(world.keys.mark("job"), encode_mark(hour_ms))
    asked = retry(job, hour_ms if how == "nothing newer" else hour_ms - 3_600_000)
    await put(world, asked)
    async with working(place) as worker:
        await worker.deciding()
        assert (await world.record(asked.run_id))["status"] == "success"


async def test_a_mark_that_moves_between_the_look_and_the_claim_is_noticed(
    place: Place, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = tmp_path / "evidence"
    hour_ms = now_ms() // 3_600_000 * 3_600_000
    job = await world.save(
        command=f"echo $ETCRON_ATTEMPT >> {evidence}", cron="0 0 * * * * *", mark_ms=hour_ms - 7_200_000
    )
    await world.etcd.put(world.keys.mark("job"), encode_mark(hour_ms - 3_600_000))
    asked = retry(job, hour_ms - 3_600_000)
    async with working(place) as worker:
        await worker.deciding()
        client, moved = worker.parts.locks._client, False
        txn = client.txn

        async def late(transaction: Txn) -> Any:
            nonlocal moved
            if not moved and any(getattr(one, "key", "") == world.keys.run(asked.run_id) for one in transaction.then):
                moved = True
                await world.etcd.put(world.keys.mark("job"), encode_mark(hour_ms))
            return await txn(transaction)

        monkeypatch.setattr(client, "txn", late)
        await put(world, asked)
        record = await world.record(asked.run_id)
    assert moved
    assert record["status"] == "skipped"
    assert not evidence.exists() or "2" not in evidence.read_text()


async def test_a_kill_that_comes_with_it_is_no_race(place: Place, world: World, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    job = await world.save(command=f"echo x >> {evidence}", overlap="allow")
    async with working(place) as worker:
        await worker.deciding()
        worker.parts.kills.by_run.clear()
        asked = [request(job, f"r-{number}") for number in range(10)]
        keys = world.keys
        for one in asked:  # the watch on the requests may be ahead of that on the kills: etcd itself has to refuse
            kill = Kill(run_id=one.run_id, by="me", at_ms=now_ms())
            puts = [Put(keys.kill(one.run_id), kill.to_json()), Put(one.key(keys), one.to_json())]
            await world.etcd.txn(Txn([], puts))
        assert {(await world.record(one.run_id))["reason"] for one in asked} == {"before start"}
    assert not evidence.exists()


async def test_a_claim_in_doubt_that_meets_a_lock_takes_no_slot(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = await world.save(), await world.save("other")
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")
    async with Proxy(place.etcd) as proxy, working(place, etcd=proxy.endpoint, slots=1, lease_ttl_s=10) as worker:
        await worker.deciding()
        claim = RequestClaim.transaction

        def cutting(self: RequestClaim) -> Any:
            if not proxy.cuts and self.request.run_id.job == "job":
                proxy.set(Mode.CUT_REPLY)
            return claim(self)

        monkeypatch.setattr(RequestClaim, "transaction", cutting)
        blocked = request(job, "r-blocked")
        await put(world, blocked)
        queue = worker.parts.requests
        await wait_until(lambda: proxy.cuts == 1, description="the answer was cut")
        await wait_until(lambda: worker.parts.table.claiming_slots == 0, description="it takes no slot")
        assert queue.claims_in_flight == 1
        free = request(other, run_id=RunId("other", "r-free"))
        await put(world, free)
        assert (await world.record(free.run_id))["status"] == "success"
        assert queue.claims_in_flight == 1
        await world.etcd.delete(world.keys.lock("job"))
        assert (await world.record(blocked.run_id))["status"] == "success"
        assert queue.claims_in_flight == 0
