"""The steward deletes what is needed no more, and finds what watchers may have missed.

* kills of runs that are settled; locks whose run key is gone; marks a day old without a job, or whose worker is away;
* dedupe keys and idempotency keys past their time;
* session keys that hang on another lease than their name tells, after twice the TTL;
* every 30 s the watched prefixes are counted, every 10 minutes compared in full: on a mismatch the sentinel is put,
  and a process that has missed something reads again (what one watch has lost, those of others may have lost, too);
* etcd's history is compacted to a few minutes ago.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Final

from common.clock import Clock
from common.errors import EtcdCompactedError
from common.etcd import EtcdClient, Mirror
from common.protocol import sweeps
from common.protocol.dedupe import Remembered
from common.protocol.keys import Keys, RunId, Watched, read_mark, split_sequence
from common.protocol.request import read_request
from common.protocol.run_writes import owns_lock
from common.protocol.txn import KeyValue, Txn
from worker.catalog import Catalog
from worker.kills import Kills
from worker.lead.leader import Term
from worker.members import Members
from worker.quarantine import Quarantine

MARGIN_MS: Final = 60_000
"""Managers' clocks differ, and a call in doubt looks for its own key a little longer than it is asked to."""
_IN_ONE: Final = 60
_REST: Final = 100
"""How many times as long as it took, it rests: the more there is, the rarer."""


class DedupeSweeping:
    """Deletes what has expired, a minute late."""

    name = "sweeping dedupe keys"
    every_s = 60.0

    def __init__(self, *, client: EtcdClient, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._quarantine = Quarantine("dedupe key")
        self._not_before = float("-inf")

    def begin(self) -> None:
        self._not_before = float("-inf")

    def end(self) -> None:
        self._not_before = float("-inf")

    async def perform(self, term: Term) -> None:
        began = self._clock.monotonic()
        if began < self._not_before:
            return
        async for page in self._client.read_prefix(self._keys.dedupe):
            over = [kv for kv in page.kvs if self._is_over(kv)]
            # Together; where one of them has been put again meanwhile, the others wait for the next time.
            for start in range(0, len(over), _IN_ONE):
                batch = over[start : start + _IN_ONE]
                await self._client.txn(sweeps.delete_unchanged(*batch, guards=term.holds))
        self._not_before = began + _REST * (self._clock.monotonic() - began)

    def _is_over(self, kv: KeyValue) -> bool:
        try:
            return Remembered.from_json(kv.value).is_over(self._clock.wall_ms() - MARGIN_MS)
        except ValueError as error:
            self._quarantine.add(kv.key, kv.mod_revision, error)
            return False


_log = logging.getLogger(__name__)

COMPARE_EVERY_S: Final = 600.0
MARK_KEPT_MS: Final = 86_400_000


class Sweeping:
    """Keeps etcd tidy, and watchers honest."""

    name = "sweeping"
    every_s = 30.0

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        catalog: Catalog,
        kills: Kills,
        members: Members,
        mirrors: Mapping[Watched, Mirror],
        ttl_s: int,
        compaction_minutes: int,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._catalog = catalog
        self._kills = kills
        self._members = members
        self._mirrors = mirrors
        self._ttl_s = ttl_s
        self._keep_s = compaction_minutes * 60
        self._clock = clock
        self._revisions: deque[tuple[float, int]] = deque()
        self._suspects: dict[str, float] = {}
        self._misses: dict[Watched, int] = {}
        self._compared = clock.monotonic()
        self._quarantine = Quarantine("sweeping")

    def begin(self) -> None:
        self._misses = {watched: mirror.misses for watched, mirror in self._mirrors.items()}
        self._revisions.clear()
        self._suspects.clear()
        self._compared = self._clock.monotonic()

    def end(self) -> None:
        self._revisions.clear()
        self._suspects.clear()

    async def perform(self, term: Term) -> None:
        try:
            for step in (self._sweep_kills, self._sweep_locks, self._sweep_sessions, self._count, self._rarely):
                with self._quarantine.isolate(step.__name__, 0):
                    await step(term)
        finally:
            await self._compact()  # also where etcd takes no writes because it is full

    async def _rarely(self, term: Term) -> None:
        if self._clock.monotonic() - self._compared < COMPARE_EVERY_S:
            return
        await self._sweep_marks(term)
        for mirror in self._mirrors.values():
            mirror.resync("the steward compares in full")
        self._compared = self._clock.monotonic()

    async def _sweep_kills(self, term: Term) -> None:
        """A kill stays until its run is settled; while the job's next link cannot be read here, that may be its run."""
        kills = dict(self._kills.by_run)
        wanted = [key for run_id in kills for key in (self._keys.run(run_id), self._keys.request(run_id))]
        there = await self._client.get_keys(wanted) if wanted else {}
        links = await self._client.get_many([self._keys.chain(run_id.job) for run_id in kills]) if kills else {}
        for run_id, kill in kills.items():
            run, request, link = self._keys.run(run_id), self._keys.request(run_id), self._keys.chain(run_id.job)
            link_request = read_request(self._keys, links.get(link))
            is_link = link in links and (link_request is None or link_request.run_id == run_id)
            if run not in there and request not in there and not is_link:
                await self._client.txn(sweeps.kill(self._keys, kill, guards=term.holds))

    async def _sweep_locks(self, term: Term) -> None:
        """A lock and its run key come in one transaction: one without the other will never be freed by a run."""
        locks = {kv.key: kv async for page in self._client.read_prefix(self._keys.locks) for kv in page.kvs}
        runs = {key: run for key, kv in locks.items() if (run := self._run_of_lock(key, kv.value)) is not None}
        there = await self._client.get_keys([self._keys.run(run) for run in runs.values()])
        orphans = {
            key
            for key, kv in locks.items()
            if (holder := there.get(self._keys.run(runs[key])) if key in runs else None) is None
            or not owns_lock(kv, holder.create_revision)
        }
        for key, since in self._still_suspect("lock", orphans).items():
            if self._clock.monotonic() - since < self.every_s:
                continue
            with self._quarantine.isolate(key, locks[key].mod_revision):
                result = await self._client.txn(sweeps.lock(locks[key], guards=term.holds))
                if result.succeeded:
                    extra = {"action": "lock.swept", "key": key}
                    _log.warning("the lock %r belonged to no run any more; it is free", key, extra=extra)

    async def _sweep_sessions(self, term: Term) -> None:
        for key, since in self._still_suspect("session", set(self._members.detached)).items():
            if self._clock.monotonic() - since < 2 * self._ttl_s:
                continue
            with self._quarantine.isolate(key, 0):
                kv = await self._client.get(key)
                if kv is not None and key in self._members.detached:
                    await self._client.txn(sweeps.delete_unchanged(kv, guards=term.holds))

    async def _sweep_marks(self, term: Term) -> None:
        before_ms = self._clock.wall_ms() - MARK_KEPT_MS
        async for page in self._client.read_prefix(self._keys.marks):
            for kv in page.kvs:
                mark_ms = read_mark(kv)
                if mark_ms is None or mark_ms >= before_ms:
                    continue
                with self._quarantine.isolate(kv.key, kv.mod_revision):
                    if (txn := self._without_mark(term, kv)) is not None:
                        await self._client.txn(txn)

    def _without_mark(self, term: Term, mark: KeyValue) -> Txn | None:
        """None: a mark of a day ago is still of use."""
        name, worker = split_sequence(self._keys.job_of(mark.key))
        if name not in self._catalog.jobs and name not in self._catalog.set_aside:
            return sweeps.mark_of_no_job(self._keys, mark, name, guards=term.holds)
        if worker is None or any(member.worker == worker for member in self._members.by_key.values()):
            return None
        return sweeps.mark_of_no_worker(self._keys, mark, worker, guards=term.holds)

    async def _count(self, term: Term) -> None:
        for watched, mirror in self._mirrors.items():
            before, count, after = len(mirror), await self._client.count(mirror.prefix), len(mirror)
            suspects = self._still_suspect(f"count {watched}", set() if count in (before, after) else {watched})
            if any(self._clock.monotonic() - since >= self.every_s for since in suspects.values()):
                extra = {"action": "watch.mismatch", "prefix": mirror.prefix, "count": count, "known": after}
                _log.warning("%s has %d keys, not %d: read again", mirror.prefix, count, after, extra=extra)
                mirror.resync("the count does not match")
                await self._client.txn(sweeps.missed_something(self._keys, watched, guards=term.holds))
            elif mirror.misses > self._misses.get(watched, 0):
                extra = {"action": "watch.mismatch", "prefix": mirror.prefix, "misses": mirror.misses}
                _log.warning("the watch of %s had missed something", mirror.prefix, extra=extra)
                await self._client.txn(sweeps.missed_something(self._keys, watched, guards=term.holds))
                self._misses[watched] = mirror.misses

    async def _compact(self) -> None:
        if not self._keep_s:
            return
        now = self._clock.monotonic()
        async for page in self._client.read_prefix(self._keys.steward):  # any read tells it, and asks for no role
            self._revisions.append((now, page.revision))
        target = 0
        while self._revisions and self._revisions[0][0] <= now - self._keep_s:
            target = self._revisions.popleft()[1]
        if target:
            try:
                await self._client.compact(target)
            except EtcdCompactedError:
                return  # another steward has done it

    def _still_suspect(self, kind: str, names: set[str]) -> dict[str, float]:
        """Since when each of these has been suspected, uninterruptedly; those not named are cleared."""
        prefix = kind + " "
        now = self._clock.monotonic()
        for known in [one for one in self._suspects if one.startswith(prefix) and one[len(prefix) :] not in names]:
            del self._suspects[known]
        return {name: self._suspects.setdefault(prefix + name, now) for name in names}

    def _run_of_lock(self, key: str, value: bytes) -> RunId | None:
        """The run that a lock names; None where it names none of its job."""
        try:
            run_id = RunId.parse(value.decode())
        except ValueError:
            return None
        return run_id if self._keys.lock(run_id.job) == key else None
