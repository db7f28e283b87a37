"""How a fire may end, and what may be told: each verdict once, with all that depends on it.

Records, counts, metrics, messages, the API, the command line and the console go by what stands here; the words are in
``webroot/static/i18n``. Pure: standard library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self


class Tone(StrEnum):
    """How a verdict looks, the worst last."""

    OK = "ok"
    IDLE = "idle"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What each verdict has to say of itself."""

    is_of_a_run: bool
    is_failure: bool
    is_retried: bool
    end_is_known: bool = True
    tone: Tone
    icon: str
    """A name in ``webroot/build/icons.json``."""
    mark: str = ""
    """By which its bar differs from another one as high, in ``css/tables.css``: tall, hollow, split."""
    phrases: tuple[str, str]
    """In messages: behind the job's name, and behind the number of several."""


class Verdict(StrEnum):
    """How a fire ended; in the order of columns."""

    traits: Traits

    def __new__(cls, word: str, *traits: Traits) -> Self:  # a checker takes `Verdict("lost")` for a call of it
        made = str.__new__(cls, word)
        made._value_, [made.traits] = word, traits
        return made

    SUCCESS = "success", Traits(
        is_of_a_run=True, is_failure=False, is_retried=False, tone=Tone.OK, icon="check-circle-fill",
        phrases=("succeeded", "succeeded"),
    )  # fmt: skip
    FAILED = "failed", Traits(
        is_of_a_run=True, is_failure=True, is_retried=True, tone=Tone.BAD, icon="x-circle-fill",
        phrases=("failed", "failed"),
    )  # fmt: skip
    TIMEOUT = "timeout", Traits(
        is_of_a_run=True, is_failure=True, is_retried=True, tone=Tone.BAD, icon="hourglass-bottom", mark="split",
        phrases=("ran into its time limit", "ran into the time limit"),
    )  # fmt: skip
    KILLED = "killed", Traits(
        is_of_a_run=True, is_failure=False, is_retried=False, tone=Tone.WARN, icon="stop-circle-fill", mark="tall",
        phrases=("was killed", "killed"),
    )  # fmt: skip
    LOST = "lost", Traits(
        is_of_a_run=True, is_failure=True, is_retried=False, end_is_known=False, tone=Tone.BAD,
        icon="question-diamond-fill", mark="hollow", phrases=("was lost", "lost"),
    )  # fmt: skip
    SKIPPED = "skipped", Traits(
        is_of_a_run=False, is_failure=False, is_retried=False, tone=Tone.IDLE, icon="skip-forward-fill",
        phrases=("was skipped", "skipped"),
    )  # fmt: skip
    MISSED = "missed", Traits(
        is_of_a_run=False, is_failure=True, is_retried=False, tone=Tone.WARN, icon="slash-circle", mark="hollow",
        phrases=("did not run", "did not run"),
    )  # fmt: skip

    @property
    def is_of_a_run(self) -> bool:
        """Whether a command may have run: of a skipped or missed fire none did, though it may have been claimed."""
        return self.traits.is_of_a_run

    @property
    def is_failure(self) -> bool:
        """Whether a job counts as failing whose newest record says so, of fires that were not skipped. It opens an
        alert, and is told unless a rule says otherwise.
        """
        return self.traits.is_failure

    @property
    def is_retried(self) -> bool:
        """Whether the command itself went wrong: ``retry`` runs it again, and what it printed last may say why."""
        return self.traits.is_retried

    @property
    def end_is_known(self) -> bool:
        """Whether the end was seen. Of a lost run it was not: it may still end, and its own verdict replace this."""
        return self.traits.end_is_known

    @property
    def is_quiet(self) -> bool:
        """Whether the job wants it so: a rule or a job has to ask for its messages."""
        return self.traits.tone in (Tone.OK, Tone.IDLE)

    @property
    def kind(self) -> EventKind:
        """The event that tells of it."""
        return _KINDS[self]


ENDS_UNKNOWN: Final = tuple(one for one in Verdict if not one.end_is_known)
"""For what a document holds: a word that may be of a later version, or anything at all."""

_BADNESS: Final[dict[str, int]] = {
    one: at for at, one in enumerate(sorted(Verdict, key=lambda one: list(Tone).index(one.traits.tone)))
}


def worst_of(verdicts: Iterable[str]) -> str:
    """What one mark shows that stands for several; one of a later version, of which nothing is known, comes last."""
    return max(verdicts, key=lambda one: _BADNESS.get(one, -1))


class EventKind(StrEnum):
    """What a rule can ask for: each verdict by its own name, then what else may happen."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    KILLED = "killed"
    MISSED = "missed"
    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    OUTPUT = "output"
    LATE = "late"
    RECOVERED = "recovered"
    SLOW = "slow"
    SILENT = "silent"
    FAST = "fast"
    WORKER_DOWN = "worker-down"
    WORKER_REFUSING = "worker-refusing"
    LOG_STORE_AWAY = "log-store-away"
    ETCD_FULL = "etcd-full"
    ETCD_MEMBER_AWAY = "etcd-member-away"
    CLOCK_OFF = "clock-off"
    NO_LEADER = "no-leader"
    SPOOL_FILLING = "spool-filling"
    NOTICES_FAILING = "notices-failing"

    @property
    def is_of_the_system(self) -> bool:
        """Whether it belongs to no job."""
        return self not in OF_JOBS


_KINDS: Final = {one: EventKind.SUCCEEDED if one is Verdict.SUCCESS else EventKind(one) for one in Verdict}
OF_JOBS: Final = tuple(EventKind)[: list(EventKind).index(EventKind.WORKER_DOWN)]
"""In their order."""
FAILURES: Final = tuple(one.kind for one in Verdict if one.is_failure)
"""The events of failures."""
