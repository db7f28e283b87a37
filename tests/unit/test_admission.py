"""Whether a worker takes fires, and who has to know first."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from common.etcd import EtcdClient, Session
from common.protocol.keys import Keys
from common.protocol.member import Beat, RunsAs, WorkerIdentity
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.admission import Admission, Reason
from worker.registry import Registry


def test_reason_holds_at_once() -> None:
    admission = Admission()
    assert admission.takes_fires
    admission.set(Reason.SPOOL, "its disk is full")
    assert not admission.takes_fires
    assert admission.starts_claimed


def test_fires_are_taken_again_only_when_the_others_have_been_told() -> None:
    admission = Admission()
    admission.set(Reason.DRAIN, "drained by me")
    admission.announced()
    admission.set(Reason.DRAIN, None)
    assert (admission.why_not, admission.takes_fires, admission.starts_claimed) == (None, False, True)
    admission.announced()
    assert admission.takes_fires


def test_announcement_opens_nothing_while_another_reason_holds() -> None:
    admission = Admission()
    admission.set(Reason.DRAIN, "drained by me")
    admission.set(Reason.SPOOL, "its disk is full")
    assert admission.why_not == "drained by me; its disk is full"
    admission.set(Reason.DRAIN, None)
    admission.announced()
    assert not admission.takes_fires


@pytest.mark.parametrize("reason", list(Reason))
def test_what_is_claimed_is_handed_on_where_it_should_not_start_here(reason: Reason) -> None:
    admission = Admission()
    admission.set(reason, "why")
    assert admission.starts_claimed is (reason in (Reason.SPOOL, Reason.GUARDIAN))


class SlowSession:
    """One write of the session's key after the other, each when the test says so."""

    def __init__(self) -> None:
        self.writing = asyncio.Lock()
        self.may_write = asyncio.Semaphore(0)
        self.said: list[str | None] = []

    async def update_value(self, value: bytes) -> bool:
        async with self.writing:
            await self.may_write.acquire()
            self.said.append(json.loads(value).get("notAccepting"))
        return True


class Announcing:
    """A worker's presence on an etcd that is slow."""

    def __init__(self) -> None:
        async def opened(_: Session) -> None: ...

        self.admission, self.session, clock = Admission(), SlowSession(), FakeClock()
        self.registry = Registry(
            client=cast(EtcdClient, type("Client", (), {"endpoint": "127.0.0.1:1"})), keys=Keys("/test"),
            identity=WorkerIdentity(worker="w1", instance="0", host="h"), slots=1, labels={}, ttl_s=5, isolates=False,
            runs_as=RunsAs(uid=0),
            on_opened=opened,
            on_ended=lambda: None, describe=lambda: Beat(kind="worker", wall_ms=0), admission=self.admission,
            clock=clock,
        )  # fmt: skip
        self.registry.session = cast(Session, self.session)

    @classmethod
    async def whose_reason_has_gone(cls) -> Announcing:
        """It has announced that its disk is full, which is over now."""
        one = cls()
        one.admission.set(Reason.SPOOL, "its disk is full")
        one.session.may_write.release()
        await one.registry.announce()
        one.admission.set(Reason.SPOOL, None)
        return one

    async def written(self, *said: str | None) -> None:
        """One more write is carried out; this is all that was said by then."""
        self.session.may_write.release()
        await wait_until(lambda: self.session.said == [*said], description=f"{said} to be said")


async def test_reason_that_goes_while_it_is_announced_opens_nothing_before_that_is_announced_too() -> None:
    one = Announcing()
    one.admission.set(Reason.SPOOL, "its disk is full")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(one.registry.announce())
        await wait_until(one.session.writing.locked, description="the reason to be on its way")
        one.admission.set(Reason.SPOOL, None)
        tasks.create_task(one.registry.announce())
        await one.written("its disk is full")
        assert not one.admission.takes_fires, "that is what the others have been told last"
        await one.written("its disk is full", None)
    assert one.admission.takes_fires


async def test_who_has_nothing_new_to_announce_waits_for_what_is_on_its_way() -> None:
    one = await Announcing.whose_reason_has_gone()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(one.registry.announce())
        await wait_until(one.session.writing.locked, description="the end of the reason to be on its way")
        one.admission.set(Reason.DRAIN, None)
        also = tasks.create_task(one.registry.announce())
        await asyncio.sleep(0)
        assert (also.done(), one.admission.takes_fires) == (False, False)
        await one.written("its disk is full", None)
        one.session.may_write.release()
    assert one.admission.takes_fires


async def test_reason_that_comes_while_the_end_of_another_is_announced_holds() -> None:
    one = await Announcing.whose_reason_has_gone()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(one.registry.announce())
        await wait_until(one.session.writing.locked, description="the end of the reason to be on its way")
        one.admission.set(Reason.CLOCK, "its clock jumped")
        await one.written("its disk is full", None)
        assert not one.admission.takes_fires
        one.admission.set(Reason.CLOCK, None)  # before anybody was told of it
        await one.registry.announce()
    assert one.admission.takes_fires
