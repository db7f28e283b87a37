"""Which forecast is given again, while jobs change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from common.access.rights import OWNER, Grant, Rights, Role
from common.access.selectors import EVERYTHING, Selector
from common.etcd import Change
from common.protocol.keys import Keys
from common.protocol.txn import KeyValue
from manager.views.forecasts import Forecasts
from manager.watch.catalog import Catalog, JobQuery
from tests.support.access import ChangingCaller
from tests.support.fake_clock import FakeClock

KEYS = Keys("/test")
HOUR_MS = 3_600_000


def save(catalog: Catalog, name: str, team: str = "a") -> None:
    document = {
        "name": name, "command": "true", "cronExpr": "@hourly", "timezone": "UTC", "anchorMs": 1,
        "labels": {"team": team},
    }  # fmt: skip
    value = json.dumps(document).encode()
    kv = KeyValue(key=KEYS.job(name), value=value, create_revision=1, mod_revision=1, version=1, lease=0)
    catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])


async def test_job_that_is_saved_while_the_log_store_is_asked_is_in_the_next_forecast() -> None:
    catalog = Catalog(KEYS, on_changed=lambda name, labels: None)
    save(catalog, "a")

    async def ready() -> None:
        pass

    async def results(names: Sequence[str]) -> dict[str, Any]:
        save(catalog, "b")
        return {}

    watching: Any = SimpleNamespace(catalog=catalog, members=(), ready=ready)
    history: Any = SimpleNamespace(results=results)
    forecasts = Forecasts(watching, history, clock=FakeClock())
    span = (JobQuery(), OWNER, HOUR_MS, 2 * HOUR_MS)
    assert (await forecasts.of(*span)).jobs == 1
    assert (await forecasts.of(*span)).jobs == 2
    assert [one.job.name for one in await forecasts.crowd(*span)] == ["a", "b"]


def of_teams(*teams: str) -> Rights:
    labels = Selector.of({"team": teams})
    return Rights((Grant(role=Role.VIEWER, labels=labels, run_as=None, workers=EVERYTHING),))


async def test_rights_that_one_caller_gets_meanwhile_are_not_in_what_others_are_given() -> None:
    catalog, alice = Catalog(KEYS, on_changed=lambda name, labels: None), ChangingCaller(of_teams("a"))
    save(catalog, "ours")
    save(catalog, "theirs", team="b")
    reached = list[str]()

    async def ready() -> None:
        if reached:  # what she is given will be kept for whoever has the rights that she came with
            alice.rights = of_teams("a", "b")
        reached.append("ready")

    async def results(names: Sequence[str]) -> dict[str, Any]:
        return {}

    watching: Any = SimpleNamespace(catalog=catalog, members=(), ready=ready)
    history: Any = SimpleNamespace(results=results)
    forecasts = Forecasts(watching, history, clock=FakeClock())
    before, _ = await forecasts.spread({}, await alice.posts(), HOUR_MS, 2 * HOUR_MS)
    assert before.jobs == 1
    assert (await forecasts.of(JobQuery(), of_teams("a"), HOUR_MS, 2 * HOUR_MS)).jobs == 1
