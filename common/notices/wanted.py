"""Which events rules ask for that are else none: so the writer of a record knows whether it makes an event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from common.jobs.job import JobSpec
from common.notices.events import ASKED_FOR
from common.notices.rules import Rule
from common.verdicts import EventKind

_NONE: Final = frozenset[EventKind]()


class Wanted:
    """What these rules ask for of ``ASKED_FOR``, by the labels of a record."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        asking = ((rule.labels, ASKED_FOR.intersection(rule.events)) for rule in rules)
        self._asking = [(labels, kinds) for labels, kinds in asking if labels is not None and kinds]

    def __bool__(self) -> bool:
        """Whether any rule asks for any."""
        return bool(self._asking)

    def kinds(self, labels: Mapping[str, str], spec: JobSpec | None) -> Collection[EventKind]:
        """Which of them a rule or the job asks for, of a record with these labels; ``spec``: its job."""
        wanted = _NONE.union(*(kinds for selector, kinds in self._asking if selector.matches(labels)))
        return wanted.union(*(notify.kinds for notify in spec.notify)) if spec is not None and spec.notify else wanted
