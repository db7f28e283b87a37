"""A time in which some notices are kept back, as it lies in etcd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from common.access.fields import SelectorField
from common.access.selectors import Selector
from common.errors import Problem
from common.jobs.kinds import AnyText, Number, Object, Several, about
from common.jobs.values import JobName
from common.notices.forms import Form
from common.protocol.keys import MAX_MARK_MS

MOST_SILENCES: Final = 2_000
MOST_JOBS: Final = 100
LONGEST_MS: Final = 30 * 86_400_000
AHEAD_MS: Final = 366 * 86_400_000
"""None that is made begins later."""
MAX_REASON: Final = 500
MS: Final = Number(low=0, high=MAX_MARK_MS, whole=True, unit="milliseconds since 1970")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOf:
    """One alert: a job's, since then."""

    job: Annotated[str, JobName(), about("job", "whose alert it is", "nightly-report")]
    since_ms: Annotated[int, MS, about("sinceMs", "when the problem began", 1_774_742_400_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """One silence: of the jobs that its labels select, of jobs by name, or of one alert, which it acknowledges.

    Every silence has an end, an acknowledgement too: nothing is quiet for ever.
    """

    labels: Annotated[Selector | None, SelectorField(), about(
        "labels", "of the jobs that it is for", {"team": ["billing"]})] = None  # fmt: skip
    jobs: Annotated[tuple[str, ...], Several(
        of=JobName(), what="jobs", least=0, most=MOST_JOBS, alone=False, unique=True), about(
        "jobs", "the jobs that it is for, by name", ["nightly-report"])] = ()  # fmt: skip
    alert: Annotated[AlertOf | None, Object(
        of=AlertOf, name="alert", example='{"job": "nightly-report", "sinceMs": 1774742400000}'), about(
        "alert", "it acknowledges this alert, and is over with it",
        {"job": "nightly-report", "sinceMs": 1_774_742_400_000})] = None  # fmt: skip
    from_ms: Annotated[int, MS, about("fromMs", "its begin", 1_774_742_400_000)]
    until_ms: Annotated[int, MS, about("untilMs", "its end, at most 30 days later", 1_774_828_800_000)]
    reason: Annotated[str, AnyText(longest=MAX_REASON), about("reason", "why", "the disk is being replaced")] = ""

    def covers(self, *, job: str, labels: Mapping[str, str], since_ms: int, now_ms: int) -> bool:
        """Whether it keeps back what is to be sent now of a job's problem that began then. Nothing of the system is."""
        if not job or not self.from_ms <= now_ms < self.until_ms:
            return False
        if self.alert is not None:
            return (self.alert.job, self.alert.since_ms) == (job, since_ms)
        return job in self.jobs or (self.labels is not None and self.labels.matches(labels))

    def problems(self) -> list[Problem]:
        """What does not go together."""
        found = []
        if sum((self.labels is not None, bool(self.jobs), self.alert is not None)) != 1:
            what = "is given beside another" if self.labels is not None else "is missing, or more than one is given"
            remedy = 'needed: labels ("all", or such as {"team": ["billing"]}), or jobs, a list of names'
            found.append(Problem(field="labels", message=what, remedy=remedy))
        if not 0 < self.until_ms - self.from_ms <= LONGEST_MS:
            what = "is not after its begin" if self.until_ms <= self.from_ms else "is more than 30 days after its begin"
            found.append(Problem(field="untilMs", message=what, remedy="needed: within 30 days after its begin"))
        return found


class Quiet:
    """Until when jobs are quiet, at one moment. Of the same labels it is found once, however many jobs have them."""

    def __init__(self, silences: Iterable[Silence], *, now_ms: int) -> None:
        going = sorted((one for one in silences if one.from_ms <= now_ms < one.until_ms), key=lambda one: one.until_ms)
        self._of_jobs: dict[str, int] = {}
        self._of_alerts: dict[AlertOf, int] = {}
        for one in going:  # what ends last counts
            self._of_jobs.update(dict.fromkeys(one.jobs, one.until_ms))
            if one.alert is not None:
                self._of_alerts[one.alert] = one.until_ms
        self._by_labels = [(one.labels, one.until_ms) for one in reversed(going) if one.labels is not None]
        self._of_labels: dict[frozenset[tuple[str, str]], int | None] = {}

    def until_ms(self, job: str, labels: Mapping[str, str], alert: AlertOf | None = None) -> int | None:
        """None: it is not, or it is none. ``alert``: whose acknowledgement counts, too."""
        if not job:
            return None
        kind = frozenset(labels.items())
        if kind not in self._of_labels:
            self._of_labels[kind] = next((ms for one, ms in self._by_labels if one.matches(labels)), None)
        found = (self._of_labels[kind], self._of_jobs.get(job), None if alert is None else self._of_alerts.get(alert))
        return max((ms for ms in found if ms is not None), default=None)


SILENCE: Final = Form(Silence, "silence")
