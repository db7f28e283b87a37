"""What others do to our keys: garbage under each prefix, a lease revoked, a session key detached from its lease."""

from __future__ import annotations

from common.errors import EtcronError
from common.protocol.txn import KeyValue
from tests.chaos.faults.breaking import ETCD, KEYS, Breaking, Table, not_now
from tests.support.waiting import wait_until

_GARBAGE_FOR_S = 15
_GONE_WITHIN_S = 120


class KeyFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking

    def table(self) -> Table:
        return {
            "garbage": (2, self._garbage),
            "session revoked": (2, self._session_revoked),
            "session detached": (2, self._session_detached),
        }

    async def _session_revoked(self) -> None:
        session = await self._a_session()
        name, lease_hex = KEYS.session_of(session.key)
        async with self._on.noted("its lease is revoked", name):
            await self._on.fleet.client.lease_revoke(int(lease_hex, 16))

    async def _session_detached(self) -> None:
        session = await self._a_session()
        async with self._on.noted("its session key is put without the lease", KEYS.session_of(session.key)[0]):
            await self._on.fleet.client.put(session.key, session.value)

    async def _a_session(self) -> KeyValue:
        """Of a worker that no fault is on, while etcd is well."""
        member = self._on.one_of(self._on.fleet.workers)
        if ETCD in self._on.busy:
            not_now()
        async for page in self._on.fleet.client.read_prefix(KEYS.worker_sessions(member.name)):
            return page.kvs[0] if page.kvs and member.name not in self._on.busy else not_now()
        return not_now()

    async def _garbage(self) -> None:
        """Values that do not parse, under each prefix; taken away again."""
        names = _garbage_keys(f"garbage-{self._on.chance.getrandbits(30):x}")
        async with self._on.noted("garbage under each prefix", "keys"):
            try:
                for name in names:
                    await self._on.fleet.client.put(name, b"{\xff")
                await self._on.lasting(_GARBAGE_FOR_S)
            finally:
                for name in names:
                    await self._deleted(name)

    async def _deleted(self, key: str) -> None:
        async def is_gone() -> bool:
            try:
                await self._on.fleet.client.delete(key)
            except EtcronError:
                return False  # etcd is away, by another fault
            return True

        await wait_until(is_gone, description=f"{key} is deleted", timeout=_GONE_WITHIN_S, at_most_every_s=0.5)


def _garbage_keys(tail: str) -> list[str]:
    keys = KEYS
    names = [keys.job(tail), keys.mark(tail), keys.lock(tail), keys.drain(tail), f"{keys.runs}{tail}"]
    names += [
        f"{keys.runs}{tail}/0000000000000001/1",
        f"{keys.requests}{tail}/x/1",
        f"{keys.kills}{tail}/x/y",
        f"{keys.give_ups}{tail}/1/1",
    ]
    return [
        *names,
        f"{keys.workers}{tail}",
        f"{keys.beats}{tail}",
        f"{keys.dedupe}{tail}/x",
        f"{keys.versions}{tail}/x",
    ]
