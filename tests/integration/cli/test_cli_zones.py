"""One rule for the zone of a job that names none: the managers' `defaultTimezone`, whichever way it is saved."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.cli.conftest import Etcron
from tests.support.managing import Managed, Place, managing

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

ZONE = "Asia/Tokyo"
JOB = {"command": "true", "cronExpr": "0 30 2 1 1 * 2090"}
CRON_JOB = {
    "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "ops"},
    "spec": {"schedule": "30 2 * * *", "jobTemplate": {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "x", "command": ["true"]}]}}}}},
}  # fmt: skip


@pytest.fixture
async def manager(place: Place) -> AsyncIterator[Managed]:
    async with managing(place, defaultTimezone=ZONE) as managed:
        yield managed


async def zone(manager: Managed, name: str) -> str:
    row = await manager.call("GET", f"/api/v1/jobs/{name}")
    return str(row["spec"]["timezone"])


async def test_every_way_to_save_a_job_gives_it_the_same_zone_and_says_so(
    manager: Managed, etcron: Etcron, write: Callable[[str, str], str]
) -> None:
    saved: dict[str, Any] = await manager.call("PUT", "/api/v1/jobs/api", JOB)
    assert saved["job"]["spec"]["timezone"] == ZONE
    assert (await manager.save(json.dumps({"name": "legacy", **JOB})))["timezone"] == ZONE
    preview = await manager.call("POST", "/api/v1/schedule/preview", {"cronExpr": JOB["cronExpr"]})
    assert preview["timezone"] == ZONE
    form = await (await manager.http.get("/jobs/new")).text()
    schema = re.search(r'id="job-schema">(.*?)</script>', form, re.DOTALL)
    assert schema is not None
    assert json.loads(schema[1])["properties"]["timezone"]["default"] == ZONE

    lines = await manager.call("POST", "/api/v1/crontab/preview", {"text": "30 2 1 1 * true\n"})
    assert lines["items"][0]["spec"]["timezone"] == ZONE

    told = await etcron.ok("job", "save", "cli", "--command", "true", "--cron", JOB["cronExpr"])
    assert f"time zone: {ZONE} (defaultTimezone of the managers" in told.err
    path = write("jobs.yaml", f"name: applied\ncommand: 'true'\ncronExpr: {JOB['cronExpr']}\n")
    assert f"times are those of {ZONE}" in (await etcron.ok("job", "apply", "-f", path)).err
    assert (await etcron.ok("job", "apply", "-f", path)).out == "1 unchanged\n"
    told = await etcron.ok("import", "kubernetes", "-", stdin=json.dumps(CRON_JOB))
    assert f"times are those of {ZONE}" in told.err
    for name in ("api", "legacy", "cli", "applied", "ops.nightly"):
        assert await zone(manager, name) == ZONE, name


async def test_a_zone_that_is_named_stays(manager: Managed, etcron: Etcron) -> None:
    told = await etcron.ok("job", "save", "named", "--command", "true", "--cron", JOB["cronExpr"], "--tz", "UTC")
    assert "time zone: UTC\n" in told.err
    await manager.call("PATCH", "/api/v1/jobs/named", {"command": "other"})
    assert await zone(manager, "named") == "UTC"
    await manager.call("PATCH", "/api/v1/jobs/named", {"timezone": None})
    assert await zone(manager, "named") == ZONE
    told = await etcron.ok("crontab", "import", "-", "--tz", "Europe/Berlin", stdin="30 2 1 1 * echo cron\n")
    name = next(word for word in told.out.split() if word.startswith("echo-cron"))
    assert await zone(manager, name) == "Europe/Berlin"


async def test_what_was_saved_before_there_was_another_default_stays_in_utc(place: Place, manager: Managed) -> None:
    async with managing(place) as earlier:
        await earlier.call("PUT", "/api/v1/jobs/old", JOB)
    assert await zone(manager, "old") == "UTC"
    row = await manager.call("GET", "/api/v1/jobs/old")
    await manager.call("PUT", "/api/v1/jobs/old", JOB)
    assert await zone(manager, "old") == ZONE
    await manager.call("POST", f"/api/v1/jobs/old/versions/{row['revision']}/restore", {})
    assert await zone(manager, "old") == "UTC", "a restore brings back when it fired"
    await manager.call("PATCH", "/api/v1/jobs/old", {"command": "other"})
    assert await zone(manager, "old") == "UTC"


async def test_a_check_reads_times_as_a_save_does(manager: Managed) -> None:
    job = {"name": "soon", "command": "true", "at": f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M}"}
    (error,) = (await manager.call("POST", "/api/v1/jobs/check", job))["errors"]
    assert (error["field"], "is past" in error["message"]) == ("at", True), "that was eight hours ago there"
