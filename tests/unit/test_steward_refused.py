"""A duty that etcd does not permit is said once, and the others are done."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from common.clock import SystemClock
from common.errors import EtcdAccessError, Problem
from worker.stewarding.steward import Steward, Term


class Forbidden:
    """Compaction, for a user without the role root."""

    name = "sweeping"
    every_s = 30.0

    def begin(self) -> None: ...

    async def perform(self, term: Term) -> None:
        raise EtcdAccessError(Problem(field="etcdUser", message="permission denied", remedy="grant root"))

    def end(self) -> None: ...


async def test_a_refused_duty_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    duty = Forbidden()
    steward = Steward(
        client=nothing, keys=nothing, worker="w", duties=[duty], companion=nothing, clock=SystemClock()
    )  # fmt: skip
    for _ in range(5):
        await steward._perform(duty, nothing)
    [warning] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "grant root" in warning.getMessage()
