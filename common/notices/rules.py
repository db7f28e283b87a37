"""Which events of which jobs go to which channels, as users define it and as it lies in etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from common.access.fields import SelectorField
from common.access.selectors import Selector
from common.errors import Problem
from common.jobs.kinds import AnyText, Choice, Number, Several, Truth, about
from common.jobs.notify import DEFAULT_ON
from common.jobs.values import JobName
from common.notices.channels import MAX_DESCRIPTION
from common.notices.forms import Form
from common.verdicts import EventKind

MOST_RULES: Final = 500
MOST_CHANNELS_OF_ONE: Final = 10
MOST_AFTER: Final = 100
EVENTS: Final = Several(
    of=Choice(EventKind), what="events", least=0, most=len(EventKind), alone=False, unique=True
)  # fmt: skip
OF_THE_SYSTEM: Final = (*(kind for kind in EventKind if kind.is_of_the_system), EventKind.RECOVERED)
"""What a rule for the system can ask for, and does where it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: of the jobs that its labels select, or of the system."""

    labels: Annotated[Selector | None, SelectorField(), about(
        "labels", "of the jobs that it is for", {"team": ["billing"]})] = None  # fmt: skip
    system: Annotated[bool, Truth(), about("system", "it is for events of the system, not of jobs", False)] = False
    on: Annotated[tuple[EventKind, ...], EVENTS, about(
        "on", f"which events; {', '.join(DEFAULT_ON)} where it is left out, of the system: all of its events",
        ["failed", "missed"])] = ()  # fmt: skip
    after: Annotated[int, Number(low=1, high=MOST_AFTER, whole=True, unit=""), about(
        "after", "how many in a row there have to be before the first is told", 1)] = 1  # fmt: skip
    to: Annotated[tuple[str, ...], Several(
        of=JobName(), what="channels", most=MOST_CHANNELS_OF_ONE, alone=False, unique=True), about(
        "to", "the channels", ["ops"])]  # fmt: skip
    repeat_hours: Annotated[int, Number(low=0, high=720, whole=True, unit="hours"), about(
        "repeatHours", "after how many hours a problem that goes on is told again; 0: never", 24)] = 24  # fmt: skip
    required: Annotated[bool, Truth(), about("required", "no silence covers it", False)] = False
    description: Annotated[str, AnyText(longest=MAX_DESCRIPTION), about(
        "description", "what it is for", "whoever is on call")] = ""  # fmt: skip

    @property
    def events(self) -> tuple[EventKind, ...]:
        """Those that it asks for, also where it does not say."""
        return self.on or (OF_THE_SYSTEM if self.system else DEFAULT_ON)

    def matches(self, labels: Mapping[str, str] | None, kind: EventKind) -> bool:
        """Whether it asks for such an event of a job with these labels; None: of the system."""
        if kind not in self.events:
            return False
        if labels is None:
            return self.system
        return self.labels is not None and self.labels.matches(labels)

    def problems(self) -> list[Problem]:
        """What does not go together."""
        found = []
        if (self.labels is None) != self.system:
            what = "is missing" if self.labels is None else "is given beside system"
            remedy = 'needed: "all", labels such as {"team": ["billing"]}, or "system": true in its place'
            found.append(Problem(field="labels", message=what, remedy=remedy))
        for place, kind in enumerate(self.on):
            if self.system and kind not in OF_THE_SYSTEM:
                known = f"one of: {', '.join(OF_THE_SYSTEM)}"
                found.append(Problem(field=f"on[{place}]", message=f"{kind} is an event of jobs", remedy=known))
            elif not self.system and kind.is_of_the_system:
                remedy = 'leave it out, or make a rule with "system": true'
                found.append(Problem(field=f"on[{place}]", message=f"{kind} is an event of the system", remedy=remedy))
        return found


RULE: Final = Form(Rule, "rule")
