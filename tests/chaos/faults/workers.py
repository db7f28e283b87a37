"""Workers and their guardians: killed, stopped, frozen, at any time and at failpoints."""

from __future__ import annotations

import os
import signal

from tests.chaos.faults.breaking import Breaking, Table, not_now
from tests.chaos.history import Stage, wall_ms
from tests.chaos.member import Member
from tests.chaos.rules.leftovers import KILLED, KILLED_WITH_GUARDIAN

_PLACES = ("before_claim", "after_claim", "before_spawn", "after_spawn", "before_record", "before_unlock",
           "after_unlock", "after_ack", "before_outbox", "after_outbox", "steward_before_verdict")  # fmt: skip
_RIGHT_AFTER_A_CLAIM = ("after_claim", "after_claim", "before_spawn", "after_spawn")
_ARMED = "restarted, armed"
_FROZEN_S = (3, 8, 20, 60)
_REACHED_WITHIN_S = 30.0


class WorkerFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking

    def table(self) -> Table:
        return {
            "worker killed": (3, self._killed),
            "worker killed at a failpoint": (6, self._killed_at_a_failpoint),
            "worker frozen": (3, self._frozen),
            "worker frozen right after a claim": (3, self._frozen_at_a_failpoint),
            "worker stopped": (2, self._stopped),
            "guardian killed": (2, self._guardian_killed),
            "worker killed with its guardian": (2, self._killed_with_its_guardian),
        }

    def _one(self) -> Member:
        return self._on.one_of(self._on.fleet.workers)

    async def _killed(self) -> None:
        await killed(self._on, self._one(), self._on.chance.choice([0.5, 1, 3, 12]))

    async def _frozen(self) -> None:
        await frozen(self._on, self._one(), self._on.chance.choice(_FROZEN_S))

    async def _stopped(self) -> None:
        """SIGTERM, as by a deployment: it ends what runs after its grace, and is started again."""
        member = self._one()
        async with self._on.noted("SIGTERM", member.name):
            await self._ended_in_order(member)
            await self._on.lasting(0.5)
            member.revive()

    async def _ended_in_order(self, member: Member) -> None:
        if not await member.end(signal.SIGTERM):
            stage = Stage(name=member.name, at_ms=wall_ms(), failed="SIGTERM did not end it")
            self._on.fleet.history.add(stage)

    async def _killed_at_a_failpoint(self) -> None:
        failpoint = f"{self._on.chance.choice(_PLACES)}:kill:{self._on.chance.choice([1, 1, 3, 8])}"
        await killed_at(self._on, self._one(), failpoint, self._on.chance.choice([0.5, 1, 3, 12]))

    async def _frozen_at_a_failpoint(self) -> None:
        failpoint = f"{self._on.chance.choice(_RIGHT_AFTER_A_CLAIM)}:stop:{self._on.chance.choice([1, 1, 3, 8])}"
        await frozen_at(self._on, self._one(), failpoint, self._on.chance.choice(_FROZEN_S))

    async def _guardian_killed(self) -> None:
        """The worker notices, and starts nothing until it has another."""
        member = self._one()
        pid = member.guardian() or not_now()
        async with self._on.noted("SIGKILL of its guardian", member.name):
            os.kill(pid, signal.SIGKILL)
            await self._on.lasting(2)

    async def _killed_with_its_guardian(self) -> None:
        """Nobody is left to end its commands but its own next start, which has to come before they count as lost."""
        member = self._one()
        pid = member.guardian() or not_now()
        async with self._on.noted(KILLED_WITH_GUARDIAN, member.name):
            member.send(signal.SIGSTOP)  # so that it does not notice first
            os.kill(pid, signal.SIGKILL)
            await member.end(signal.SIGKILL)
            await self._on.lasting(self._on.chance.choice([0.5, 2, 6]))
            member.revive()


async def killed(on: Breaking, member: Member, seconds: float) -> None:
    """SIGKILL, and so long until it is started again."""
    async with on.noted(KILLED, member.name):
        await member.end(signal.SIGKILL)
        await on.lasting(seconds)
        member.revive()


async def frozen(on: Breaking, member: Member, seconds: float) -> None:
    """SIGSTOP for so long."""
    async with on.noted(f"SIGSTOP for {seconds:g} s", member.name):
        member.send(signal.SIGSTOP)
        await on.lasting(seconds)
        member.send(signal.SIGCONT)


async def killed_at(on: Breaking, member: Member, failpoint: str, seconds: float) -> None:
    """Restart it armed; when it has killed itself, start it again after so long."""
    async with on.noted(f"restarted with {failpoint}", member.name, name=_ARMED):
        await member.end(signal.SIGTERM)
        member.start_armed(failpoint)
        if await on.happens(member.has_died, _REACHED_WITHIN_S):
            from_ms = wall_ms()
            await on.lasting(seconds)
            member.revive()
            on.note(f"{KILLED} at {failpoint}", member.name, from_ms)
        else:
            await _disarmed(on, member, failpoint)


async def frozen_at(on: Breaking, member: Member, failpoint: str, seconds: float) -> None:
    """Restart it armed; when it has stopped itself, let it go on after so long."""
    async with on.noted(f"restarted with {failpoint}", member.name, name=_ARMED):
        await member.end(signal.SIGTERM)
        member.start_armed(failpoint)
        if await on.happens(lambda: member.is_stopped, _REACHED_WITHIN_S):
            from_ms = wall_ms()
            await on.lasting(seconds)
            member.send(signal.SIGCONT)
            on.note(f"SIGSTOP for {seconds:g} s at {failpoint}", member.name, from_ms)
            member.revive()
        else:
            await _disarmed(on, member, failpoint)


async def _disarmed(on: Breaking, member: Member, failpoint: str) -> None:
    """It may still reach the place, also while it ends in order: so it is killed, and started without."""
    from_ms = wall_ms()
    await member.end(signal.SIGKILL)
    member.revive()
    on.note(f"{KILLED}: {failpoint} was not reached", member.name, from_ms)
