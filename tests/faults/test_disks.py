"""A worker's disk hangs: nothing but its records waits for it, and it takes on nothing that it could not record."""

from __future__ import annotations

import signal
from pathlib import Path

import aiohttp
import pytest

from common.protocol.member import Member as Stored
from tests.chaos.faults.breaking import KEYS
from tests.chaos.fleet import Member
from tests.chaos.history import Note, wall_ms
from tests.chaos.view import DISK_HANGS
from tests.faults.fault_run import FaultRun, fault_run
from tests.support.disks import loop_disk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

_HANGS_MS = 15_000
_TTL_S, _LOST_AFTER_S = 6, 12.0
"""The disk hangs for longer than twice a session, and a busy machine holds nobody up for one."""


async def test_a_disk_that_hangs(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "worker-1") as disk:
        if disk is None:
            pytest.skip("a disk cannot be mounted and frozen here: that takes root, a loop device, mkfs.ext4, fsfreeze")
        async with fault_run(tmp_path, ttl_s=_TTL_S, lost_after_s=_LOST_AFTER_S) as run:
            await run.save(
                run.job("skip", "1s", seconds=0.3), run.job("allow", "1s", overlap="allow"),
                run.job("lasting", "2s", seconds=3), run.job("chain", "1s", after=True),
            )  # fmt: skip
            victim, other = run.fleet.workers
            await run.starts(victim, 4)
            [before] = await sessions(run, victim)
            with run.noted(f"{DISK_HANGS} for 15 s", victim.name), disk.hanging():
                hangs_ms = wall_ms()
                await says_that_it_hangs(run, victim)
                said_ms = wall_ms()
                await run.recorded(victim)
                await wait_until(lambda: is_told(run, victim), description="its manager tells of it, too")
                told = f"said after {said_ms - hangs_ms} ms, all locks free after {wall_ms() - hangs_ms} ms"
                run.fleet.history.add(Note(text=told))
                await run.starts(other, 8)
                await run.wait(lambda: wall_ms() > hangs_ms + _HANGS_MS, "it hangs for fifteen seconds")
                [during] = await sessions(run, victim)
                assert during.session == before.session, "it was in touch all the time"
            await run.starts(victim, 4)
            [after] = await sessions(run, victim)
            assert (after.session, after.not_accepting) == (before.session, None), "it goes on by itself"
            view = await run.judged()
            refused = [record for _, record in view.records() if "disk hangs" in record.get("err", "")]
            assert refused, "it met records"
            assert {record["status"] for record in refused} == {"success"}


async def test_a_worker_is_stopped_while_its_disk_hangs(tmp_path: Path) -> None:
    """The kernel keeps its process until the disk answers; its runs and its session do not wait for that."""
    with loop_disk(tmp_path / "worker-1") as disk:
        if disk is None:
            pytest.skip("a disk cannot be mounted and frozen here: that takes root, a loop device, mkfs.ext4, fsfreeze")
        async with fault_run(tmp_path) as run:
            await run.save(run.job("skip", "1s"), run.job("allow", "1s", overlap="allow"))
            victim, other = run.fleet.workers
            await run.starts(victim, 2)
            with run.noted(f"{DISK_HANGS}, SIGTERM", victim.name), disk.hanging():
                await says_that_it_hangs(run, victim)
                victim.send(signal.SIGTERM)
                await run.session_gone(victim)
                await run.recorded(victim)
                await run.starts(other, 4)
            assert await victim.end(signal.SIGCONT), "it ends once the kernel lets it"
            victim.revive()
            await run.judged()


async def says_that_it_hangs(run: FaultRun, member: Member) -> None:
    async def says() -> bool:
        return any("disk hangs" in (one.not_accepting or "") for one in await sessions(run, member))

    await wait_until(says, description=f"{member.name} says that its disk hangs")


async def is_told(run: FaultRun, member: Member) -> bool:
    """Whether `/readyz` says why this worker takes no fires, and `/metrics` that there is one."""
    at = f"http://127.0.0.1:{run.fleet.managers[0].port}"
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{at}/readyz", params={"verbose": ""}) as answer:
            problems = (await answer.json())["problems"]
        async with http.get(f"{at}/metrics") as answer:
            metrics = await answer.text()
    is_said = any(f"{member.name} takes no fires: the spool's disk hangs" in one for one in problems)
    return is_said and 'etcron_workers{state="not_accepting"} 1' in metrics


async def sessions(run: FaultRun, member: Member) -> list[Stored]:
    """Of this worker, as others see it."""
    found = []
    async for page in run.fleet.client.read_prefix(KEYS.worker_sessions(member.name)):
        for kv in page.kvs:
            worker, session = KEYS.session_of(kv.key)
            found.append(Stored.from_json(kv.value, worker=worker, session=session, lease=kv.lease))
    return found
