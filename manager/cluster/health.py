"""Whether this manager can do its work: what it sees of etcd and of the log store, asked when somebody wants to know.

* **ready**: everything is well.
* **degraded**: jobs are saved and run, something needs a look (the log store away, a worker that takes no fires, etcd's
  database half full, its JSON gateway open to everybody, a job that is broken or that no live worker fits, ...).
* **unready**: etcd cannot be reached, so nothing can be saved or listed; or its database is full, so that it takes no
  writes; or this manager's own clock is off, so that it saves nothing, and another one should be asked: 503.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from common.access.rights import Rights
from common.clock import Clock
from common.errors import EtcdAccessError, EtcdAwayError, EtcronError, UnavailableError
from common.etcd import EtcdClient, Status
from common.instants import iso
from common.protocol.member import Member
from common.protocol.roster import Left, RosterEntry
from common.runlog import RetentionState, RunLog
from manager.cluster.clocks import ClockGuard, clocks_view
from manager.cluster.gateways import Gateways
from manager.cluster.jobs_health import JobsReport
from manager.views.inventory import Inventory
from manager.views.shapes import MAY_NAME_JOBS, healthy

_log = logging.getLogger(__name__)

T = TypeVar("T")

PROBE_S: Final = 3.0
RETRY_S: Final = 1.0
"""How often what is away is looked at: somebody waits for it."""
MEMBERS_EVERY: Final = 5
"""So many looks; once etcd is full, with each."""
_ANSWER_S = 1.5
_NAMED: Final = 5
"""How many workers are named one by one."""
_BLOCKED_NAMED: Final = 100
"""How many blocked jobs are."""
_INDEXES_S = 5.0
GATEWAYS_EVERY: Final = 20
"""So many looks are between two questions to a gateway that is open."""
_NEARLY_FULL: Final = 0.8
ETCD_IS_FULL: Final = (
    "etcd's database is full (alarm NOSPACE): nothing is saved and nothing starts until it is compacted and "
    "defragmented, and the alarm disarmed"
)
_NO_SPACE = "NOSPACE"
_HOLDS_USERS_TO_ROLES: Final[Mapping[tuple[int, ...], tuple[int, ...]]] = {
    (3, 4): (3, 4, 44),
    (3, 5): (3, 5, 30),
    (3, 6): (3, 6, 11),
}
"""From which version of its series on etcd checks what is within a transaction (CVE-2026-33343, CVE-2026-44283)."""
_LOSES_WRITES = frozenset({(3, 5, 0), (3, 5, 1), (3, 5, 2)})


@dataclass(slots=True, kw_only=True)
class _Seen:
    """Whether a server answers, and since when it has been so."""

    server: str
    where: str
    reachable: bool | None = None
    since_ms: int = 0
    problem: str | None = None

    def note(self, problem: str | None, now_ms: int) -> None:
        """Take in an answer (None) or a failure; a change of state is logged once."""
        reachable = problem is None
        if reachable != self.reachable:
            action = self.server.replace(" ", "_")
            if not reachable:
                extra = {"action": f"{action}.unreachable", "where": self.where, "error": problem}
                _log.warning("%s cannot be reached; it is tried again by itself", self.server, extra=extra)
            elif self.reachable is not None:
                extra = {"action": f"{action}.reachable", "where": self.where}
                _log.info("%s answers again", self.server, extra=extra)
            self.reachable, self.since_ms = reachable, now_ms
        self.problem = None if reachable else (
            f"{self.server} unreachable: looked at {self.where}, since {iso(self.since_ms)}: {problem}"
        )  # fmt: skip


HALTED: Final = ("none", "drained", "refusing")
"""States in which nothing fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """Whether any worker takes fires; where none does, nothing fires."""

    state: str = "unknown"
    """``ok``, ``none`` is live, ``drained`` are all that are, ``refusing``; ``unknown``: etcd is away."""
    since_ms: int | None = None
    """Since when none does; None: there has never been one, as far as anybody remembers."""
    why: str | None = None
    """What the first of those that refuse says."""

    def view(self) -> dict[str, Any]:
        return {"state": self.state, "sinceMs": self.since_ms, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One look at everything."""

    etcd: dict[str, Any]
    log_store: dict[str, Any]
    workers: dict[str, Any]
    clocks: dict[str, Any]
    fires: Fires
    jobs: JobsReport
    steward: Mapping[str, str]
    """What etcd does not let a worker do as the steward, by the worker."""
    untold: Mapping[str, str] | None
    """Why a notifier does not tell all that happens, by its process; None: etcd is away."""
    blocked: Mapping[str, int]
    """By job, until when it does not fire."""
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """What an operator should know, although everything is well."""

    @property
    def etcd_is_full(self) -> bool:
        return ETCD_IS_FULL in self.problems

    @property
    def state(self) -> str:
        if self.etcd["state"] == "unreachable" or self.etcd_is_full or self.clocks["state"] == "off":
            return "unready"
        return "degraded" if self.problems else "ready"

    def document(self, *, verbose: bool) -> dict[str, Any]:
        """The answer of ``/readyz``."""
        document: dict[str, Any] = {
            "status": self.state, "problems": list(self.problems), "notes": list(self.notes),
        }  # fmt: skip
        if verbose:
            blocked = itertools.islice(self.blocked.items(), _BLOCKED_NAMED)
            document["checks"] = {
                "etcd": self.etcd, "logStore": self.log_store, "workers": self.workers, "clocks": self.clocks,
                "fires": self.fires.view(),
                "jobs": self.jobs.view(),
                "steward": {"state": "degraded" if self.steward else "ok", "notPermitted": dict(self.steward)},
                "blocked": [{"name": job, "until": until_ms} for job, until_ms in blocked],
            }  # fmt: skip
        return document


async def no_faults(_: Rights) -> Iterable[str]:
    """For who has no log store to look into."""
    return ()


class Health:
    """Looks at the servers; every look ends within two seconds."""

    def __init__(
        self,
        etcd: EtcdClient,
        runlog: RunLog,
        inventory: Inventory,
        *,
        clock: Clock,
        log_store: str,
        quota_bytes: int,
        guard: ClockGuard,
        look_at_jobs: Callable[[Sequence[Member], Iterable[RosterEntry], Rights], Awaitable[JobsReport]],
        blocked: Callable[[Rights], Mapping[str, int]] = lambda rights: {},
        audit: Callable[[bool], Iterable[str]] = lambda _: (),
        look_at_notices: Callable[[Rights], Awaitable[Iterable[str]]] = no_faults,
    ) -> None:
        """``quota_bytes``: of etcd's database; etcd does not tell it.
        ``look_at_jobs``: by these live workers, and those that have left, as far as a caller may know.


        ``blocked``: by job, until when it does not fire; the latest first; of those that a caller may know of.
        ``audit``: what is wrong with this manager's audit, given whether the log store is away.
        ``look_at_notices``: what is wrong with alerts and notices.
        """
        self._look_at_notices = look_at_notices
        self._quota_bytes = quota_bytes
        self._audit = audit
        self._look_at_jobs = look_at_jobs
        self._blocked = blocked
        self._guard = guard
        self._etcd = etcd
        self._runlog = runlog
        self._inventory = inventory
        self._clock = clock
        self._etcd_seen = _Seen(server="etcd", where=", ".join(etcd.endpoints))
        self._log_seen = _Seen(server="log store", where=log_store)
        self._gateways = Gateways(etcd.urls)
        self._prepared = False
        self._fires = Fires()
        self._full_since_ms: int | None = None
        self._size_bytes = 0
        self.members_away: Mapping[str, str] | None = None
        """Members of etcd that did not answer the newest look at all of them, and why. None: before the first look. One
        that no member has answered tells nothing of a single one."""

    async def run(self) -> None:
        """Look every 3 s, so that what goes away and comes back is logged; make the log store's indexes once.

        What is away is looked at every second, so that the console shows soon that it is back.
        """
        for number in itertools.count():
            looks: list[Awaitable[object]] = [self._workers(), self._log_store()]
            if number % MEMBERS_EVERY == 0 or self._full_since_ms is not None or self._etcd.is_full:
                looks.append(self._look_at_members())
            if number % GATEWAYS_EVERY == 0:
                looks.append(self._gateways.look())
            await asyncio.gather(*looks)
            if self._log_seen.reachable and not self._prepared:
                try:
                    await self._runlog.prepare(deadline_seconds=_INDEXES_S)
                    self._prepared = True
                except UnavailableError as error:
                    extra = {"action": "log_store.not_prepared", "error": str(error)}
                    _log.warning("the log store's indexes are not there yet", extra=extra)
            away = not self._etcd_seen.reachable or not self._log_seen.reachable
            await asyncio.sleep(RETRY_S if away else PROBE_S)

    @property
    def log_store_away(self) -> bool:
        """Whether the newest look at the log store got no answer."""
        return self._log_seen.reachable is False

    @property
    def standstill(self) -> str | None:
        """Why nothing starts anywhere, as far as the newest look at etcd shows; etcd away is reported elsewhere."""
        return None if self._full_since_ms is None else ETCD_IS_FULL

    @property
    def fullness(self) -> str | None:
        """How full etcd is, in words, as far as the newest look shows; None: there is room."""
        if self._full_since_ms is None and self._size_bytes < _NEARLY_FULL * self._quota_bytes:
            return None
        return self.standstill or f"its database is {_share(self._size_bytes, self._quota_bytes)}"

    def glance(self, *, etcd_silent_since_ms: int | None) -> dict[str, Any]:
        """What the newest looks have shown, without asking anybody; what the watch on etcd has not heard counts too.

        ``isOld``: jobs and runs are shown as they were. A look may find etcd away some seconds before the watch does.
        """
        silent = etcd_silent_since_ms is not None
        away = [seen for seen in (self._etcd_seen, self._log_seen) if seen.reachable is False]
        since = [seen.since_ms for seen in away]
        problems = [seen.problem for seen in away if seen.problem]
        if silent and self._etcd_seen not in away:
            problems.insert(0, f"etcd: nothing has been heard of it since {iso(etcd_silent_since_ms or 0)}")
            since.append(etcd_silent_since_ms or 0)
        etcd = "away" if silent or self._etcd_seen in away else "ok"
        if etcd == "ok" and self._full_since_ms is not None:
            etcd = "full"
            problems.insert(0, ETCD_IS_FULL)
            since.append(self._full_since_ms)
        return {
            "etcd": etcd,
            "isOld": silent,
            "logStore": "away" if self._log_seen in away else "ok",
            "sinceMs": min(since, default=None),
            "problem": "; ".join(problems) or None,
            "fires": (self._fires if etcd == "ok" else Fires()).view(),
        }

    async def look(self, rights: Rights) -> Report:
        """Ask all of them now; of jobs it tells what a caller may know."""
        endpoints, guard = self._etcd.endpoints, self._guard
        workers, log_store, answers, (compared, unread), (kept, _), remembered = await asyncio.gather(
            self._workers(), self._log_store(), asyncio.gather(*map(self._member, endpoints)),
            _asked(self._inventory.clocks), _asked(self._runlog.retention),
            asyncio.gather(_asked(self._inventory.roster), _asked(self._inventory.complaints)),
        )  # fmt: skip
        members = dict(zip(endpoints, answers, strict=True))
        roster, (refused, untold) = remembered[0][0] or {}, remembered[1][0] or ({}, None)
        if not rights.sees_all:
            refused, untold = dict.fromkeys(refused, MAY_NAME_JOBS), untold and dict.fromkeys(untold, MAY_NAME_JOBS)
        clocks = clocks_view(compared, known=unread is None, own_fault=guard.fault, max_skew_ms=guard.max_skew_ms)
        live = {worker.worker for worker in workers or ()}
        gone = [entry for name, entry in roster.items() if name not in live]
        jobs = JobsReport() if workers is None else await self._look_at_jobs(workers, gone, rights)
        log_store["retention"] = _retention_view(kept)
        away = self._etcd_seen.problem
        of_members = _faults(members, self._quota_bytes, is_full=self._etcd.is_full)
        faults = [] if away else [*of_members, *self._gateways.faults]
        etcd = {
            "state": "unreachable" if away else "degraded" if faults else "ok",
            "problem": away or "; ".join(faults) or None,
            "endpoints": [_member_view(*member, self._quota_bytes) for member in members.items()],
        }
        problems = [*([away] if away else faults), *([log_store["problem"]] if log_store["problem"] else [])]
        if workers is not None:
            problems += _worker_faults(workers)
        problems += jobs.problems
        problems += [] if clocks["problem"] is None else [clocks["problem"]]
        blocked = self._blocked(rights)
        problems += _blocked_problem(blocked)
        problems += self._audit(self.log_store_away)
        if not self.log_store_away:
            stuck = (untold or {}).items()
            problems += [f"the notifier {name} cannot tell all that happens: {why}" for name, why in stuck]
            problems += (await _asked(partial(self._look_at_notices, rights)))[0] or ()
        return Report(
            etcd=etcd, log_store=log_store, workers=_workers_view(workers, gone), clocks=clocks, fires=self._fires,
            jobs=jobs,
            steward=refused, untold=untold, blocked=blocked, problems=tuple(problems),
            notes=() if away else tuple(_notes(members, refused, has_roles=self._etcd.is_limited)),
        )  # fmt: skip

    async def _workers(self) -> list[Member] | None:
        """The live workers; the question is a linearizable read, so it tells whether etcd has a quorum."""
        workers, problem = await _asked(self._inventory.live)
        self._etcd_seen.note(problem, self._clock.wall_ms())
        live = None if workers is None else healthy(workers)
        self._fires = Fires() if live is None else await self._look_at_fires(live)
        return live

    async def _look_at_fires(self, live: Sequence[Member]) -> Fires:
        if any(worker.accepts for worker in live):
            return Fires(state="ok")
        before = self._fires
        drains, _ = await _asked(self._inventory.drains)
        drained = [drain.since_ms for worker in live if (drain := (drains or {}).get(worker.worker)) is not None]
        state = "none" if not live else "drained" if len(drained) == len(live) else "refusing"
        why = next((_reason(worker) for worker in live), None)
        since_ms = before.since_ms
        if since_ms is None and (before.state == "ok" or state == "refusing"):
            since_ms = self._clock.wall_ms()
        elif since_ms is None:  # this manager has not seen it come: the one that left, or was drained, last
            roster, _ = await _asked(self._inventory.roster)
            left = [one.seen_ms for one in (roster or {}).values()]
            since_ms = max(drained or left, default=None)
        return Fires(state=state, since_ms=since_ms, why=why)

    async def _log_store(self) -> dict[str, Any]:
        version, problem = await _asked(self._runlog.ping)
        self._log_seen.note(problem, self._clock.wall_ms())
        state = "unreachable" if problem else "ok"
        return {"state": state, "where": self._log_seen.where, "version": version, "problem": self._log_seen.problem}

    async def _member(self, endpoint: str) -> _Answer:
        try:
            status, problem = await _asked(partial(self._etcd.status, endpoint), let_pass=EtcdAccessError)
        except EtcdAccessError as error:
            return _Answer(withheld=str(error))
        return _Answer(status=status, problem=problem)

    async def _look_at_members(self) -> None:
        """Any member reports the alarms of all; where our user may not read them, a refused write tells of a full etcd.

        Where none answers, nothing new is known.
        """
        endpoints = self._etcd.endpoints
        members = dict(zip(endpoints, await asyncio.gather(*map(self._member, endpoints)), strict=True))
        away = {name: member.problem for name, member in members.items() if member.problem is not None}
        if len(away) < len(members):  # else etcd is away, or too slow for all of them
            self.members_away = away
        status = next((member.status for member in members.values() if member.status is not None), None)
        if status is not None:
            self._size_bytes = status.db_size_bytes
        elif not any(member.withheld for member in members.values()):
            return
        is_full = self._etcd.is_full if status is None else _NO_SPACE in status.alarms
        if not is_full:
            self._full_since_ms = None
        elif self._full_since_ms is None:
            self._full_since_ms = self._clock.wall_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a member of etcd says of itself; nothing where it does not answer, or does not tell our user."""

    status: Status | None = None
    problem: str | None = None
    withheld: str | None = None
    """Some versions of etcd tell it to users with the role root alone: no fault, but alarms stay unseen."""


def _blocked_problem(blocked: Mapping[str, int]) -> list[str]:
    if not blocked:
        return []
    job, until_ms = next(iter(blocked.items()))
    many = f"{job} is" if len(blocked) == 1 else f"{len(blocked)} jobs are"
    last = "" if len(blocked) == 1 else f" (the last: {job})"
    return [f"{many} blocked until {iso(until_ms)}{last}, as somebody's clock was ahead: see etcron job show {job}"]


def _retention_view(state: RetentionState | None) -> dict[str, Any] | None:
    """What the log store keeps, as the steward has reported last; None: everything, or it is not known."""
    if state is None:
        return None
    return {
        "days": state.days or None, "perJob": state.per_job or None, "by": state.worker, "atMs": state.at_ms,
        "removed": state.removed,
    }  # fmt: skip


async def _asked(
    question: Callable[[], Awaitable[T]], *, let_pass: type[EtcronError] | tuple[()] = ()
) -> tuple[T | None, str | None]:
    """(answer, None), or (None, what went wrong). It is asked here, so that a call that ends first asks nothing."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await question(), None
    except TimeoutError:
        return None, f"no answer within {_ANSWER_S:g} s"
    except let_pass:
        raise
    except EtcdAwayError as error:
        return None, error.reason  # who was asked stands beside it, and it is tried again by itself
    except EtcronError as error:
        return None, str(error)


def _share(size_bytes: int, quota_bytes: int) -> str:
    return f"{size_bytes / quota_bytes:.0%} of {quota_bytes / 1024**3:.3g} GiB (etcdQuotaBytes)"


def _faults(members: Mapping[str, _Answer], quota_bytes: int, *, is_full: bool) -> list[str]:
    """``is_full``: by our own writes; it counts where no member tells its alarms."""
    faults = []
    for endpoint, member in members.items():
        if member.problem is not None:
            faults.append(f"the etcd member {endpoint} does not answer: {member.problem}")
        if (status := member.status) is None:
            continue
        if status.db_size_bytes * 2 > quota_bytes:
            share = _share(status.db_size_bytes, quota_bytes)
            faults.append(f"the database of {endpoint} is {share}: compact and defragment it")
        faults += [
            ETCD_IS_FULL if alarm == _NO_SPACE else f"etcd has raised the alarm {alarm}" for alarm in status.alarms
        ]
    if is_full and not any(member.status for member in members.values()):
        faults.append(ETCD_IS_FULL)
    return list(dict.fromkeys(faults))


def _notes(members: Mapping[str, _Answer], refused: Mapping[str, str], *, has_roles: bool) -> list[str]:
    """On members of etcd; and on what it refuses the steward, by the worker. ``has_roles``: our user has one."""
    notes = []
    for endpoint, member in members.items():
        if member.status is None:
            continue
        parts = member.status.version.split("-")[0].split(".")
        version = tuple(int(part) for part in parts if part.isdigit())
        if version in _LOSES_WRITES or version < (3, 5, 0):
            fault = "can lose committed writes in a crash" if version in _LOSES_WRITES else "is past its support"
            notes.append(f"etcd {member.status.version} at {endpoint} {fault}: use 3.5.3 or newer")
        if has_roles and version < _HOLDS_USERS_TO_ROLES.get(version[:2], version):
            notes.append(
                f"etcd {member.status.version} at {endpoint} lets each of its users, a worker's too, read and write "
                "every key (CVE-2026-33343): use 3.5.30, 3.6.11 or newer"
            )
    withheld = [endpoint for endpoint, member in members.items() if member.withheld]
    if withheld:
        notes.append(
            f"etcd at {', '.join(withheld)} does not tell our user its version, size and alarms: watch these by other "
            "means, or grant the user the role root"
        )
    return notes + [f"what the steward, {worker}, may not do in etcd: {what}" for worker, what in refused.items()]


def _worker_faults(workers: Sequence[Member]) -> list[str]:
    """Why fires are not taken, by as many workers as one reads."""
    if not workers:
        return ["no worker is live: nothing fires until one starts"]
    refusing = [worker for worker in workers if not worker.accepts]
    faults = [f"the worker {worker.worker} takes no fires: {_reason(worker)}" for worker in refusing[:_NAMED]]
    if len(refusing) > _NAMED:
        faults.append(f"{len(refusing) - _NAMED} more workers take no fires")
    if len(refusing) == len(workers):
        faults.insert(0, "no worker takes fires: nothing fires until one does")
    return faults


def _reason(worker: Member) -> str:
    return worker.not_accepting or "it has no slots"


def _workers_view(workers: Sequence[Member] | None, gone: Sequence[RosterEntry]) -> dict[str, Any]:
    if workers is None:
        return {"live": None, "refusing": [], "left": []}
    newest = sorted(gone, key=lambda one: -one.seen_ms)[:_NAMED]
    left = [{"name": one.worker, "left": str(one.left or Left.GONE), "seenMs": one.seen_ms} for one in newest]
    refusing = [{"name": worker.worker, "reason": _reason(worker)} for worker in workers if not worker.accepts]
    return {"live": len(workers), "refusing": refusing, "left": left}


def _member_view(endpoint: str, member: _Answer, quota_bytes: int) -> dict[str, Any]:
    status = member.status
    if status is None:
        return {"endpoint": endpoint, "problem": member.problem, "withheld": member.withheld}
    return {
        "endpoint": endpoint,
        "version": status.version,
        "isLeader": status.member == status.leader,
        "dbSizeBytes": status.db_size_bytes,
        "dbSizeInUseBytes": status.db_size_in_use_bytes,
        "quotaBytes": quota_bytes,
        "alarms": list(status.alarms),
    }
