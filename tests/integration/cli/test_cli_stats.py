"""`etcron stats` and `etcron forecast` against a real manager, and their help."""

from __future__ import annotations

import pytest

from cli.times import local
from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.integration.cli.conftest import Etcron
from tests.support.counting import count_records
from tests.support.joining import join
from tests.support.managing import Managed
from tests.support.open_runs import now_ms, record_of

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_MS = 86_400_000


async def test_days_that_had_something_and_their_total(etcron: Etcron, manager: Managed) -> None:
    today_ms = now_ms() // DAY_MS * DAY_MS
    await manager.write([
        record_of(RunId("a", "r-1"), plan_ms=today_ms, end_ms=today_ms + 90_002),
        record_of(RunId("a", "r-2"), Verdict.FAILED, plan_ms=today_ms - 3 * DAY_MS),
        record_of(RunId("b", "r-3"), Verdict.MISSED, plan_ms=today_ms, count=7),
    ])  # fmt: skip
    await count_records(manager.runlog)
    heads, today, before, total = (await etcron.ok("stats")).out.splitlines()
    assert heads.split()[:4] == ["DAY", "RUNS", "SUCCESS", "FAILED"]
    assert today.split()[1:] == ["1", "1", "0", "0", "0", "0", "0", "7", "1", "min", "30", "s", "1", "min", "30", "s"]
    assert before.split()[1:] == ["1", "0", "1", "0", "0", "0", "0", "0", "0.0", "s", "0.0", "s"]
    assert total.split()[:3] == ["total", "2", "1"]
    assert len((await etcron.ok("stats", "a", "--days", "2")).out.splitlines()) == 2
    for option in (["--json"], ["-o", "json"]):
        document = (await etcron.ok("stats", "b", *option)).json
        assert (document["job"], document["total"]["missed"], len(document["items"])) == ("b", 7, 30)


async def test_nothing_and_nobody(etcron: Etcron) -> None:
    nothing = await etcron.ok("stats")
    assert (nothing.out, nothing.err) == ("", "no runs; those of the last minute are not counted yet\n")
    unknown = await etcron("stats", "nobody")
    assert (unknown.status, "there is no job nobody" in unknown.err) == (3, True)
    assert (await etcron("stats", "--days", "401")).status == 2


async def test_forecast_tells_the_hours_and_the_fullest_minutes_with_their_jobs(
    etcron: Etcron, manager: Managed
) -> None:
    hour_ms = 3_600_000
    at = (now_ms() // hour_ms + 2) * hour_ms + 20 * 60_000
    hour, minute = at // hour_ms % 24, at // 60_000 % 60
    for name in ("a", "b", "c", "d"):
        await etcron.ok("job", "save", name, "--command", "x", "--cron", f"{minute} {hour} * * *", "--set", "slots=2")
    await etcron.ok("job", "save", "often", "--command", "x", "--every", "20m")
    told = (await etcron.ok("forecast", "--json")).json
    fullest, *others = told["crowded"]
    assert (fullest["time"], fullest["fires"] >= 4, fullest["jobCount"] >= 4, len(others)) == (at, True, True, 4)
    assert [one["name"] for one in fullest["jobs"]][:4] == ["a", "b", "c", "d"]
    assert {one["waitMs"] for one in told["items"]} == {None}
    hours = {one["time"]: (one["fires"], one["slots"]) for one in told["items"]}
    assert (len(hours), hours[at - 20 * 60_000]) == (25, (7, max(one["slots"] for one in told["items"])))

    shown = await etcron.ok("forecast", "--minutes", "1", "--hours", "4", "--label", "none=such")
    assert (len(shown.out.splitlines()), shown.err) == (6, "nothing fires\n")
    table = (await etcron.ok("forecast", "--minutes", "1")).out.splitlines()
    assert (table[0].split(), len(table)) == (["HOUR", "FIRES", "SLOTS", "OF", "0", "WAIT"], 1 + 25 + 1 + 2)
    await join(manager, "w1", slots=2)
    shown = await etcron.ok("forecast", "--minutes", "1")
    table = shown.out.splitlines()
    assert ["up to 3.0 s" in line or "up to 4.0 s" in line for line in table if local(at - 20 * 60_000) in line] == [
        True
    ]
    assert "a, b, c and" in table[-1]
    assert table[-1].startswith(local(at))
    assert (await etcron("forecast", "--hours", "25")).status == 2
