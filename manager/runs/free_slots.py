"""Whether a worker that could take a fire or a run shows slots to spare, as far as the workers' beats tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from common.errors import EtcdError, UnavailableError
from common.jobs.job import JobSpec
from common.protocol.member import Beat, Member
from common.protocol.placement import is_eligible
from manager.editing.inventory import Inventory

NO_FREE_SLOT: Final = "a free slot: no worker shows one"
"""What is waited for, in words."""


class FreeSlots:
    """Reads the beats when asked; none of it is remembered."""

    def __init__(
        self,
        inventory: Inventory,
        members: Callable[[], Sequence[Member]],
        *,
        standstill: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``members``: the live workers. ``standstill``: why none of them can take anything, where that is known."""
        self._inventory = inventory
        self._members = members
        self.standstill = standstill

    async def are_taken(self, spec: JobSpec) -> bool:
        """Whether none of the workers that fit shows as many as the job takes; False, too, where nothing is known."""
        fitting = [one.worker for one in self._members() if one.accepts and is_eligible(spec, one.labels, one.slots)]
        try:
            beats = await self._inventory.beats()
        except (EtcdError, UnavailableError):
            return False
        free = [slots for name in fitting if (slots := _free(beats.get(name))) is not None]
        return bool(free) and max(free) < spec.slots


def _free(beat: bytes | None) -> int | None:
    try:
        return None if beat is None else Beat.from_json(beat).free_slots
    except ValueError:
        return None  # one that cannot be read tells nothing
