"""etcd itself: its leader killed or frozen, its majority lost, all of it away, its room used up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp

from common.errors import EtcronError
from tests.chaos.faults.breaking import ETCD, Breaking, Table, not_now
from tests.support.etcd_server import EtcdServer

_FILLING = "/chaos-filling/"
_PIECE = b"x" * 1_000_000
_PIECES_AT_MOST = 200
_TRIES_AGAIN_S = 0.5
_LOOKS_AGAIN_S = 1.0
_READY_WITHIN_S = 60


class EtcdFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking
        self._servers = breaking.fleet.etcd

    def table(self) -> Table:
        return {
            "leader killed": (2, self._leader_killed),
            "leader frozen": (2, self._leader_frozen),
            "majority lost": (2, self._majority_lost),
            "all of etcd away": (1, self._all_away),
            "no space": (2, self._no_space),
        }

    async def _leader_killed(self) -> None:
        leader = await self._leader()
        async with self._on.noted("SIGKILL of the leader", ETCD):
            await self._away([leader], self._on.chance.choice([1, 4, 10]))

    async def _leader_frozen(self) -> None:
        leader, seconds = await self._leader(), self._on.chance.choice([3, 8])
        async with self._on.noted(f"SIGSTOP of the leader for {seconds} s", ETCD):
            await leader.pause()
            await self._on.lasting(seconds)
            leader.resume()

    async def _majority_lost(self) -> None:
        seconds = self._on.chance.choice([3, 8, 15])
        async with self._on.noted(f"majority lost for {seconds} s", ETCD):
            await self._away(self._on.chance.sample(self._servers, 2), seconds)

    async def _all_away(self) -> None:
        seconds = self._on.chance.choice([3, 6, 12, 30])
        async with self._on.noted(f"all of etcd stopped for {seconds} s", ETCD):
            await self._away(self._servers, seconds)

    async def _leader(self) -> EtcdServer:
        return not_now() if ETCD in self._on.busy else await self._on.fleet.leader() or not_now()

    async def _away(self, servers: list[EtcdServer], seconds: float) -> None:
        await asyncio.gather(*(server.kill() for server in servers))
        await self._on.lasting(seconds)
        for server in servers:
            server.launch()
        await asyncio.gather(*(server.wait_ready(_READY_WITHIN_S) for server in servers))

    async def _no_space(self) -> None:
        """Filled until it takes nothing more; then compacted, defragmented and disarmed, as an operator would."""
        async with self._on.noted("NOSPACE", ETCD):
            is_full = await self._filled()
            await self._on.lasting(self._on.chance.choice([3, 8, 15, 30]) if is_full else 0)
            await self._room_made()
            if not is_full:
                not_now()

    async def _filled(self) -> bool:
        for number in range(_PIECES_AT_MOST):
            try:
                await self._on.fleet.client.put(f"{_FILLING}{number}", _PIECE)
            except EtcronError:
                with contextlib.suppress(EtcronError):
                    if "NOSPACE" in (await self._on.fleet.client.status()).alarms:
                        return True
        return False

    async def _room_made(self) -> None:
        """Until it has worked: nobody else would do it."""
        while True:
            try:
                async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
                    await self._make_room(http)
                    await asyncio.sleep(_LOOKS_AGAIN_S)
                    if not await self._alarms(http):
                        return
            except (EtcronError, aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_TRIES_AGAIN_S)

    async def _make_room(self, http: aiohttp.ClientSession) -> None:
        """A compaction that is not finished leaves nothing for a defragmentation, and the alarm comes again."""
        client, first = self._on.fleet.client, self._servers[0]
        for number in range(_PIECES_AT_MOST):
            await client.delete(f"{_FILLING}{number}")
        compaction = {"revision": str((await client.status()).revision), "physical": True}
        with contextlib.suppress(aiohttp.ClientResponseError):  # compacted by the try before, or by the steward
            await _asked(http, first, "kv/compaction", compaction)
        for server in self._servers:
            await _asked(http, server, "maintenance/defragment", {})
        for alarm in await self._alarms(http):
            await _asked(http, first, "maintenance/alarm", {"action": "DEACTIVATE", **alarm})

    async def _alarms(self, http: aiohttp.ClientSession) -> list[dict[str, Any]]:
        alarms: list[dict[str, Any]] = (await _asked(http, self._servers[0], "maintenance/alarm", {})).get("alarms", [])
        return alarms


async def _asked(http: aiohttp.ClientSession, server: EtcdServer, what: str, body: dict[str, Any]) -> dict[str, Any]:
    """etcd's own gateway: our client needs none of this."""
    url = f"http://{server.endpoint}/v3/{what}"
    async with http.post(url, json=body, raise_for_status=True) as answer:
        found: dict[str, Any] = await answer.json()
        return found
