"""Whether this worker takes fires, and every reason why it does not.

    takes --a reason comes--> refuses: at once, and then it is announced to the others (``Registry.announce``)
    refuses --the last reason goes, and that was announced--> takes: sooner, they would rank it nowhere
    either --the clock is being read--> decides nothing until what it planned by it is planned anew

The part that finds a reason sets it here, with words for people; no other part keeps a flag of it.
"""

from __future__ import annotations

from enum import Enum, auto


class Reason(Enum):
    """Where a reason comes from: each has one at a time."""

    STOP = auto()
    """The worker is stopping."""
    DRAIN = auto()
    """An administrator wishes it."""
    CLOCK = auto()
    """Its clock is off, or not compared since it jumped."""
    SPOOL = auto()
    """Its disk takes no records."""
    GUARDIAN = auto()
    """What it starts would be unguarded."""


class Admission:
    """Holds the reasons; the loops that take fires ask it each time."""

    def __init__(self) -> None:
        self._reasons: dict[Reason, str] = {}
        self._refuses = False
        self.is_planning_anew = False
        """The clock has jumped, and what was planned by it has not been planned again."""

    def set(self, reason: Reason, why: str | None) -> None:
        """From now on no fires are taken, for this; or (None) no longer for this, once that is announced."""
        if why is None:
            self._reasons.pop(reason, None)
        else:
            self._reasons[reason] = why
            self._refuses = True

    def announced(self) -> None:
        """What holds now was announced to the others, or will be: etcd was asked."""
        self._refuses = bool(self._reasons)

    @property
    def why_not(self) -> str | None:
        """All reasons, in the order in which they came."""
        return "; ".join(self._reasons.values()) or None

    @property
    def takes_fires(self) -> bool:
        """Whether fires, and runs that were asked for, are claimed now."""
        return not self._refuses and not self.is_planning_anew

    @property
    def starts_claimed(self) -> bool:
        """Whether what was claimed is started here, or handed on to a worker that has a slot."""
        return self._reasons.keys().isdisjoint((Reason.STOP, Reason.DRAIN, Reason.CLOCK))

    @property
    def is_clock_off(self) -> bool:
        return Reason.CLOCK in self._reasons

    @property
    def is_spool_refusing(self) -> bool:
        return Reason.SPOOL in self._reasons

    @property
    def is_drained(self) -> bool:
        return Reason.DRAIN in self._reasons
