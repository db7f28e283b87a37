"""What jobs came to that the log store does not say yet: one `Advance` a job, however many records there were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from common.protocol.run import RunRecord
from common.runlog.last import Advance, advances_of, joined


class OwedResults:
    """Grows with the jobs, not with their records; iterates over the advances, one a job."""

    def __init__(self) -> None:
        self._by_job: dict[str, Advance] = {}
        self.records = 0
        """How many records it stands for."""

    def __len__(self) -> int:
        """How many jobs."""
        return len(self._by_job)

    def __iter__(self) -> Iterator[Advance]:
        return iter(list(self._by_job.values()))

    def add(self, records: Iterable[RunRecord]) -> None:
        """These are in the log now. Repetition and order change nothing."""
        records = list(records)
        self.records += len(records)
        for advance in advances_of(records):
            there = self._by_job.get(advance.job)
            self._by_job[advance.job] = advance if there is None else joined(there, advance)

    def clear(self) -> None:
        """The log store says all of it now."""
        self._by_job.clear()
        self.records = 0
