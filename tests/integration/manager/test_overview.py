"""Whether all is well, through the API: counts, what needs attention, what runs, and whether anything fires."""

from __future__ import annotations

from typing import Any

import pytest

from common.access.rights import Role
from common.notices.forms import Stored
from common.notices.silences import SILENCE, Silence
from common.protocol.drain import Drain
from common.protocol.keys import RunId, encode_mark
from common.protocol.member import Beat
from common.protocol.roster import Left, RosterEntry
from common.verdicts import Verdict
from manager.api.overview import MOST_GROUPS, MOST_OF_A_GROUP
from manager.watch.events import Pace
from tests.support.access import Accessing
from tests.support.event_stream import listening
from tests.support.joining import join
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.waiting import wait_until

SPEC = {"command": "true", "cronExpr": "0 0 0 1 1 * 2199"}
MINUTE_MS = 60_000


async def fail(manager: Managed, job: str, *, ago: int = 1, **changes: Any) -> RunId:
    """Its record, planned so many minutes ago."""
    run = RunId.planned(job, now_ms() - ago * MINUTE_MS)
    status = changes.pop("status", Verdict.FAILED)
    values = {"exit_code": 1, "err": "exit status 1", "output": "first\nno such file\n\n"} | changes
    await manager.write([record_of(run, status, **values)])
    return run


async def overview(manager: Managed) -> dict[str, Any]:
    found: dict[str, Any] = await manager.get("/api/v1/overview")
    return found


async def test_a_fresh_installation_has_nothing_to_tell(manager: Managed) -> None:
    found = await overview(manager)
    assert found["jobs"] == {"total": 0, "paused": 0, "broken": 0, "failing": 0, "late": 0}
    assert (found["running"], found["longest"], found["attention"]["groups"]) == (0, [], [])
    assert (found["workers"]["taking"], found["workers"]["total"]) == (0, 0)


async def test_jobs_that_fail_alike_stand_together_with_the_last_line_of_the_newest(manager: Managed) -> None:
    for name in ("a", "b", "gone", "c", "well"):
        await manager.call("PUT", f"/api/v1/jobs/{name}", SPEC)
    await manager.write([record_of(RunId.planned("a", now_ms() - 9 * MINUTE_MS))])
    first = await fail(manager, "a", ago=8)
    await fail(manager, "a", ago=3)
    newest = await fail(manager, "b", ago=2, output="what\nfailed here\n::progress 40%\n")
    await fail(manager, "gone", ago=1)
    missed = {"exit_code": None, "err": "", "output": "", "reason": "late: by 3 s"}
    await fail(manager, "c", ago=5, status=Verdict.MISSED, **missed)
    await manager.write([record_of(RunId.planned("well", now_ms() - MINUTE_MS))])
    await manager.call("DELETE", "/api/v1/jobs/gone")

    found = await overview(manager)
    assert (found["jobs"]["total"], found["jobs"]["failing"], found["attention"]["lookedAt"]) == (4, 3, 3)
    failed, late = found["attention"]["groups"]
    assert (failed["status"], failed["exitCode"], failed["count"], failed["names"]) == ("failed", 1, 2, ["b", "a"])
    assert (failed["sinceTime"], failed["lastLine"], failed["jobs"][0]["runId"]) == (
        first.plan_ms, "failed here", str(newest),
    )  # fmt: skip
    assert (late["status"], late["exitCode"], late["reason"], late["lastLine"]) == ("missed", None, "late", None)


async def test_lists_are_bounded_and_counts_are_not(manager: Managed) -> None:
    for number in range(MOST_GROUPS + 3):
        name = f"alone-{number:02}"
        await manager.call("PUT", f"/api/v1/jobs/{name}", SPEC)
        await fail(manager, name, exit_code=2 + number)
    for number in range(MOST_OF_A_GROUP + 2):
        name = f"alike-{number:02}"
        await manager.call("PUT", f"/api/v1/jobs/{name}", SPEC)
        await fail(manager, name)
        await claim(manager, name, now_ms() - number * 1000 - 1000)
    runs = manager.parts.watching.open_runs
    await wait_until(lambda: len(runs) == MOST_OF_A_GROUP + 2, description="the open runs are seen")

    found = await overview(manager)
    groups = found["attention"]["groups"]
    assert (len(groups), found["attention"]["moreGroups"]) == (MOST_GROUPS, 4)
    assert (groups[0]["count"], len(groups[0]["jobs"]), len(groups[0]["names"])) == (12, MOST_OF_A_GROUP, 12)
    assert (found["running"], len(found["longest"])) == (12, 10)
    assert found["longest"][0]["jobName"] == "alike-11"


async def test_a_run_that_goes_has_how_long_it_usually_takes(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/a", SPEC)
    for ago in (5, 4, 3):
        plan_ms = now_ms() - ago * MINUTE_MS
        await manager.write([record_of(RunId.planned("a", plan_ms), start_ms=plan_ms, end_ms=plan_ms + 12_000)])
    run = await claim(manager, "a", now_ms() - 1000)
    await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the open run is seen")
    (row,) = (await overview(manager))["longest"]
    assert (row["id"], row["state"], row["usualMs"], row["worker"]) == (str(run), "running", 12_000, "w1")


async def test_a_silenced_job_says_until_when(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/a", SPEC)
    await fail(manager, "a")
    until_ms = now_ms() + 60 * MINUTE_MS
    silence = Silence(jobs=("a",), from_ms=now_ms(), until_ms=until_ms)
    await manager.etcd.put(manager.keys.silence("1"), SILENCE.to_json(Stored(record=silence)))
    known = manager.parts.watching.notices.silences
    await wait_until(lambda: "1" in known, description="the silence is seen")
    assert (await overview(manager))["attention"]["groups"][0]["jobs"][0]["silencedUntil"] == until_ms


async def test_workers_that_take_fires_are_counted_among_those_that_are_here_or_gone(manager: Managed) -> None:
    beat = Beat(kind="worker", wall_ms=now_ms(), waiting=2)
    await join(manager, "w1", beat=beat)
    await join(manager, "w2", not_accepting="disk full")
    await join(manager, "w3")
    await manager.etcd.put(manager.keys.drain("w3"), Drain(by="ada", since_ms=1).to_json())
    for name, left in (("w4", Left.GONE), ("w5", Left.STOPPED)):
        entry = RosterEntry(worker=name, host="h", seen_ms=7, left=left)
        await manager.etcd.put(manager.keys.roster_entry(name), entry.to_json())
    found = await overview(manager)
    workers = found["workers"]
    assert (workers["taking"], workers["total"], workers["drained"]) == (1, 4, 1)
    assert (workers["gone"], workers["refusing"]) == ([{"name": "w4", "seenMs": 7}], ["w2"])
    assert found["jobs"]["late"] == 2


async def test_jobs_that_are_due_while_no_worker_takes_fires_are_late(place: Place) -> None:
    async with managing(place, auth="required") as guarded:
        access = Accessing(guarded)
        admin = await access.user("ada", Role.ADMIN)
        olive = await access.user("olive", Role.VIEWER, labels={"team": ["ours"]})
        every_second = {"command": "true", "cronExpr": "* * * * * * *"}
        saved: dict[str, dict[str, Any]] = {
            "due": every_second | {"labels": {"team": "ours"}}, "due-too": every_second, "later": SPEC,
            "paused": every_second | {"enabled": False}, "nobody-owes-it": every_second | {"broadcast": True},
        }  # fmt: skip
        for name, spec in saved.items():
            await guarded.call("PUT", f"/api/v1/jobs/{name}", spec, **admin)

        async def late(headers: dict[str, str]) -> int | None:
            async with guarded.http.get("/api/v1/overview", headers=headers) as answer:
                count: int | None = (await answer.json())["jobs"]["late"]
                return count

        async def comes_to(count: int) -> None:
            async def is_it() -> bool:
                return await late(admin) == count

            await wait_until(is_it, description=f"{count} are late")

        await guarded.etcd.put(guarded.keys.drain("w1"), Drain(by="ada", since_ms=now_ms()).to_json())
        await join(guarded, "w1", not_accepting="drained by ada", beat=Beat(kind="worker", wall_ms=now_ms(), waiting=0))
        await guarded.get("/readyz", verbose="")
        await comes_to(2)
        assert await late(olive) == 1
        await guarded.call("DELETE", "/api/v1/jobs/due-too", {}, **admin)
        await comes_to(1)
        await join(guarded, "w2")
        await guarded.get("/readyz", verbose="")
        assert await late(admin) == 0


async def test_jobs_that_are_due_and_that_no_worker_may_take_are_late_until_their_fires_are_decided(
    manager: Managed,
) -> None:
    await join(manager, "w1", beat=Beat(kind="worker", wall_ms=now_ms(), waiting=1))
    every_second = {"command": "true", "cronExpr": "* * * * * * *"}
    nobody = every_second | {"workers": {"gpu": ["a100"]}}
    saved: dict[str, dict[str, Any]] = {
        "due": nobody | {"misfire": {"policy": "skip", "graceSeconds": 3}}, "somebody-takes-it": every_second,
        "paused": nobody | {"enabled": False}, "nobody-owes-it": nobody | {"broadcast": True},
        "later": SPEC | {"slots": 1000},
    }  # fmt: skip
    for name, spec in saved.items():
        await manager.call("PUT", f"/api/v1/jobs/{name}", spec)

    async def late() -> int:
        count: int = (await overview(manager))["jobs"]["late"]
        return count

    async def comes_to(count: int) -> None:
        async def is_it() -> bool:
            return await late() == count

        await wait_until(is_it, description=f"{count} are late")

    await comes_to(2)
    await manager.etcd.put(manager.keys.mark("due"), encode_mark(now_ms() + MINUTE_MS))
    await comes_to(1)


async def test_who_sees_one_team_counts_its_jobs_alone(place: Place) -> None:
    async with managing(place, auth="required") as guarded:
        access = Accessing(guarded)
        admin = await access.user("ada", Role.ADMIN)
        olive = await access.user("olive", Role.VIEWER, labels={"team": ["ours"]})
        for name, team, enabled in (("a", "ours", True), ("b", "ours", False), ("c", "theirs", True)):
            spec = SPEC | {"labels": {"team": team}, "enabled": enabled}
            await guarded.call("PUT", f"/api/v1/jobs/{name}", spec, **admin)
            await fail(guarded, name, labels={"team": team})

        async def seen() -> dict[str, Any]:
            async with guarded.http.get("/api/v1/overview", headers=olive) as answer:
                found: dict[str, Any] = await answer.json()
                return found

        jobs = (await seen())["jobs"]
        assert jobs == {"total": 2, "paused": 1, "broken": 0, "failing": 2, "late": None}
        await guarded.call("PUT", "/api/v1/jobs/b", SPEC | {"labels": {"team": "ours"}}, **admin)
        await guarded.call("PUT", "/api/v1/jobs/a", SPEC | {"labels": {"team": "theirs"}}, **admin)
        jobs = (await seen())["jobs"]
        assert (jobs["total"], jobs["paused"]) == (1, 0)


async def test_the_log_store_that_is_away_leaves_out_what_it_knows(place: Place) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:1", prefix=place.prefix, database=place.database)
    async with managing(away) as manager:
        await manager.call("PUT", "/api/v1/jobs/a", SPEC)
        found = await overview(manager)
    assert (found["jobs"]["total"], found["jobs"]["failing"], found["attention"]) == (1, None, None)


@pytest.mark.parametrize(
    ("drained", "left", "state", "since_ms"),
    [((), {}, "none", None), ((), {"w9": 70}, "none", 70), (("w1",), {"w9": 70}, "drained", 50)],
)
async def test_nothing_fires_and_since_when_is_told(
    place: Place, drained: tuple[str, ...], left: dict[str, int], state: str, since_ms: int | None
) -> None:
    async with managing(place) as manager:
        for name in drained:
            await manager.etcd.put(manager.keys.drain(name), Drain(by="ada", since_ms=50).to_json())
            await join(manager, name, not_accepting="drained by ada")
        for name, seen_ms in left.items():
            entry = RosterEntry(worker=name, host="h", seen_ms=seen_ms, left=Left.GONE)
            await manager.etcd.put(manager.keys.roster_entry(name), entry.to_json())
        ready = await manager.get("/readyz", verbose="")
        assert (ready["checks"]["fires"]["state"], ready["checks"]["fires"]["sinceMs"]) == (state, since_ms)
        await join(manager, "w2")
        ready = await manager.get("/readyz", verbose="")
        assert ready["checks"]["fires"] == {"state": "ok", "sinceMs": None, "why": None}
        assert (await overview(manager))["fires"]["state"] == "ok"


async def test_every_page_hears_how_many_jobs_fail(place: Place) -> None:
    quick = Pace(gather_s=0.02, spacing_s=0.02, heartbeat_s=60, look_s=0.02, failing_s=0.02)
    async with managing(place, pace=quick) as manager:
        await manager.call("PUT", "/api/v1/jobs/a", SPEC)
        async with listening(manager) as stream:
            assert (await stream.until("failing")).data == {"count": 0}
            run = await claim(manager, "a", now_ms())
            await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the open run is seen")
            await manager.write([record_of(run, Verdict.FAILED)])
            await manager.etcd.delete(manager.keys.run(run))
            assert (await stream.until("failing")).data == {"count": 1}
        async with listening(manager) as stream:
            assert (await stream.until("failing")).data == {"count": 1}
