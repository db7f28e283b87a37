"""Open alerts, as a notifier would have written them."""

from __future__ import annotations

from collections import defaultdict

from common.notices.alerts import Alert, Standing, key_of
from common.notices.events import Event
from common.runlog.alerts import Bucket, bucket_of
from common.verdicts import EventKind
from tests.support.managing import Managed


def alert_of(job: str, since_ms: int, *, told: tuple[str, ...] = (), **event: object) -> Alert:
    """An open one of a job; it has failed with exit status 3 unless ``event`` says otherwise."""
    values = {"kind": EventKind.FAILED, "exit_code": 3, "err": "exit status 3", "run": f"{job}@{since_ms}/1"} | event
    of = Event(job=job, at_ms=since_ms, order=str(since_ms), **values)  # type: ignore[arg-type]
    return Alert(event=of, since_ms=since_ms, told=dict.fromkeys(told, since_ms + 1_000))


async def open_alerts_are(manager: Managed, *alerts: Alert) -> None:
    """These and no others are open."""
    standings: defaultdict[int, dict[str, Standing]] = defaultdict(dict)
    for alert in alerts:
        key = key_of(alert.event)
        standings[bucket_of(key)][key] = Standing(alert=alert)
    assert await manager.runlog.alerts.write(
        {number: Bucket(standings=standings) for number, standings in standings.items()}, 1
    )
