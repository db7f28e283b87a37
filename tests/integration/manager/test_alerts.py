"""Open alerts through the API: by themselves, and those of one cause together."""

from __future__ import annotations

from common.verdicts import EventKind
from tests.support.alerts import alert_of, open_alerts_are
from tests.support.managing import Managed
from tests.support.open_runs import now_ms


async def test_alerts_of_one_cause_are_together_and_it_is_counted_whom_nobody_is_told_of(manager: Managed) -> None:
    began = now_ms() - 3_600_000
    alike = [alert_of(f"alike-{number:02}", began + number, told=("ops",) * (number < 5)) for number in range(25)]
    await open_alerts_are(
        manager, *alike, alert_of("other", began, exit_code=127, err="exit status 127"),
        alert_of("late", began, kind=EventKind.MISSED, exit_code=None, err=None, reason="no worker: w3 is gone"),
    )  # fmt: skip
    told = await manager.get("/api/v1/alerts", group="cause")
    assert (told["open"], told["untold"], told["items"], told["nextCursor"]) == (27, 22, [], None)
    first, *others = told["groups"]
    assert (first["cause"], first["kind"], first["exitCode"], first["count"], first["times"]) == (
        "failed: exit status 3", "failed", 3, 25, 25
    )  # fmt: skip
    assert (first["sinceTime"], first["jobs"]) == (began, [f"alike-{number:02}" for number in reversed(range(25))])
    assert [one["job"] for one in first["items"]] == first["jobs"][:20]
    assert {one["cause"] for one in others} == {"failed: exit status 127", "missed: no worker"}

    page = await manager.get("/api/v1/alerts", group="cause", limit="1")
    rest = await manager.get("/api/v1/alerts", group="cause", cursor=page["nextCursor"])
    assert [one["cause"] for one in (*page["groups"], *rest["groups"])] == [one["cause"] for one in told["groups"]]
    alone = await manager.get("/api/v1/alerts", cause="missed: no worker")
    assert [one["job"] for one in alone["items"]] == ["late"]
