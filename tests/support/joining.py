"""Live workers, as they would describe themselves in etcd."""

from __future__ import annotations

from typing import Any

from common.protocol.member import Beat, Member
from tests.support.managing import Managed
from tests.support.waiting import wait_until

_ALIVE_S = 600
"""Longer than any test uses one."""


async def join(manager: Managed, name: str, *, beat: Beat | None = None, **fields: Any) -> None:
    """The worker has a session, and a beat if one is given; the manager has seen it."""
    key = await put_worker(manager, name, beat=beat, **fields)
    await wait_until(lambda: key in manager.parts.watching.workers, description=f"the manager sees {name}")


async def put_worker(manager: Managed, name: str, *, beat: Beat | None = None, **fields: Any) -> str:
    """The same, whether or not the manager has seen it; the key of the session."""
    lease = await manager.etcd.lease_grant(_ALIVE_S)
    session = f"{lease.id:x}"
    values: dict[str, Any] = {"instance": "i", "host": "h", "address": "10.0.0.1", "slots": 2} | fields
    member = Member(worker=name, session=session, **values)
    key = manager.keys.worker(name, session)
    await manager.etcd.put(key, member.to_json(), lease.id)
    if beat is not None:
        await manager.etcd.put(manager.keys.beat(name), beat.to_json(), lease.id)
    return key
