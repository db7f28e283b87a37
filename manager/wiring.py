"""The manager's parts, made and put together: the one place that knows who is given what."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.access.rights import Rights
from common.clock import Clock
from common.configuration.config import ManagerConfig
from common.configuration.keys import redact_uri
from common.configuration.signatures import seal_of
from common.errors import UnavailableError
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.notices.channels import ChannelKind
from common.notices.rules import MOST_RULES, RULE, Rule
from common.notices.wanted import Wanted
from common.protocol.access_keys import AccessKeys
from common.protocol.account_edits import Ways
from common.protocol.keys import Keys, RunId
from common.protocol.member import Member
from common.protocol.roster import RosterEntry
from common.runlog import JobResults, RunLog
from manager.access.audit import Audit
from manager.access.cookies import Cookies
from manager.access.directory import Directory
from manager.access.guard import Access, Way
from manager.access.keep_alive import SessionKeepAlive
from manager.access.local import OwnerWay, SocketWay
from manager.access.logins import Logins
from manager.access.passwords import Passwords
from manager.access.proxy import proxy_way
from manager.access.recovery import recovery_shown
from manager.access.sessions import Sessions
from manager.access.tokens import Tokens
from manager.access.ways import CookieWay, TokenWay
from manager.background.housekeeping import Housekeeping
from manager.background.presence import Presence
from manager.background.versions import Versions
from manager.cluster.clocks import ClockGuard
from manager.cluster.health import Health
from manager.cluster.jobs_health import JobsReport, look_at_jobs
from manager.cluster.unmet import Unmet
from manager.console.pages import templates_in
from manager.http.allowances import Allowance
from manager.http.idempotency import IdempotentCalls
from manager.http.outgoing import Reach
from manager.http.peers import peer_uid
from manager.notices.command import Command
from manager.notices.email import Email
from manager.notices.notifier import Notifier
from manager.notices.rendering import Renderer
from manager.notices.sender import Sender
from manager.notices.system_events import SystemEvents
from manager.notices.ways import ChannelSecrets, Tls
from manager.notices.ways import Way as NoticeWay
from manager.notices.webhook import Hooks, Slack, Webhook
from manager.parts import Parts
from manager.use_cases.access_records import AccessRecords
from manager.use_cases.accounts import AccountService
from manager.use_cases.bindings import BindingService
from manager.use_cases.channels import ChannelService, NamedChannels
from manager.use_cases.drains import DrainService
from manager.use_cases.give_ups import GiveUpService
from manager.use_cases.jobs import JobService
from manager.use_cases.kills import KillService
from manager.use_cases.last_decided import LastDecided
from manager.use_cases.notice_records import KeptRecords
from manager.use_cases.records import Records
from manager.use_cases.rules import RuleService
from manager.use_cases.run_now import RunNow
from manager.use_cases.silences import SilenceService
from manager.use_cases.unblock import Unblocking
from manager.views.alerts import AlertBoard
from manager.views.cached_read import CachedRead
from manager.views.cursors import SealedCursors
from manager.views.durations import Durations
from manager.views.ending import EndingRunsView, shown
from manager.views.failing import FailingJobs
from manager.views.fires import Fires
from manager.views.forecasts import Forecasts
from manager.views.history import History
from manager.views.inventory import Inventory
from manager.views.orders import JobOrders
from manager.views.output import Outputs
from manager.views.pending import FreeSlots, Pending
from manager.views.rows import NO_RESULTS, Rows, seen_results
from manager.views.run_list import RunLists
from manager.views.shapes import healthy, running_views
from manager.views.span_counts import SeenStatistics
from manager.views.timelines import Timelines
from manager.watch.catalog import Catalog
from manager.watch.eligibility import Eligibility
from manager.watch.events import EventHub, Pace
from manager.watch.tails import TailReader
from manager.watch.watching import Watching

if TYPE_CHECKING:
    from manager.access.oidc.login import OidcLogin

# A share of apiWriteTimeout: what was repeated until then still leaves time to answer what is known.
_PATIENCE_SHARE = 0.5
_FLEET_S = 2.0
"""For so long workers are shown as they were read."""


def make_parts(
    config: ManagerConfig, etcd: EtcdClient, runlog: RunLog, webroot: Path, clock: Clock, pace: Pace
) -> Parts:
    """Everything that the handlers are given; nothing has been asked of a server yet."""
    keys, access_keys = Keys(config.key_prefix), AccessKeys(config.key_prefix)
    seal = seal_of(config)
    read_s, write_s = config.api_read_timeout_ms / 1000, config.api_write_timeout_ms / 1000
    patience_s = write_s * _PATIENCE_SHARE
    # Random: nothing is kept under this name, and two managers must never have the same.
    name = f"manager.{socket.gethostname()}.{secrets.token_hex(4)}"
    audit = Audit(config.audit_dir, etcd, access_keys, runlog, manager=name, clock=clock)
    housekeeping = Housekeeping(
        etcd,
        runlog,
        wanted=lambda: Wanted(watching.notices.rules.values()),
        spec_of=lambda name: _spec_of(watching.catalog, name),
        clock=clock,
    )
    versions = Versions(etcd, keys, runlog, deadline_s=patience_s)
    inventory = Inventory(etcd, keys)
    alerts = AlertBoard(runlog, clock, exists=lambda channel: watching.notices.has_channel(channel))
    guard = ClockGuard(etcd, keys, config, name=name, clock=clock, patience_s=write_s)
    health = Health(
        etcd,
        runlog,
        inventory,
        clock=clock,
        log_store=redact_uri(config.mongodb_uri),
        quota_bytes=config.etcd_quota_bytes,
        guard=guard,
        look_at_jobs=lambda members, away, rights: _look_at_jobs(watching, members, away, rights, clock),
        blocked=lambda rights: watching.blocked.until(rights),
        audit=lambda away: audit.problems(log_store_is_away=away),
        look_at_notices=lambda rights: _look_at_notices(alerts, rights, clock),
    )
    slots = FreeSlots(inventory, lambda: watching.members, standstill=lambda: health.standstill)
    pending = Pending(etcd, keys, clock=clock, members=lambda: watching.members, slots=slots)
    cursors = SealedCursors(etcd, access_keys.cursors)
    ending = EndingRunsView(inventory, oldest_ms=lambda: watching.open_runs.oldest_ms(clock.wall_ms()), clock=clock)
    history = History(
        runlog,
        pending,
        ending,
        versions,
        clock=clock,
        deadline_s=patience_s,
        cursors=cursors,
        labels_at=lambda job, revision: watching.labels_at(job, revision),
        command_at=lambda job, revision: watching.command_at(job, revision),
        is_away=lambda: health.log_store_away,
    )
    remembered = Allowance("calls that are remembered")
    directory = Directory(etcd, access_keys, clock=clock)
    watching, failing, events = _live(etcd, keys, history, ending, health, directory, name=name, clock=clock, pace=pace)
    orders = JobOrders(watching.catalog, history, cursors, clock=clock)
    watching.catalog.trust = None if seal is None else seal.trust
    kept = Records(etcd, clock=clock, patience_s=patience_s, known=watching.notices.has_reached)
    rules = KeptRecords[Rule](kept, RULE, keys.rules, what="rule", most=MOST_RULES)
    of_channels = ChannelSecrets(config.secrets_directory)
    channels = ChannelService(
        kept, keys, watching.catalog, rules, Reach.of(config.notice_networks), of_channels if config.notifier else None
    )
    jobs = JobService(
        etcd,
        keys,
        clock=clock,
        timings=config.timings,
        deliver=housekeeping.deliver,
        on_edited=versions.edited,
        workers=lambda: watching.members,
        jobs=lambda: len(watching.catalog),
        max_jobs=config.max_jobs,
        patience_s=patience_s,
        refuse_wrong_clock=guard.refuse,
        seal=seal,
        channels=NamedChannels(watching.notices, channels.kept),
    )
    run_now = RunNow(
        etcd,
        keys,
        clock=clock,
        patience_s=patience_s,
        remembered=remembered,
        workers_for=lambda spec: _takers(inventory, spec),
        refuse_wrong_clock=guard.refuse,
        seal=seal,
    )
    presence = Presence(
        etcd,
        keys,
        name=name,
        watch=guard.watch,
        clock=clock,
        ttl_s=config.lease_ttl_s,
        problem=lambda: notifier.problem,
    )
    tails = TailReader(
        etcd,
        keys,
        runlog.tails,
        watching.open_runs,
        name=name,
        session=lambda: presence.session,
        clock=clock,
    )
    templates = templates_in(webroot)
    forecasts = Forecasts(watching, history, clock=clock)
    keep_alive = SessionKeepAlive(etcd, clock=clock)
    cookies = Cookies(has_tls=config.tls_cert is not None, proxies=config.proxies)
    sessions = Sessions(etcd, access_keys, directory, clock=clock, patience_s=patience_s)
    passwords = Passwords()
    access_records = AccessRecords(
        etcd,
        access_keys,
        clock=clock,
        patience_s=patience_s,
        ways=Ways(
            provider=config.oidc_issuer is not None or config.proxy_user_header is not None,
            system=config.socket is not None,
        ),
        known=directory.has_reached,
    )
    sender = Sender(
        etcd,
        keys,
        runlog,
        presence,
        watching.notices,
        name=name,
        renderer=Renderer(templates, etcd, keys, runlog, clock=clock, public_url=config.public_url),
        ways=_ways_of_notices(config, of_channels, run_now, clock),
        is_clock_off=lambda: guard.fault is not None,
        clock=clock,
    )
    notifier = Notifier(
        etcd,
        keys,
        runlog,
        watching,
        presence,
        sender,
        SystemEvents(
            etcd,
            keys,
            inventory,
            fullness=lambda: health.fullness,
            members_away=lambda: health.members_away,
            name=name,
            watch=guard.watch,
            max_skew_ms=config.max_clock_skew_ms,
            clock=clock,
        ),
        name=name,
        heartbeat_url=config.heartbeat_url,
        clock=clock,
    )
    return Parts(
        access=Access(config.auth, _ways(config, directory, cookies, keep_alive), directory),
        directory=directory,
        keep_alive=keep_alive,
        audit=audit,
        access_records=access_records,
        accounts=AccountService(access_records),
        bindings=BindingService(access_records),
        passwords=passwords,
        cookies=cookies,
        sessions=sessions,
        oidc=_oidc(config, clock),
        logins=Logins(etcd, access_keys, directory, sessions, passwords, clock=clock),
        tokens=Tokens(
            etcd, access_keys, directory, clock=clock, patience_s=patience_s, refuse_wrong_clock=guard.refuse
        ),
        etcd=etcd,
        keys=keys,
        runlog=runlog,
        jobs=jobs,
        unblocking=Unblocking(
            etcd,
            keys,
            jobs,
            inventory,
            records=history,
            ahead_ms=config.max_clock_skew_ms + config.timings.claim_lead_ms,
            clock=clock,
            last_decided=LastDecided(etcd, keys, history).before,
        ),
        kills=KillService(etcd, keys, clock=clock, patience_s=patience_s, refuse_wrong_clock=guard.refuse, seal=seal),
        give_ups=GiveUpService(etcd, keys, ending, clock=clock, patience_s=patience_s, refuse_wrong_clock=guard.refuse),
        ending=ending,
        failing=failing,
        unmet=Unmet(watching, etcd, keys, clock=clock),
        run_now=run_now,
        calls=IdempotentCalls(
            etcd, keys, clock=clock, longest_s=read_s + write_s, patience_s=patience_s, remembered=remembered
        ),
        clock_guard=guard,
        channels=channels,
        rules=RuleService(rules, keys, watching.catalog),
        alerts=alerts,
        silences=SilenceService(kept, keys, watching.catalog, refuse_wrong_clock=guard.refuse),
        drains=DrainService(etcd, keys, clock=clock, patience_s=patience_s),
        inventory=inventory,
        fleet=CachedRead(inventory.fleet, clock, _FLEET_S),
        watching=watching,
        rows=Rows(watching, history, ending, orders, standstill=lambda: health.standstill, clock=clock),
        run_lists=RunLists(watching, history, ending, clock=clock),
        fires=Fires(etcd, keys, watching, history, versions, pending, slots, clock=clock),
        durations=Durations(history, versions),
        tails=tails,
        outputs=Outputs(history, tails, watching.open_runs, clock=clock),
        events=events,
        history=history,
        cursors=cursors,
        pending=pending,
        statistics=SeenStatistics(history, watching.catalog),
        forecasts=forecasts,
        timelines=Timelines(watching, history, inventory, clock=clock),
        health=health,
        housekeeping=housekeeping,
        versions=versions,
        presence=presence,
        sender=sender,
        notifier=notifier,
        templates=templates,
        static=(webroot / "static").resolve(),
        clock=clock,
        config=config,
        name=name,
        read_timeout_s=read_s,
        write_timeout_s=write_s,
        notes=config.notes,
    )


def _ways(config: ManagerConfig, directory: Directory, cookies: Cookies, keep_alive: SessionKeepAlive) -> Sequence[Way]:
    """In the order in which they are asked: the first that finds a credential of its kind decides."""
    proxy = proxy_way(config, groups_of=directory.subjects_of, uid_of=peer_uid)
    return (
        *((proxy,) if proxy is not None else ()),  # a call past the proxy is refused, whatever else it carries
        TokenWay(directory, config.auth),
        CookieWay(directory, cookies, used=keep_alive.used),
        SocketWay(proxy_uid=config.proxy_uid),
        *((OwnerWay(proxies=config.proxies),) if config.trust_owner else ()),
    )


def _spec_of(catalog: Catalog, name: str) -> JobSpec | None:
    job = catalog.get(name)
    return None if job is None or job.saved is None else job.saved.spec


def _ways_of_notices(
    config: ManagerConfig, of_channels: ChannelSecrets, run_now: RunNow, clock: Clock
) -> Mapping[ChannelKind, NoticeWay]:
    tls = Tls()
    hooks = Hooks(of_channels, tls, Reach.of(config.notice_networks))
    return {
        ChannelKind.EMAIL: Email(of_channels, tls), ChannelKind.WEBHOOK: Webhook(hooks, clock),
        ChannelKind.SLACK: Slack(hooks), ChannelKind.COMMAND: Command(run_now),
    }  # fmt: skip


def _oidc(config: ManagerConfig, clock: Clock) -> OidcLogin | None:
    """Loads what it needs (70 ms) only where a provider is configured."""
    if config.oidc_issuer is None or config.oidc_client_id is None:
        return None
    from manager.access.oidc.login import OidcLogin
    from manager.access.oidc.provider import Provider

    provider = Provider(
        config.oidc_issuer, config.oidc_client_id, secret_file=config.oidc_client_secret_file, ca=config.oidc_ca,
        clock=clock,
    )  # fmt: skip
    return OidcLogin(
        provider, scopes=config.oidc_scopes, name_claim=config.oidc_name_claim, groups_claim=config.oidc_groups_claim,
        clock=clock,
    )  # fmt: skip


async def _takers(inventory: Inventory, spec: JobSpec) -> Sequence[str]:
    """Each live worker that may take a fire of the job; the watch may not have seen one yet."""
    return Eligibility(spec, healthy(await inventory.live())).takers("").workers


async def _look_at_notices(alerts: AlertBoard, rights: Rights, clock: Clock) -> Sequence[str]:
    """Channels are for who may see everything."""
    return (await alerts.waiting()).problems(clock.wall_ms()) if rights.sees_all else ()


async def _look_at_jobs(
    watching: Watching, members: Sequence[Member], away: Iterable[RosterEntry], rights: Rights, clock: Clock
) -> JobsReport:
    """Nothing is known of them before they have been read, or while etcd is away."""
    if not watching.jobs_read.is_set() or watching.stale_since_ms is not None:
        return JobsReport()
    return await look_at_jobs(watching.catalog, members, away, rights, now_ms=clock.wall_ms())


def _live(
    etcd: EtcdClient,
    keys: Keys,
    history: History,
    ending: EndingRunsView,
    health: Health,
    directory: Directory,
    *,
    name: str,
    clock: Clock,
    pace: Pace,
) -> tuple[Watching, FailingJobs, EventHub]:
    """The watch tells the hub what changes, and the hub looks at the watch for what it tells."""

    def running(job: str, rights: Rights) -> list[dict[str, Any]]:
        views = running_views(watching.open_runs.of(job, rights), now_ms=clock.wall_ms())
        return [shown(view, ending.known.get(view["id"])) for view in views]

    async def results(settled: Iterable[RunId]) -> Mapping[str, JobResults]:
        runs = list(settled)
        found = await history.results(list({run.job_name for run in runs}), including=runs)
        if found is None:
            raise UnavailableError(NO_RESULTS)
        return found

    def seen(job: str, came_to: JobResults, rights: Rights) -> JobResults:
        return seen_results(came_to, watching.catalog.get(job), rights) or JobResults()

    async def changed() -> list[tuple[str, Mapping[str, str]]]:
        return [(job, labels) for job in await ending.changed() for labels in watching.open_runs.labels_of(job)]

    def state() -> Mapping[str, Any]:
        seen = health.glance(etcd_silent_since_ms=watching.stale_since_ms)
        return seen | {"recovery": recovery_shown(directory, now_ms=clock.wall_ms())}

    async def count_failing(rights: Rights, since_s: float) -> int:
        return (await failing.seen(rights, since_s=since_s)).count

    events = EventHub(
        manager=name,
        clock=clock,
        running=running,
        results=results,
        seen_results=seen,
        health=state,
        ending=changed,
        failing=count_failing,
        pace=pace,
    )
    watching = Watching(etcd, keys, events, clock=clock)
    failing = FailingJobs(history, watching.catalog, clock=clock)
    return watching, failing, events
