"""What the handlers work with, under one typed key of the application; who a caller is; how JSON is spelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import jinja2
from aiohttp import web

from common.access.rights import Rights
from common.clock import Clock
from common.configuration.config import ManagerConfig
from common.etcd import EtcdClient
from common.json_text import dumps
from common.protocol.keys import Keys
from common.runlog import RunLog
from manager.access.audit import Audit
from manager.access.cookies import Cookies
from manager.access.directory import Directory
from manager.access.guard import CALLER, Access
from manager.access.keep_alive import SessionKeepAlive
from manager.access.logins import Logins
from manager.access.passwords import Passwords
from manager.access.sessions import Sessions
from manager.access.tokens import Tokens
from manager.background.housekeeping import Housekeeping
from manager.background.presence import Presence
from manager.background.versions import Versions
from manager.cluster.clocks import ClockGuard
from manager.cluster.health import Health
from manager.cluster.unmet import Unmet
from manager.http.idempotency import IdempotentCalls
from manager.notices.notifier import Notifier
from manager.notices.sender import Sender
from manager.use_cases.access_records import AccessRecords
from manager.use_cases.accounts import AccountService
from manager.use_cases.bindings import BindingService
from manager.use_cases.channels import ChannelService
from manager.use_cases.drains import DrainService
from manager.use_cases.give_ups import GiveUpService
from manager.use_cases.jobs import JobService
from manager.use_cases.kills import KillService
from manager.use_cases.rules import RuleService
from manager.use_cases.run_now import RunNow
from manager.use_cases.silences import SilenceService
from manager.use_cases.unblock import Unblocking
from manager.views.alerts import AlertBoard
from manager.views.cached_read import CachedRead
from manager.views.cursors import SealedCursors
from manager.views.durations import Durations
from manager.views.ending import EndingRunsView
from manager.views.failing import FailingJobs
from manager.views.fires import Fires
from manager.views.forecasts import Forecasts
from manager.views.history import History
from manager.views.inventory import Fleet, Inventory
from manager.views.output import Outputs
from manager.views.pending import Pending
from manager.views.rows import Rows
from manager.views.run_list import RunLists
from manager.views.span_counts import SeenStatistics
from manager.views.timelines import Timelines
from manager.watch.events import EventHub
from manager.watch.tails import TailReader
from manager.watch.watching import Watching

if TYPE_CHECKING:
    from manager.access.oidc.login import OidcLogin


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The manager's parts, made once the application starts."""

    access: Access
    audit: Audit
    directory: Directory
    keep_alive: SessionKeepAlive
    access_records: AccessRecords
    accounts: AccountService
    bindings: BindingService
    passwords: Passwords
    cookies: Cookies
    sessions: Sessions
    logins: Logins
    oidc: OidcLogin | None
    """None: no login provider is configured."""
    tokens: Tokens
    etcd: EtcdClient
    keys: Keys
    runlog: RunLog
    jobs: JobService
    unblocking: Unblocking
    kills: KillService
    give_ups: GiveUpService
    ending: EndingRunsView
    failing: FailingJobs
    unmet: Unmet
    run_now: RunNow
    calls: IdempotentCalls
    clock_guard: ClockGuard
    channels: ChannelService
    rules: RuleService
    silences: SilenceService
    alerts: AlertBoard
    drains: DrainService
    inventory: Inventory
    fleet: CachedRead[Fleet]
    watching: Watching
    rows: Rows
    run_lists: RunLists
    fires: Fires
    durations: Durations
    tails: TailReader
    outputs: Outputs
    events: EventHub
    history: History
    cursors: SealedCursors
    pending: Pending
    statistics: SeenStatistics
    forecasts: Forecasts
    timelines: Timelines
    health: Health
    housekeeping: Housekeeping
    versions: Versions
    presence: Presence
    sender: Sender
    notifier: Notifier
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
    """Who asks, as records have it: their name, or ``console <address>`` or ``api <address>``."""
    return request[CALLER].name


def allowance_key(request: web.Request) -> str:
    """Whose share a call takes: one for each caller, whichever token or session the call comes with."""
    identity = request[CALLER].identity
    return caller(request) if identity is None or identity.subject is None else str(identity.subject)


def rights(request: web.Request) -> Rights:
    """What the caller may do."""
    return request[CALLER].rights


def while_allowed(request: web.Request, ended: Callable[[], None]) -> AbstractContextManager[None]:
    """Meanwhile, ``ended`` is called at once when the caller is not known any more, or may do other things."""
    identity = request[CALLER].identity
    return nullcontext() if identity is None else request.app[PARTS].directory.watched(identity, ended)


def cut(request: web.Request) -> None:
    """The connection ends here and now, whatever was still to be sent."""
    if request.transport is not None:
        request.transport.abort()
