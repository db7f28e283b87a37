"""The network between a process and its stores: swallowed, one way, reset, slow; answers cut off after the commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from common.errors import EtcronError
from common.protocol.txn import Get, Txn
from tests.chaos.faults.breaking import ETCD, KEYS, LOG_STORE, Breaking, Table
from tests.chaos.member import Member
from tests.support.proxy import Mode, Proxy

_CUT = (Mode.SWALLOW, Mode.ONE_WAY, Mode.RESET, Mode.DELAY)
_CUT_S = (5, 12, 20, 30, 60, 120)
_SLOW_S = 0.4
_CLAIM_LEAD_S = 0.2


class NetworkFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking

    def table(self) -> Table:
        return {
            "network to etcd": (5, self._to_etcd),
            "network to the log store": (3, self._to_the_log_store),
            "answers cut": (2, self._answers_cut),
            "answers to claims cut": (3, self._answers_to_claims_cut),
            "compaction under a cut watch": (2, self._compaction_under_a_cut_watch),
        }

    async def _to_etcd(self) -> None:
        member = self._on.one_of(self._on.fleet.members)
        await self._cut(member, member.etcd, ETCD)

    async def _to_the_log_store(self) -> None:
        member = self._on.one_of(self._on.fleet.members)
        await self._cut(member, [member.log_store], LOG_STORE)

    async def _cut(self, member: Member, ways: list[Proxy], store: str) -> None:
        mode, seconds = self._on.chance.choice(_CUT), self._on.chance.choice(_CUT_S)
        async with self._on.noted(f"{store}: {mode.name.lower()} for {seconds} s", member.name):
            for way in ways:
                way.delay_s = _SLOW_S
            _set(ways, mode)
            await self._on.lasting(seconds)
            _set(ways, Mode.PASS)

    async def _answers_cut(self) -> None:
        """Again and again an answer is dropped after etcd has done what was asked."""
        member = self._on.one_of(self._on.fleet.members)
        async with self._on.noted("answers of etcd cut off", member.name):
            for _ in range(self._on.chance.randrange(5, 40)):
                _set(member.etcd, Mode.CUT_REPLY)
                await self._on.lasting(0.3)
            _set(member.etcd, Mode.PASS)

    async def _answers_to_claims_cut(self) -> None:
        """Nearly all fires are due at whole seconds, and claimed shortly before: then an answer is dropped."""
        member = self._on.one_of(self._on.fleet.workers)
        async with self._on.noted("answers of etcd cut off when it claims", member.name):
            for _ in range(self._on.chance.randrange(3, 12)):
                await self._on.lasting((1 - _CLAIM_LEAD_S - time.time()) % 1)
                _set(member.etcd, Mode.CUT_REPLY)
                await self._on.lasting(_CLAIM_LEAD_S)
                _set(member.etcd, Mode.PASS)

    async def _compaction_under_a_cut_watch(self) -> None:
        member, client = self._on.one_of(self._on.fleet.members), self._on.fleet.client
        async with self._on.noted("compaction while its watches are cut", member.name):
            _set(member.etcd, Mode.SWALLOW)
            await self._on.lasting(self._on.chance.uniform(2, 7))
            with contextlib.suppress(EtcronError):  # etcd may be away by another fault
                await client.compact((await client.txn(Txn((), [Get(KEYS.steward)]))).revision)
            await self._on.lasting(1)
            _set(member.etcd, Mode.RESET)
            _set(member.etcd, Mode.PASS)


def _set(ways: Iterable[Proxy], mode: Mode) -> None:
    for way in ways:
        way.set(mode)
