"""The boot of this machine: the kernel's name for it, and how long ago it was by a clock that is never set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from common.clock import Clock

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot. In a container it is that of the machine around it."""

    id: str

    @classmethod
    def of_this_machine(cls) -> Self | None:
        """None: the kernel does not name it, so nothing is started for it."""
        try:
            name = _BOOT_ID.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return cls(id=name) if name else None

    def at_ms(self, clock: Clock) -> int:
        """When it was, by the wall clock as it is now."""
        return clock.wall_ms() - int(clock.boottime() * 1000)
