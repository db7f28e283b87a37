"""What a writer has written and not counted yet: each record is counted once, whoever dies when.

Every record in the log says who wrote it, and which of that writer's it is (`Source.stamp`). So who finds a record
there already knows whether it is to be counted here (it is ours, of a former try) or is counted by somebody else. What
is counted goes out as a `Delta` that says up to which of the writer's records it counts: so none is counted again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import secrets
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from common.protocol.run import RunRecord, Verdict

DAY_MS: Final = 86_400_000
DURATION: Final = "durationMs"
LONGEST: Final = "maxDurationMs"
TIMED: Final = "timed"
_MOST: Final = 1_000
"""Records in a delta: of more the loop would be held for too long."""
_MOST_IN_DOUBT: Final = 10_000
"""The newest of them; whoever has failed with more has given up the others."""
LAST_DAY: Final = 2_932_896
"""The last one of the year 9999."""

Counts: TypeAlias = MutableMapping[str, int]
"""How many, by verdict; how many of them took how long together (`TIMED`, `DURATION`), and at most (`LONGEST`)."""


class Written(NamedTuple):
    """A record that is in the log because of a writer."""

    position: int
    """Which of that writer's it is."""
    record: RunRecord
    replaces_lost: bool
    """The run had been counted as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who writes a batch, and which of the writer's records they are."""

    column: str
    """The writer, as `OwedCounts` names it."""
    positions: Sequence[int]
    """One for each record, from 1 on; a record keeps its own however often it is sent."""

    def stamp(self, index: int) -> str:
        """What stands in the document of the batch's record at ``index``."""
        return f"{self.column}:{self.positions[index]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What a writer adds to the counts at once."""

    column: str
    first: int
    """The position of the first record in it, of all that are behind those counted before."""
    last: int
    days: Mapping[int, Mapping[str, Counts]]
    """By UTC day (since 1970-01-01) of the plan time, and job."""

    def to_json(self) -> str:
        """The counts as text: a job's name may be one that is no field's."""
        return json.dumps(self.days, separators=(",", ":"), ensure_ascii=False)


class _Entry(NamedTuple):
    position: int
    job: str
    day: int
    status: str
    fires: int
    took_ms: int | None
    replaces_lost: bool


_POSITION: Final = operator.itemgetter(0)


class OwedCounts:
    """Of one writer; grows with the records, which it does not hold."""

    def __init__(self, writer: str, *, counted: int | None = None) -> None:
        """``writer``: of a data directory, or of one life of a process; never used again by another.

        ``counted``: up to which of its records all is counted; None: the log store knows.
        """
        self.column = f"w{hashlib.blake2s(writer.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"
        """The writer in stamps and keys, whatever it is called."""
        self.counted = counted
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        """How many records."""
        return len(self._entries)

    def source(self, positions: Sequence[int]) -> Source:
        """For a batch of this writer's."""
        return Source(column=self.column, positions=positions)

    def add(self, written: Iterable[Written]) -> None:
        """These are in the log now; behind all that were added before."""
        self._entries += [
            _Entry(
                position, record.run_id.job_name, day_of(record.plan_ms), record.status.value, record.count or 1,
                _took_ms(record), replaces_lost,
            )
            for position, record, replaces_lost in written
        ]  # fmt: skip

    def delta(self) -> Delta | None:
        """The first of what is left; None where there is nothing."""
        self._entries.sort(key=_POSITION)
        entries = self._entries[:_MOST]
        if not entries:
            return None
        days: dict[int, dict[str, Counts]] = {}
        for entry in entries:
            _count(entry, days.setdefault(entry.day, {}).setdefault(entry.job, {}))
        return Delta(column=self.column, first=entries[0].position, last=entries[-1].position, days=days)

    def are_counted(self, up_to: int) -> None:
        """Those up to that position need not be kept."""
        self.counted = up_to
        self._entries = [entry for entry in self._entries if entry.position > up_to]


class LifeCounts:
    """For who has no spool: what this process has written and not counted, for as long as it lives."""

    def __init__(self) -> None:
        self.owed = OwedCounts(secrets.token_hex(8), counted=0)
        self._numbers = itertools.count(1)
        self._in_doubt: dict[str, None] = {}
        """Stamps of records that may have been stored by a call that has failed, or goes on; oldest first."""

    def begin(self, count: int) -> Source:
        """For a batch that is about to be sent."""
        source = self.owed.source([next(self._numbers) for _ in range(count)])
        self._in_doubt.update(dict.fromkeys(map(source.stamp, range(count))))
        for stamp in list(itertools.islice(self._in_doubt, max(0, len(self._in_doubt) - _MOST_IN_DOUBT))):
            del self._in_doubt[stamp]
        return source

    def is_in_doubt(self, stamp: str) -> bool:
        """Whether a record that is there already is one of ours that nobody has counted."""
        return stamp in self._in_doubt

    def end(self, source: Source, written: Sequence[tuple[str, Written]]) -> None:
        """What became of the batch is known: these are in the log, under these stamps."""
        for stamp in (*map(source.stamp, range(len(source.positions))), *(stamp for stamp, _ in written)):
            self._in_doubt.pop(stamp, None)
        # Numbered anew, by when it became known: two calls at once end in any order, and counting only goes forward.
        self.owed.add(one._replace(position=next(self._numbers)) for _, one in written)


def add_counts(counts: Mapping[str, int], to: Counts) -> None:
    """Both together."""
    for name, number in counts.items():
        there = to.get(name, 0)
        to[name] = max(there, number) if name == LONGEST else there + number


def day_of(ms: int) -> int:
    """The UTC day of an instant, in days since 1970-01-01."""
    return min(max(ms // DAY_MS, 0), LAST_DAY)


def _count(entry: _Entry, counts: Counts) -> None:
    counts[entry.status] = counts.get(entry.status, 0) + entry.fires
    if entry.took_ms is not None:
        counts[TIMED] = counts.get(TIMED, 0) + 1
        counts[DURATION] = counts.get(DURATION, 0) + entry.took_ms
        counts[LONGEST] = max(counts.get(LONGEST, 0), entry.took_ms)
    if entry.replaces_lost:
        counts[_LOST] = counts.get(_LOST, 0) - 1


_LOST: Final = Verdict.LOST.value


def _took_ms(record: RunRecord) -> int | None:
    """None: it never started, or nobody knows when it ended."""
    if record.start_ms is None or record.end_ms is None or record.status is Verdict.LOST:
        return None
    return max(0, record.end_ms - record.start_ms)
