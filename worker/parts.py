"""The parts of a worker, wired: what each needs to know of the others. What one tells another, the agent passes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Protocol

from common.clock import Clock
from common.clocks.check import ClockCheck
from common.clocks.watch import ClockWatch, WatchedClock
from common.configuration.config import WorkerConfig
from common.etcd import Change, EtcdClient, Mirror, Session
from common.process.lifecycle import until_first
from common.protocol.drain import Drain
from common.protocol.fire_claims import Claims
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.kill import Kill
from common.protocol.member import MOST_USERS, Beat, Member, RunsAs
from common.protocol.signatures import Trust
from common.runlog import RunLog
from worker.absences import Absences
from worker.admission import Admission
from worker.catalog import Catalog
from worker.data_directory import DataDirectory
from worker.dispatcher import Dispatcher
from worker.draining import DrainWatch
from worker.guardian.link import GuardianLink
from worker.kills import Kills
from worker.launch import Outcome
from worker.launcher.accounts import isolates
from worker.launcher.link import Launcher
from worker.launcher.unstartable import NotNowError
from worker.lead.chains import Chains
from worker.lead.clock_keeping import ClockKeeping
from worker.lead.give_ups import GiveUps
from worker.lead.leader import Duty, Steward
from worker.lead.lost_runs import LeftRunSettlement, LostRuns
from worker.lead.retention import Retention
from worker.lead.roster import Roster, RosterKeeping
from worker.lead.statistics import StatisticsKeeping
from worker.lead.stuck_fires import StuckFires
from worker.lead.stuck_requests import StuckRequests
from worker.lead.sweeping import DedupeSweeping, Sweeping
from worker.members import Beats, Members
from worker.plan.boot import Boot
from worker.plan.broadcast import Broadcast
from worker.plan.doubts import Doubts
from worker.plan.lock_waits import LockPoll
from worker.plan.request_queue import RequestQueue
from worker.plan.scheduler import Scheduler
from worker.record.adoption import Adoption
from worker.record.delivery import Delivery
from worker.record.ending import EndingRuns
from worker.record.follow_up_reader import FollowUpReader
from worker.record.outbox_writer import Attempts, OutboxWriter
from worker.record.settlement import Settlement
from worker.record.spool import Spool
from worker.record.spool_watch import SpoolWatch
from worker.record.tails import TailSender
from worker.refusals import Refusals
from worker.registry import Registry
from worker.rules import Rules
from worker.run.executor import Executor
from worker.run.orphans import Orphans, is_first_process
from worker.run.resources import affordable_slots
from worker.run.running import EndDates
from worker.runs import Run, RunTable
from worker.secrets import Secrets, runtime_directory
from worker.sentinels import Sentinels
from worker.verifier import Verifier


class Events(Protocol):
    """What the parts tell; the agent passes it on to whom it concerns.

    ======================  ===========================  =======================================================
    event                   who tells                    who hears
    ======================  ===========================  =======================================================
    ``job_changed``         catalog                      scheduler, requests, broadcast, stuck fires, chains, kills
    ``sequence_changed``    broadcast                    scheduler
    ``membership_changed``  members                      settlement; once it is quiet, scheduler and requests
    ``slot_free``           table, dispatcher, guardian  scheduler, requests, dispatcher
    ``lock_freed``          settlement                   requests, scheduler
    ``kill_wished``         kills                        executor, dispatcher
    ``run_ended``           executor                     table, settlement, tails; ending, where something is left of it
    ``run_stuck``           executor                     table
    ``run_not_started``     executor                     dispatcher; table and settlement, of one that was given up
    ``run_over``            ending                       settlement, or adoption: of a former life
    ``run_given_up``        adoption                     ending, executor
    ``run_past_deadline``   guardian                     executor
    ``guardian_away``       guardian                     admission
    ``guardian_saw_leap``   guardian                     session
    ``delivered``           delivery                     settlement
    ``clock_jumped``        clock watch                  clock check, session, admission; scheduler, requests
    ``clock_judged``        clock check                  broadcast, admission
    ``drained``             drain watch                  broadcast, admission
    ``spool_refuses``       spool watch                  settlement, admission
    ``session_opened``      registry                     settlement, adoption; scheduler, requests, broadcast, steward
    ``session_ended``       registry                     settlement; scheduler, requests, broadcast, steward
    ``describe``            registry                     none: the agent answers with the beat
    ======================  ===========================  =======================================================

    Where admission hears, scheduler, requests and dispatcher are woken, and the registry tells etcd. What ends a run or
    gives its slots back is a ``slot_free`` as well.
    """

    def job_changed(self, name: str) -> None: ...
    def sequence_changed(self, name: str) -> None: ...
    def membership_changed(self) -> None: ...
    def slot_free(self) -> None: ...
    def lock_freed(self, job: str) -> None: ...
    def kill_wished(self, kill: Kill) -> None: ...
    def run_ended(self, outcome: Outcome) -> None: ...
    def run_stuck(self, run_id: RunId) -> None: ...
    def run_not_started(self, run_id: RunId, why: NotNowError) -> None: ...
    def run_over(self, run_id: RunId, given_up: str | None) -> None: ...
    def run_given_up(self, run: Run) -> None: ...
    def run_past_deadline(self, run_id: RunId, by_guardian: bool) -> bool: ...
    async def guardian_away(self, fault: str | None) -> None: ...
    def guardian_saw_leap(self) -> None: ...
    def delivered(self, run_ids: list[RunId]) -> None: ...
    def clock_jumped(self, by_s: float) -> None: ...
    async def clock_judged(self, fault: str | None) -> None: ...
    async def drained(self, drain: Drain | None) -> None: ...
    async def spool_refuses(self, fault: str | None) -> None: ...
    async def session_opened(self, session: Session) -> None: ...
    def session_ended(self) -> None: ...
    def describe(self) -> Beat: ...


class Parts:
    """Every part of one worker process."""

    def __init__(
        self,
        config: WorkerConfig,
        data: DataDirectory,
        client: EtcdClient,
        runlog: RunLog,
        clock: Clock,
        events: Events,
        trust: Trust | None = None,
    ) -> None:
        """``trust``: whose signatures are believed; None: none are looked at."""
        self._config = config
        self._identity = data.identity
        self._client = client
        self._runlog = runlog
        self._events = events
        skew_ms = config.max_clock_skew_ms
        self.clock_watch = ClockWatch(clock, max_skew_ms=skew_ms, on_jump=events.clock_jumped)
        self._clock = clock = WatchedClock(clock, self.clock_watch)
        self.spool = spool = data.spool
        self.keys = Keys(config.key_prefix)
        self.table = RunTable(affordable_slots(config.slots))
        self.table.on_room = events.slot_free
        self.refusals = Refusals(clock)
        self.admission = Admission()
        self.clock_check = ClockCheck(
            client, self.keys, process=data.identity.worker, watch=self.clock_watch, clock=clock, max_skew_ms=skew_ms,
            on_change=events.clock_judged, is_patient=True,
        )  # fmt: skip
        self.verifier = Verifier(
            mode=config.signing, trust=trust, generations=data.generations, clock=clock, labels=config.labels,
            on_doubt=lambda job, fault: self.catalog.doubt(job, fault),
        )  # fmt: skip
        self._data = data
        self._know(spool)
        self._run(spool)
        self._decide()
        self._stay_present()
        self._look_after_others()

    def loops(self) -> Mapping[str, Callable[[], Coroutine[object, object, None]]]:
        """Every loop of the parts, by name."""
        loops = {
            "registry": self.registry.run,
            "jobs": self.mirrors[Watched.JOBS].run,
            "kills": self.mirrors[Watched.KILLS].run,
            "requests": self.mirrors[Watched.REQUESTS].run,
            "members": self.members_mirror.run,
            "drains": self.drain_watch.mirror.run,
            "drain": self.drain_watch.run,
            "broadcast": self.broadcast.run,
            "scheduler": self.scheduler.run,
            "dispatcher": self.dispatcher.run,
            "settlement": self.settlement.run,
            "ending": self.ending.run,
            "delivery": self.delivery.run,
            "rules": self.rules.mirror.run,
            "outbox": self.outbox_writer.run,
            "looks": self.tails.mirror.run,
            "live output": self.tails.run,
            "spool": self.spool_watch.run,
            "request queue": self.requests.run,
            "locks": self.locks.run,
            "adoption": self.adoption.run,
            "guardian": self.guardian.run,
            "steward": self.steward.run,
            "sentinels": self.sentinels.run,
            "clock": self.clock_watch.run,
            "clock check": self.clock_check.run,
        }
        if (generations := self._data.generations) is not None:
            loops["generations"] = partial(generations.run, self.spool.disk)
            loops["signatures"] = self.verifier.run
        if is_first_process():

            def own() -> set[int]:
                runs = {run.pid for run in self.executor.running.values()}
                return runs | self.guardian.pids | ({pid} if (pid := self.launcher.pid) is not None else set())

            loops["orphans"] = Orphans(own=own).run
        return loops

    @property
    def jobs_read(self) -> asyncio.Event:
        """Set once the catalog has been read."""
        return self.mirrors[Watched.JOBS].synced

    def _know(self, spool: Spool) -> None:
        """What it knows: jobs, kills, workers; and where its records are."""
        client, keys, clock, events = self._client, self.keys, self._clock, self._events
        self.catalog = Catalog(keys, on_changed=events.job_changed, verifier=self.verifier)
        self.absences = Absences(worker=self._identity.worker, clock=clock)
        self.roster = Roster(keys, clock)
        self.members = Members(keys, self._identity.worker, on_changed=events.membership_changed, on_seen=self._saw)
        self.members_mirror = Mirror(client, keys.workers, self.members.on_changes, clock=clock)
        self.kills = Kills(
            keys, on_kill=events.kill_wished,
            is_believed=lambda kill: self.verifier.kill_fault(kill, self.catalog.of_run(kill.run_id)) is None,
        )  # fmt: skip
        self.spool_watch = SpoolWatch(try_out=spool.try_out, announce=events.spool_refuses)
        self.rules = Rules(client, keys, clock=clock)
        self.outbox_writer = OutboxWriter(
            store=self._runlog, attempts=Attempts(client, keys, self._runlog), catalog=self.catalog,
            jobs_read=lambda: self.jobs_read, rules=self.rules, table=self.table, up_to=spool.cursor,
            on_progress=spool.changed, clock=clock,
        )  # fmt: skip
        self.delivery = Delivery(
            spool, self._runlog, self.outbox_writer, batch_size=self._config.job_log_batch_size,
            commit_timeout_ms=self._config.job_log_commit_timeout_ms, clock=clock, on_delivered=events.delivered,
            is_pressed=lambda: self.scheduler.waiting > 0,
        )  # fmt: skip

    def _saw(self, members: Collection[Member]) -> None:
        self.absences.saw(members)
        self.roster.saw(members)

    def _run(self, spool: Spool) -> None:
        """How runs start and end."""
        config, identity, events, clock = self._config, self._identity, self._events, self._clock
        self.guardian = GuardianLink(
            directory=config.data_dir, instance=identity.instance, table=self.table, margin_s=config.timings.margin_s,
            logs=(config.log_level, config.log_format), on_past=events.run_past_deadline, on_ready=events.slot_free,
            on_leapt=events.guardian_saw_leap, announce=events.guardian_away, clock=clock,
        )  # fmt: skip
        self.launcher = Launcher(
            worker=identity.worker, allowed_users=config.allowed_users, default_user=config.default_user
        )
        self.executor = Executor(
            launcher=self.launcher, worker=identity.worker, instance=identity.instance, path=config.path,
            shell=config.bash_path, clock=clock, on_end=events.run_ended,
            on_not_now=events.run_not_started, on_stuck=events.run_stuck,
            guard=self.guardian,
            end_dates=EndDates(clock, is_vouched_for=lambda: self.clock_check.is_vouched_for),
        )  # fmt: skip
        self.tails = TailSender(
            self._client, self.keys, worker=identity.worker, running=self.executor.running, store=self._runlog.tails,
            clock=clock,
        )  # fmt: skip
        self.claims = Claims(self.keys, identity, lost_after_ms=config.lost_after_s * 1000)
        self.follow_ups = FollowUpReader(self._client, self.keys, self.catalog)
        self.settlement = Settlement(
            client=self._client, keys=self.keys, table=self.table, kills=self.kills, follow_ups=self.follow_ups,
            refusals=self.refusals, spool=spool, clock=clock,
            worker=identity.worker, instance=identity.instance, live_workers=lambda: len(self.members.accepting()),
            on_unlocked=events.lock_freed, on_refused=self.spool_watch.note,
        )  # fmt: skip
        self.ending = EndingRuns(
            client=self._client, keys=self.keys, directory=config.data_dir, disk=spool.disk, clock=clock,
            on_written=self.guardian.over, on_over=events.run_over,
        )  # fmt: skip
        self.secrets = Secrets(
            config.secrets_file, default_user=config.default_user,
            runtime=runtime_directory(config.data_dir, identity.instance, os.environ),
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            client=self._client, keys=self.keys, identity=identity, table=self.table,
            members=self.members, kills=self.kills, executor=self.executor, settlement=self.settlement,
            refusals=self.refusals, shell=config.bash_path, on_slot_free=events.slot_free,
            stuck_before=self.ending.of_former_life, is_guarded=lambda: self.guardian.guarding,
            admission=self.admission, clock=clock, forbids=self.verifier.run_fault,
            secrets=self.secrets,
        )  # fmt: skip

    def _decide(self) -> None:
        """How fires and requests are taken."""
        client, keys, clock, timings = self._client, self.keys, self._clock, self._config.timings
        doubts = Doubts(client, self.claims, keys, clock)
        self.locks = LockPoll(client, keys)
        self.scheduler = Scheduler(
            client=client, keys=keys, worker=self._identity.worker, catalog=self.catalog, members=self.members,
            table=self.table, claims=self.claims, doubts=doubts, refusals=self.refusals, claimant=self.dispatcher,
            absences=self.absences, admission=self.admission, locks=self.locks, timings=timings, clock=clock,
            held=lambda: self.clock_check.held, believes=self.verifier.believes,
        )  # fmt: skip
        self.requests = RequestQueue(
            client=client, keys=keys, identity=self._identity, catalog=self.catalog, members=self.members,
            kills=self.kills, table=self.table, refusals=self.refusals, locks=self.locks,
            timings=timings, on_won=self.dispatcher.add, admission=self.admission, clock=clock,
            verifier=self.verifier,
        )  # fmt: skip
        self.mirrors = {
            Watched.JOBS: Mirror(client, keys.jobs, self.catalog.on_changes, clock=clock),
            Watched.KILLS: Mirror(client, keys.kills, self.kills.on_changes, clock=clock),
            Watched.REQUESTS: Mirror(client, keys.requests, self.requests.on_changes, clock=clock),
        }
        self.sentinels = Sentinels(client, keys, self.mirrors)
        self.broadcast = Broadcast(
            client=client, keys=keys, identity=self._identity, labels=self._config.labels, slots=self.table.slots,
            catalog=self.catalog, on_open=self._events.sequence_changed, on_record=self.settlement.deliver_final,
            clock=clock, boot=Boot.of_this_machine(),
        )  # fmt: skip

    def _stay_present(self) -> None:
        """How it is known to others, and takes over what was its own."""
        config, events = self._config, self._events
        self.drain_watch = DrainWatch(
            self._client, self.keys, worker=self._identity.worker, announce=events.drained, clock=self._clock
        )
        self.adoption = Adoption(
            client=self._client, keys=self.keys, identity=self._identity, table=self.table, kills=self.kills,
            settlement=self.settlement, follow_ups=self.follow_ups, refusals=self.refusals, store=self._runlog,
            ending=self.ending, on_lost=events.run_given_up, is_clock_off=self._is_clock_off, clock=self._clock,
        )  # fmt: skip
        self.registry = Registry(
            client=self._client, keys=self.keys, identity=self._identity, slots=self.table.slots,
            labels=config.labels,
            ttl_s=config.lease_ttl_s, on_opened=events.session_opened, on_ended=events.session_ended,
            describe=events.describe, admission=self.admission, clock=self._clock,
            isolates=isolates(config.allowed_users, config.default_user),
            runs_as=RunsAs(uid=os.geteuid(), default=config.default_user, allowed=config.allowed_users[:MOST_USERS]),
        )  # fmt: skip

    def _look_after_others(self) -> None:
        """What it does while it is the steward."""
        client, keys, clock, worker = self._client, self.keys, self._clock, self._identity.worker
        self._beats = Beats(keys)
        self.stuck_fires = StuckFires(
            client=client, keys=keys, worker=worker, catalog=self.catalog, members=self.members,
            beats=self._beats, absences=self.absences, roster=self.roster, settlement=self.settlement,
            timings=self._config.timings, clock=clock,
            held=lambda: self.clock_check.held,
        )  # fmt: skip
        left_runs = LeftRunSettlement(
            client=client, keys=keys, worker=worker, follow_ups=self.follow_ups, settlement=self.settlement, clock=clock
        )
        lost_runs = LostRuns(
            client=client, keys=keys, members=self.members, settlement=self.settlement, left_runs=left_runs,
            store=self._runlog, clock=clock,
        )  # fmt: skip
        self._give_ups = GiveUps(
            client=client, keys=keys, catalog=self.catalog, left_runs=left_runs, store=self._runlog, clock=clock
        )
        stuck_requests = StuckRequests(
            client=client, keys=keys, worker=worker, catalog=self.catalog, members=self.members, beats=self._beats,
            kills=self.kills, queue=self.requests, settlement=self.settlement, clock=clock,
            fault_of=self.verifier.request_fault,
        )  # fmt: skip
        sweeping = Sweeping(
            client=client, keys=keys, catalog=self.catalog, kills=self.kills, members=self.members,
            mirrors=self.mirrors, ttl_s=self._config.lease_ttl_s,
            compaction_minutes=self._config.compaction_minutes, clock=clock,
        )  # fmt: skip
        self.chains = Chains(client=client, keys=keys, catalog=self.catalog, queue=self.requests, clock=clock)
        forgetting = DedupeSweeping(client=client, keys=keys, clock=clock)
        self._retention = Retention(
            store=self._runlog, client=client, keys=keys, worker=worker, days=self._config.log_retention_days,
            per_job=self._config.log_retention_per_job, is_clock_off=self._is_clock_off, clock=clock,
        )  # fmt: skip
        self._statistics = StatisticsKeeping(store=self._runlog, is_clock_off=self._is_clock_off, clock=clock)
        roster_keeping = RosterKeeping(client=client, keys=keys, members=self.members, roster=self.roster, clock=clock)
        duties: list[Duty] = [
            roster_keeping,
            lost_runs,
            self._give_ups,
            self.stuck_fires,
            stuck_requests,
            self.chains,
            sweeping,
            forgetting,
        ]
        self._clock_keeping = ClockKeeping(
            client=client, keys=keys, beats=lambda: self._beats.by_process,
            max_skew_ms=self._config.max_clock_skew_ms, clock=clock, workers=lambda: len(self.roster.by_name),
        )  # fmt: skip
        self.steward = Steward(
            client=client, keys=keys, worker=worker, clock=clock, companion=self._beside_duties, duties=duties,
            timeless=[self._clock_keeping], is_clock_off=self._is_clock_off,
            is_spool_refusing=lambda: self.admission.is_spool_refusing,
            others_decide=lambda: bool(self.members.accepting().keys() - {worker}),
        )  # fmt: skip

    def _is_clock_off(self) -> bool:
        self.clock_watch.look()
        return self.clock_check.fault is not None

    async def _beside_duties(self) -> None:
        """For as long as this worker is steward: what it watches; retention and statistics."""
        self._beats.by_process.clear()
        self.roster.by_name.clear()

        def take(changes: Sequence[Change]) -> None:
            self._beats.on_changes(changes)
            self._clock_keeping.on_changes(changes)

        mirror = Mirror(self._client, self.keys.beats, take, clock=self._clock)
        roster = Mirror(self._client, self.keys.roster, self.roster.on_changes, clock=self._clock)
        wishes = Mirror(self._client, self.keys.give_ups, self._give_ups.on_changes, clock=self._clock)
        await until_first(
            roster.run(), mirror.run(), wishes.run(), self._clock_keeping.listen(), self._retention.run(),
            self._statistics.run(),
        )  # fmt: skip
