"""The key ``clocks``: how far the clock of each process is from the median of all, as the steward has measured it.

Pure: standard library and its neighbours. Who measures is ``worker.lead.clock_keeping``, who heeds it
``common.clocks.check``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from common.protocol.keys import Keys
from common.protocol.txn import Guards, Owner, Put, Txn
from common.protocol.values import MALFORMED, brief, name, whole

ENOUGH: Final = 3
"""With fewer clocks it cannot be known which of them is wrong."""
MOST: Final = 10_000
"""Processes in one value: what fits into a key of etcd."""
_MOST_COUNTED: Final = 10**9
_LARGEST_MS: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One clock as it was measured."""

    offset_ms: int
    """From the median; positive: it is ahead."""
    clock: str
    """Which clock of the process: it gives its clock another name at each start and after each jump."""
    within_ms: int = 0
    """It may be so much more or less: where all is slow, it cannot be known better."""

    def is_off(self, max_skew_ms: int) -> bool:
        """Whether it is certainly further from the median than this."""
        return abs(self.offset_ms) - self.within_ms > max_skew_ms

    def tells_nothing(self, max_skew_ms: int) -> bool:
        """Whether it may be right as well as off: of a process that has just started, say."""
        return self.within_ms > max_skew_ms and abs(self.offset_ms) <= self.within_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The value of the key."""

    count: int
    """How many processes have a clock to be compared, whether it could be measured yet or not."""
    measured: Mapping[str, Measured] = field(default_factory=dict)
    """By process; empty while fewer than `ENOUGH` could be measured."""

    @property
    def are_enough(self) -> bool:
        """Whether there are enough of them to tell which one is wrong."""
        return self.count >= ENOUGH

    def off(self, max_skew_ms: int) -> dict[str, int]:
        """The processes that are certainly off by more than this, with their offsets, the worst first."""
        beyond = {name: one.offset_ms for name, one in self.measured.items() if one.is_off(max_skew_ms)}
        return dict(sorted(beyond.items(), key=lambda one: (-abs(one[1]), one[0])))

    def to_json(self) -> bytes:
        """The key's value."""
        processes = {
            name: {"offsetMs": one.offset_ms, "withinMs": one.within_ms, "clock": one.clock}
            for name, one in self.measured.items()
        }
        return json.dumps({"count": self.count, "processes": processes}, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read the key's value; ValueError where it is none."""
        try:
            document = json.loads(value)
            processes = document["processes"]
            if len(processes) > MOST:
                raise ValueError(f"{len(processes)} processes are more than {MOST}")
            measured = {name(process): _measured(one) for process, one in processes.items()}
            return cls(count=whole(document["count"], most=_MOST_COUNTED), measured=measured)
        except MALFORMED as error:
            raise ValueError(f"not a comparison of clocks: {brief(error)}") from error


def off_by(offset_ms: int) -> str:
    """``30.0 s ahead of the others'``, ``412 ms behind the others'``."""
    return f"{length(abs(offset_ms))} {'ahead of' if offset_ms > 0 else 'behind'} the others'"


def length(ms: int) -> str:
    """A duration in words: to the millisecond below a second, else to a tenth of a second."""
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"


def _measured(document: Mapping[str, object]) -> Measured:
    return Measured(
        offset_ms=whole(document["offsetMs"], least=-_LARGEST_MS, most=_LARGEST_MS),
        clock=name(document["clock"]), within_ms=whole(document["withinMs"], most=_LARGEST_MS),
    )  # fmt: skip


def put(keys: Keys, clocks: Clocks, session: Owner, *, guards: Guards) -> Txn:
    """As long as the steward's session lives."""
    return Txn(guards, [Put(keys.clocks, clocks.to_json(), session.lease_id)])
