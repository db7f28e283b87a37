"""The end of a chaos run: everything is mended, the jobs must fire again, and all must come to rest by itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from common.errors import EtcronError
from common.runlog import RunLog
from tests.chaos.faults.breaking import KEYS
from tests.chaos.fleet import Fleet
from tests.chaos.history import Leftover, Stage, Stored, wall_ms
from tests.chaos.jobs import Spec
from tests.chaos.users import Users
from tests.support.waiting import wait_until

RECOVERS_WITHIN_S = 60.0
SETTLES_WITHIN_S = 90.0
_OPEN = (KEYS.runs, KEYS.locks, KEYS.requests, KEYS.kills)
_LONGEST_STEP_S = 10
_BEHIND = 100
"""Revisions: a few seconds of beats."""


async def settle(fleet: Fleet, users: Users, specs: list[Spec]) -> None:
    """Heal, see the jobs fire, pause them all, wait for rest; each stage is noted, also one that is not reached."""
    await fleet.heal()
    _reached(fleet, "healed")
    healed_ms = wall_ms()
    regular = {spec["name"] for spec in specs if _is_regular(spec)}

    def silent() -> set[str]:
        return regular - fleet.witness.jobs_since(healed_ms)

    await _stage(fleet, "recovered", lambda: not silent(), RECOVERS_WITHIN_S, lambda: f"no fire of {sorted(silent())}")
    for spec in specs:
        await users.pause(spec["name"])
    _reached(fleet, "paused")
    left: list[str] = []

    async def at_rest() -> bool:
        left[:] = [key for key, _ in await _open_keys(fleet)]
        return not left

    await _stage(fleet, "settled", at_rest, SETTLES_WITHIN_S, lambda: f"{len(left)} keys are left: {left[:5]}")


async def collect(fleet: Fleet) -> None:
    """Evidence, records and what is left in etcd, into the history."""
    for one in fleet.witness.all():
        fleet.history.add(one)
    async with RunLog(fleet.log_store.uri) as log:
        cursor: str | None = None
        while True:
            page = await log.runs(cursor=cursor, limit=500, deadline_seconds=60)
            for document in page.items:
                fleet.history.add(Stored(document=document))
            cursor = page.next_cursor
            if cursor is None:
                break
    for key, value in await _open_keys(fleet):
        fleet.history.add(Leftover(key=key, value=value))
    if differ := await _members_that_differ(fleet):
        _reached(fleet, f"etcd itself has lost writes, and nothing can be said of etcron: its members are at {differ}")


async def _members_that_differ(fleet: Fleet) -> list[int]:
    """The revisions of etcd's members where they are further apart than any is behind: 3.5.0 to 3.5.2 do that."""
    revisions = [(await fleet.client.status(address)).revision for address in fleet.client.endpoints]
    return revisions if max(revisions) - min(revisions) > _BEHIND else []


async def _open_keys(fleet: Fleet) -> list[tuple[str, str]]:
    found = []
    for prefix in _OPEN:
        async for page in fleet.client.read_prefix(prefix):
            found += [(kv.key, kv.value.decode(errors="replace")) for kv in page.kvs]
    return found


async def _stage(
    fleet: Fleet, name: str, is_reached: Callable[[], bool | Awaitable[bool]], within_s: float, why: Callable[[], str]
) -> None:
    async def looked() -> bool:
        try:
            answer = is_reached()
            return await answer if inspect.isawaitable(answer) else answer
        except EtcronError:
            return False

    try:
        await wait_until(looked, description=name, timeout=within_s, at_most_every_s=0.5)
    except AssertionError:
        _reached(fleet, name, failed=f"not within {within_s:g} s: {why()}")
    else:
        _reached(fleet, name)


def _reached(fleet: Fleet, name: str, failed: str = "") -> None:
    fleet.history.add(Stage(name=name, at_ms=wall_ms(), failed=failed))


def _is_regular(spec: Spec) -> bool:
    """Whether it fires at least every ten seconds."""
    return "after" in spec or ("every" in spec and int(spec["every"][:-1]) <= _LONGEST_STEP_S)
