"""The election: at most one leader at a time *in etcd's eyes*; its transactions compare that, so that it holds.

    candidate --create the key, absent until then--> leading --key or session gone, or stood down--> candidate

A leader that was frozen may believe for a while that it still leads; a transaction with `election.leads_compare` and
`session.alive` in it fails then. Whatever a leader does without such a transaction may happen twice.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd.client import EtcdClient
from common.etcd.mirror import Change, Mirror, MirrorTimings
from common.etcd.session import Session
from common.protocol.compares import Compare, absent, create_revision_is, lease_is, mod_revision_is
from common.protocol.txn import Delete, Get, KeyValue, Put, Txn

_log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often health and the end of standing down are looked at."""
_ASK_S = 10.0
"""How often etcd is asked although nothing was seen to change."""
_NEVER = -1
"""A create revision that no key ever has."""


class Election:
    """A candidacy for one key, under one session; a new session needs a new election.

    `gained` is set exactly while `leading`, `lost` exactly while not. The handover takes as long as the lease lives
    on, or no time where the leader stood down or closed its session.
    """

    def __init__(
        self,
        client: EtcdClient,
        session: Session,
        key: str,
        value: bytes,
        *,
        clock: Clock,
        timings: MirrorTimings | None = None,
    ) -> None:
        self.key = key
        self.gained = asyncio.Event()
        self.lost = asyncio.Event()
        self.lost.set()
        self._client = client
        self._session = session
        self._value = value
        self._clock = clock
        self._since = _NEVER
        self._holder: KeyValue | None = None
        self._not_before = clock.monotonic()
        self._asked = -_ASK_S
        self._unanswered = False
        self._learned = 0
        """The revision of etcd that `_holder` is of."""
        self._changed = asyncio.Event()
        self._mirror = Mirror(client, key, self._seen, clock=clock, timings=timings)

    @property
    def leading(self) -> bool:
        """Whether it leads, as far as this process knows, under a session that is healthy."""
        return self._since != _NEVER and self._session.healthy

    @property
    def leads_compare(self) -> Compare:
        """True in etcd exactly while the leadership that was gained last still holds; false before the first."""
        return create_revision_is(self.key, self._since)

    @property
    def holder(self) -> bytes | None:
        """The value of the one that leads, as last seen; None: none does."""
        return self._holder.value if self._holder is not None else None

    async def confirm(self) -> bool:
        """Whether etcd says, asked now, that it leads; False where etcd does not answer."""
        try:
            return (await self._client.txn(Txn([self._session.alive, self.leads_compare], []))).succeeded
        except (UnavailableError, EtcdError):
            return False

    async def run(self) -> None:
        """Stands for election, again and again; returns when the session is over.

        Cancelled earlier, it leaves the key to the session: `stand_down` gives it up at once.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._mirror.run(), name=f"election {self.key}: watch")
                while not self._session.ended.is_set():
                    if self._is_due():
                        await self._ask()
                    self._signal()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await self._changed.wait()
                watching.cancel()
        finally:
            self._lose("the session is over" if self._session.ended.is_set() else "the candidacy has ended")

    async def stand_down(self, for_s: float) -> None:
        """Gives the leadership up, if it has it, and does not stand again for so long.

        Where etcd does not answer now, `run` sees to it that the key goes.
        """
        self._not_before = self._clock.monotonic() + for_s
        self._lose("stood down")
        self._changed.set()
        try:
            await self._give_up()
        except (UnavailableError, EtcdError) as error:
            extra = {"action": "election.failed", "key": self.key}
            _log.warning("%s is given up as soon as etcd answers: %s", self.key, error, extra=extra)

    # Standing

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        vacant = self._holder is None and now >= self._not_before
        # The mirror tells nothing of a key that came and went between two messages, but its revision moves on.
        outdated = self._changed.is_set() or self._mirror.revision > self._learned
        return vacant or outdated or now - self._asked >= _ASK_S

    async def _ask(self) -> None:
        """Takes the key if it is free, and learns who has it."""
        self._changed.clear()
        try:
            if self._clock.monotonic() >= self._not_before:
                self._learn(await self._campaign())
            else:
                await self._give_up()
            await self._sweep_detached()
            self._asked = self._clock.monotonic()
            self._unanswered = False
        except (UnavailableError, EtcdError) as error:
            self._asked = -_ASK_S  # again at the next look; a campaign in doubt is settled by the next one
            level = logging.DEBUG if self._unanswered else logging.WARNING  # one line for each change of state
            self._unanswered = True
            extra = {"action": "election.failed", "key": self.key}
            _log.log(level, "no answer in the election for %s: %s", self.key, error, extra=extra)

    async def _campaign(self) -> KeyValue | None:
        """The key as it is, after it was taken if it was free."""
        put = Put(self.key, self._value, self._session.lease_id)
        result = await self._client.txn(Txn([self._session.alive, absent(self.key)], [put], [Get(self.key)]))
        self._learned = result.revision
        if not result.succeeded:
            return result.one(0)
        return KeyValue(
            key=put.key,
            value=put.value,
            create_revision=result.revision,
            mod_revision=result.revision,
            version=1,
            lease=put.lease,
        )

    async def _give_up(self) -> None:
        """Deletes the key if it is this session's (also one that a campaign in doubt has put); learns whose it is."""
        mine = lease_is(self.key, self._session.lease_id)
        result = await self._client.txn(Txn([mine], [Delete(self.key)], [Get(self.key)]))
        self._learned = result.revision
        self._learn(None if result.succeeded else result.one(0))

    async def _sweep_detached(self) -> None:
        """A key that is under no lease would never go: what put it without one is no leader."""
        if self._holder is not None and self._holder.lease == 0:
            extra = {"action": "election.swept", "key": self.key}
            _log.warning("%s is under no lease and is deleted", self.key, extra=extra)
            await self._client.txn(Txn([mod_revision_is(self.key, self._holder.mod_revision)], [Delete(self.key)]))

    def _seen(self, changes: list[Change]) -> None:
        if any(change.key == self.key for change in changes):
            self._changed.set()

    # Leading

    def _learn(self, holder: KeyValue | None) -> None:
        self._holder = holder
        if holder is None or holder.lease != self._session.lease_id:
            self._lose("somebody else leads" if holder is not None else "the key is gone")
        elif self._clock.monotonic() < self._not_before:
            self._changed.set()  # a campaign that was on its way when it stood down has won: give that up too
        elif holder.create_revision != self._since:
            self._since = holder.create_revision
            extra = {"action": "election.gained", "key": self.key, "revision": self._since}
            _log.info("leads %s", self.key, extra=extra)

    def _lose(self, why: str) -> None:
        if self._since != _NEVER:
            self._since = _NEVER
            _log.warning("no longer leads %s: %s", self.key, why, extra={"action": "election.lost", "key": self.key})
        self._signal()

    def _signal(self) -> None:
        now, before = (self.gained, self.lost) if self.leading else (self.lost, self.gained)
        before.clear()
        now.set()
