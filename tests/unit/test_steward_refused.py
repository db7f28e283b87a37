"""A duty that etcd does not permit is told of, in the log once an hour, and the others are done."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from common.errors import EtcdAccessError, Problem
from tests.support.fake_clock import FakeClock
from worker.lead.leader import Steward, Term


class Forbidden:
    """Compaction, for a user without the role root."""

    name = "sweeping"
    every_s = 30.0
    permitted = False

    def begin(self) -> None: ...

    async def perform(self, term: Term) -> None:
        if not self.permitted:
            raise EtcdAccessError(Problem(field="etcdUser", message="permission denied", remedy="grant root"))

    def end(self) -> None: ...


async def test_a_refused_duty_is_told_of_each_hour_until_it_is_granted(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    duty, clock = Forbidden(), FakeClock(1_790_000_000_000)
    steward = Steward(client=nothing, keys=nothing, worker="w", duties=[duty], companion=nothing, clock=clock)

    async def perform(minutes: int) -> list[str]:
        caplog.clear()
        for _ in range(minutes):
            await steward._perform(duty, nothing)
            clock.advance(60_000)
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    said = "what the steward may not do in etcd: sweeping: permission denied; grant root"
    assert await perform(60) == [said]
    assert await perform(60) == [said]
    assert steward.not_permitted == "sweeping: permission denied; grant root"
    duty.permitted = True
    assert await perform(1) == []
    assert steward.not_permitted is None
