"""What the handlers work with, under one typed key of the application; who a caller is; how JSON is spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2
from aiohttp import web

from common.clock import Clock
from common.configuration.config import ManagerConfig
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.runlog import RunLog
from manager.background.housekeeping import Housekeeping
from manager.background.presence import Presence
from manager.background.versions import Versions
from manager.calls.callers import ADDRESS
from manager.calls.idempotency import IdempotentCalls
from manager.cluster.clock_guard import ClockGuard
from manager.cluster.health import Health
from manager.editing.drains import DrainService
from manager.editing.inventory import Inventory
from manager.editing.service import JobService
from manager.editing.unblock import Unblocking
from manager.json_text import dumps
from manager.runs.ending import EndingRuns
from manager.runs.fires import Fires
from manager.runs.give_ups import GiveUpService
from manager.runs.history import History
from manager.runs.kills import KillService
from manager.runs.pending import Pending
from manager.runs.rows import Rows
from manager.runs.run_list import RunLists
from manager.runs.run_now import RunNow
from manager.watching.events import EventHub
from manager.watching.watching import Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The manager's parts, made once the application starts."""

    etcd: EtcdClient
    keys: Keys
    runlog: RunLog
    service: JobService
    unblocking: Unblocking
    kills: KillService
    give_ups: GiveUpService
    ending: EndingRuns
    run_now: RunNow
    calls: IdempotentCalls
    clock_guard: ClockGuard
    drains: DrainService
    inventory: Inventory
    watching: Watching
    rows: Rows
    run_lists: RunLists
    fires: Fires
    events: EventHub
    history: History
    pending: Pending
    health: Health
    housekeeping: Housekeeping
    versions: Versions
    presence: Presence
    templates: jinja2.Environment
    static: Path
    clock: Clock
    config: ManagerConfig
    name: str
    """Of this manager, as its beat has it."""
    read_timeout_s: float
    write_timeout_s: float
    notes: tuple[str, ...] = ()
    """What everybody who looks at the page should know, e.g. that there is no login."""


PARTS: Final = web.AppKey("parts", Parts)


def answer(document: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A success in compact JSON, as the legacy API spells it."""
    response = web.Response(text=dumps(document), status=status, content_type="application/json", headers=headers)
    response.enable_compression()  # where the client takes it: a page of jobs is a tenth of its size then
    return response


def caller(request: web.Request) -> str:
    """Who asks, until there is a login: ``console <address>`` for a browser, ``api <address>`` for anything else."""
    browser = "Sec-Fetch-Site" in request.headers or "Origin" in request.headers
    return f"{'console' if browser else 'api'} {request[ADDRESS]}"
