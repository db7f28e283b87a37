"""How many slots are shown as used in the span of a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from common.access.rights import OWNER
from common.protocol.keys import Keys, RunId
from common.protocol.run import Trigger
from manager.views.timelines import LaneBy, Timelines, Window
from manager.watch.catalog import Catalog, JobQuery
from manager.watch.open_runs import OpenRun
from tests.support.fake_clock import FakeClock

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 1_000 * HOUR_MS
HALF_MS: Final = HOUR_MS // 2


def going(start_ms: int) -> OpenRun:
    return OpenRun(
        run_id=RunId.planned("j", start_ms), plan_ms=start_ms, dispatch_ms=start_ms, claim_ms=start_ms, worker="w1",
        trigger=Trigger.SCHEDULE,
    )  # fmt: skip


def record(start_ms: int, end_ms: int) -> Mapping[str, Any]:
    run = RunId.planned("j", start_ms)
    return {
        "_id": str(run), "jobName": "j", "status": "success", "planTime": start_ms, "startTime": start_ms,
        "endTime": end_ms,
    }  # fmt: skip


async def used(from_ms: int, to_ms: int) -> list[int]:
    """Where one run has ended half an hour ago, and another goes on."""

    async def spans(*_: object, **options: object) -> tuple[list[Mapping[str, Any]], bool]:
        return [record(NOW_MS - HOUR_MS, NOW_MS - HALF_MS)], False

    async def ready() -> None:
        pass

    catalog = Catalog(Keys("/test"), on_changed=lambda name, labels: None)
    open_runs = [going(NOW_MS - 2 * HOUR_MS)]
    watching: Any = SimpleNamespace(catalog=catalog, open_runs=open_runs, ready=ready, warnings=[])
    history: Any = SimpleNamespace(is_away=False, spans=spans)
    inventory: Any = None
    timelines = Timelines(watching, history, inventory, clock=FakeClock(NOW_MS))
    found = await timelines.of(
        LaneBy.LABEL, JobQuery(), OWNER, Window(from_ms=from_ms, to_ms=to_ms, now_ms=NOW_MS), label="team", cursor=None,
        limit=10,
    )  # fmt: skip
    return [slots for _, slots in found.used]


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "most"),
    [
        (NOW_MS - 3 * HOUR_MS, NOW_MS + HOUR_MS, 2), (NOW_MS - HALF_MS + 1, NOW_MS, 1), (NOW_MS, NOW_MS + HOUR_MS, 1),
        (NOW_MS + 1, NOW_MS + HOUR_MS, 0), (NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS, 0),
        (NOW_MS - 3 * HOUR_MS, NOW_MS - 2 * HOUR_MS, 0),
    ],
    ids=["all of it", "behind the end", "from now on", "to come", "an hour from now", "before the start"],
)  # fmt: skip
async def test_slots_are_used_where_a_run_held_them(from_ms: int, to_ms: int, most: int) -> None:
    assert max(await used(from_ms, to_ms), default=0) == most
