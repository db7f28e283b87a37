"""This worker's presence: one session after the other, what it says of itself under it, and its beat.

opening --key put--> live --lease or key gone--> opening again, and the runs are re-adopted

Before the first one it waits for sessions of this very instance that may be another process's, for two TTLs: what was
this worker's own, under another name or on a host that was called otherwise, is over by then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from common.clock import Clock
from common.errors import ConflictError, EtcdError, UnavailableError
from common.etcd import EtcdClient, Session, SessionRefusedError
from common.process.runtime import machine_load
from common.protocol import sweeps
from common.protocol.keys import Keys
from common.protocol.member import Beat, BeatPace, Member, RunsAs, WorkerIdentity, only_session, put_beat
from common.protocol.roster import Left, RosterEntry, take_leave
from common.protocol.txn import KeyValue
from common.schedules.schedule import tzdata_version
from common.version import VERSION
from worker.admission import Admission
from worker.identity import CopiedDirectoryError

_log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_LEAVE_S: Final = 1.0


class NameTakenError(ConflictError):
    """Another live worker has this name. Give each worker a name of its own (``workerName``)."""


class Registry:
    """Keeps a session open for as long as it runs."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        slots: int,
        labels: Mapping[str, str],
        ttl_s: int,
        on_opened: Callable[[Session], Awaitable[None]],
        on_ended: Callable[[], None],
        describe: Callable[[], Beat],
        isolates: bool,
        runs_as: RunsAs,
        admission: Admission,
        clock: Clock,
    ) -> None:
        """``on_opened`` is awaited while the session is kept alive; ``describe`` gives the beat, without its load."""
        self._client = client
        self._keys = keys
        self._identity = identity
        self._ttl_s = ttl_s
        self._on_opened = on_opened
        self._on_ended = on_ended
        self._describe = describe
        self._admission = admission
        self._clock = clock
        self._member = Member(
            worker=identity.worker, session="", isolates=isolates, runs_as=runs_as, instance=identity.instance,
            host=identity.host, address=client_address(client), slots=slots, labels=labels, version=VERSION,
            tzdata=tzdata_version(), pid=os.getpid(), since_ms=clock.wall_ms(),
        )  # fmt: skip
        self._published: Member | None = None
        self._publishing = 0
        """Writes of it that are on their way."""
        self._closing = False
        self._detached_since: dict[tuple[str, int], float] = {}
        self.session: Session | None = None
        """The one that is live, as far as is known."""
        self.opened = asyncio.Event()
        """Set once the first session was opened."""

    @property
    def not_accepting(self) -> str | None:
        """Why no new fires are taken, as announced to the others."""
        return self._member.not_accepting

    async def announce(self) -> None:
        """Say under the session's key why no new fires are taken, or that they are, where it does not say so yet."""
        why = self._admission.why_not
        if why != self.not_accepting:
            self._member = replace(self._member, not_accepting=why)
            extra = {"action": "worker.accepting", "fault": why}
            if why is None:
                _log.info("takes new fires", extra=extra)
            else:
                _log.warning("takes no new fires: %s", why, extra=extra)
        member = self._member
        if self._published is not member:
            await self._publish()
        if self._member is member and self._admission.why_not == why:  # else what holds now is announced by another
            self._admission.announced()

    async def run(self) -> None:
        """Opens sessions, one after the other, until cancelled.

        NameTakenError: another worker has the name. CopiedDirectoryError: another has the instance.
        """
        while not self._closing:
            self.session = session = await self._open()
            self.opened.set()
            try:
                async with asyncio.TaskGroup() as tasks:
                    living = tasks.create_task(session.run(), name="session")
                    tasks.create_task(self._serve(session), name="presence")
                    await living
            finally:
                self.session = None
                self._on_ended()

    async def close(self) -> None:
        """The session is gone, and no new one is opened; that it was stopped is remembered."""
        self._closing = True
        if (session := self.session) is not None:
            left = Left.DRAINED if self._admission.is_drained else Left.STOPPED
            entry = RosterEntry.of(self._member, seen_ms=self._clock.wall_ms(), left=left)
            # Together with its session's key, so that no process takes it for gone; where etcd is away, the steward
            # does.
            with suppress(EtcdError, UnavailableError, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._client.txn(take_leave(self._keys, entry, session))
            await session.close()

    async def _serve(self, session: Session) -> None:
        """What happens under a live session: the runs are taken over, then it beats."""
        async with asyncio.TaskGroup() as tasks:
            taking_over = tasks.create_task(self._take_over(session), name="take over")
            beating = tasks.create_task(self._beat(session), name="beat")
            await session.ended.wait()
            taking_over.cancel()
            beating.cancel()

    async def _take_over(self, session: Session) -> None:
        logged = ""
        while not session.ended.is_set():
            try:
                await self._on_opened(session)
                return
            except (EtcdError, UnavailableError) as error:
                extra = {"action": "session.take_over_failed"}
                level = logging.DEBUG if logged == str(error) else logging.WARNING  # one line for each reason
                logged = str(error)
                _log.log(level, "could not take over the runs yet: %s", error, extra=extra)
                await asyncio.sleep(_RETRY_S)

    async def _open(self) -> Session:
        waiting = False
        while True:
            try:
                if not self.opened.is_set():
                    await self._be_alone()
                return await self._open_once()
            except SessionRefusedError as error:
                for kv in error.found:
                    if self._is_foreign(kv) and kv.lease:
                        raise NameTakenError(
                            f"another live worker is called {self._identity.worker!r} "
                            f"({kv.value[:300].decode(errors='replace')}). "
                            "Give each worker a name of its own (workerName), or wait until that one's lease has ended."
                        ) from error
                await self._delete_dead(error)
            except (EtcdError, UnavailableError) as error:
                if not waiting:
                    extra = {"action": "etcd.unreachable"}
                    _log.warning("waits for etcd: %s", error, extra=extra)
                waiting = True
            await asyncio.sleep(_RETRY_S)

    async def _be_alone(self) -> None:
        """Until no other process's session has this instance. CopiedDirectoryError: there is one that stays."""
        until = self._clock.monotonic() + 2 * self._ttl_s
        while (other := await self._copy()) is not None:
            if self._clock.monotonic() >= until:
                raise CopiedDirectoryError(self._identity.instance, f"{other.worker} on {other.host}")
            await asyncio.sleep(_RETRY_S)

    async def _copy(self) -> Member | None:
        """A session of this instance that another process may hold: under another name, or on another host."""
        async for page in self._client.read_prefix(self._keys.workers):
            for kv in page.kvs:
                member = self._member_of(kv.key, kv.value, kv.lease)
                if (
                    member is not None
                    and member.attached
                    and member.instance == self._identity.instance
                    and (member.worker, member.host) != (self._identity.worker, self._identity.host)
                ):
                    return member
        return None

    async def _open_once(self) -> Session:
        """A session of this name: over a dead one of this very instance, beside none of another."""
        prefix = self._keys.worker_sessions(self._identity.worker)
        there = [kv async for page in self._client.read_prefix(prefix) for kv in page.kvs]
        mine = bool(there) and all(self._is_mine(kv.key, kv.value, kv.lease) for kv in there)
        only = only_session(self._keys, self._identity.worker, there if mine else ())
        member = self._member
        session = await Session.open(
            self._client,
            key_of=lambda lease: self._keys.worker(self._identity.worker, lease),
            value=member.to_json(),
            ttl=self._ttl_s,
            clock=self._clock,
            compares=only.compares,
            operations=only.then,
        )
        self._published = member
        return session

    def _is_mine(self, key: str, value: bytes, lease: int) -> bool:
        member = self._member_of(key, value, lease)
        return member is not None and member.instance == self._identity.instance

    def _member_of(self, key: str, value: bytes, lease: int) -> Member | None:
        """The session; None: it is none of ours."""
        try:
            worker, session = self._keys.session_of(key)
            return Member.from_json(value, worker=worker, session=session, lease=lease)
        except ValueError:
            return None

    def _is_foreign(self, kv: KeyValue) -> bool:
        prefix = self._keys.worker_sessions(self._identity.worker)
        return kv.key.startswith(prefix) and not self._is_mine(kv.key, kv.value, kv.lease)

    async def _delete_dead(self, error: SessionRefusedError) -> None:
        """A key under no lease would bar the name for ever; a live worker puts its own again within a TTL."""
        now = self._clock.monotonic()
        dead = {(kv.key, kv.mod_revision) for kv in error.found if self._is_foreign(kv)}
        self._detached_since = {one: self._detached_since.get(one, now) for one in dead}
        for (key, revision), since in self._detached_since.items():
            if now - since >= 2 * self._ttl_s:
                with suppress(EtcdError, UnavailableError):
                    await self._client.txn(sweeps.dead_session(key, revision))

    async def _publish(self) -> None:
        if self.session is None:
            return
        member = self._member
        self._publishing += 1
        try:
            if await self.session.update_value(member.to_json()):
                self._published = member
        except (EtcdError, UnavailableError) as error:
            extra = {"action": "session.publish_failed"}
            _log.warning("could not publish yet what changed about this worker: %s", error, extra=extra)
        finally:
            self._publishing -= 1

    async def _beat(self, session: Session) -> None:
        pace, round_trip_ms = BeatPace(), None
        while True:
            if self._published is not self._member and not self._publishing:
                await self._publish()  # etcd was away, or the session was not open yet, when it changed
            load, memory_percent = machine_load()
            sent_s = self._clock.boottime()  # before its wall clock is read: a freeze in between is on the way, too
            beat = replace(
                self._describe(), load=load, memory_percent=memory_percent, round_trip_ms=round_trip_ms,
                wall_ms=self._clock.wall_ms(),
            )  # fmt: skip
            round_trip_ms = None
            with suppress(EtcdError, UnavailableError):  # the next one comes soon; the session tells if etcd is away
                await self._client.txn(put_beat(self._keys, beat, self._identity.worker, session))
                round_trip_ms = round((self._clock.boottime() - sent_s) * 1000)
            await asyncio.sleep(pace.after(beat.clock))


def client_address(client: EtcdClient) -> str:
    """The address of this machine as etcd sees it: the local end of a route to it."""
    host = client.endpoint.rpartition(":")[0].strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing: it only chooses a route
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
