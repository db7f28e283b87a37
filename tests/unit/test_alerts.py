"""What events, and time, make of an alert, and who is told what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from common.access.selectors import EVERYTHING, Selector
from common.jobs.notify import Notify
from common.notices.alerts import (
    FLAPPING_MS,
    NEVER_HEARD_OF,
    Alert,
    CameTo,
    Decided,
    Setting,
    Standing,
    decide,
    key_of,
    look,
    looked_for,
    notices_of,
    recovered,
    recovery_of,
)
from common.notices.applying import Applying, applying_to_job, applying_to_system, jobs_of_commands
from common.notices.channels import Channel, ChannelKind
from common.notices.events import Event
from common.notices.notice import NoticeKind
from common.notices.rules import Rule
from common.notices.silences import AlertOf, Silence
from common.verdicts import EventKind

_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_NOON: int = 1_790_000_000_000
_ALL = Rule(labels=EVERYTHING, to=("ops",))


def _order(number: int, attempt: int = 1) -> str:
    plan_ms = _NOON + number * _SECOND
    return f"{plan_ms:016d}/1{attempt:05d}/1/job@{plan_ms}#{attempt}"


def _event(number: int, kind: EventKind = EventKind.FAILED, **other: object) -> Event:
    order = _order(number)
    event = Event(kind=kind, at_ms=_NOON + number * _SECOND, job="job", order=order, run=order.split("/", 3)[-1])
    return Event(**{name: getattr(event, name) for name in event.__struct_fields__} | other)


@dataclass(kw_only=True)
class _Case:
    """One job under a clock that the test moves, and all that was told of it."""

    rules: dict[str, Rule] = field(default_factory=lambda: {"all": _ALL})
    notify: Sequence[Notify] = ()
    silences: list[Silence] = field(default_factory=list)
    standing: Standing = NEVER_HEARD_OF
    now_ms: int = _NOON
    successes: list[int] = field(default_factory=list)
    exists: bool = True
    said: list[str] = field(default_factory=list)
    ended: list[Alert] = field(default_factory=list)
    flapped: list[bool] = field(default_factory=list)

    @property
    def came_to(self) -> CameTo:
        if not self.successes:
            return CameTo()
        newest = self.successes[-1]
        return CameTo(
            order=_order(newest), successes=tuple(map(_order, self.successes)), success_ms=_NOON + newest * _SECOND
        )

    @property
    def setting(self) -> Setting:
        applying = applying_to_job({}, self.notify, self.rules, {})
        return Setting(applying=applying, silences=self.silences, exists=self.exists, now_ms=self.now_ms)

    @property
    def alert(self) -> Alert:
        assert self.standing.alert is not None
        return self.standing.alert

    def fails(self, number: int, kind: EventKind = EventKind.FAILED, **other: object) -> None:
        self.hears(_event(number, kind, **other))

    def succeeds(self, number: int) -> None:
        """A success, as the notifier finds it when it looks for it."""
        self.successes.append(number)
        if self.standing.alert is not None and (event := recovery_of(self.alert, self.came_to)) is not None:
            self.hears(event)

    def hears(self, event: Event) -> None:
        self._take(decide(self.standing, event, self.came_to, self.setting))

    def passes(self, ms: int) -> None:
        """So much time, in steps of a minute, at each of which the notifier looks."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + _MINUTE)
            if look(self.standing, self.setting).standing != self.standing:
                self.hears(looked_for(self.alert, self.now_ms))

    def _take(self, decided: Decided) -> None:
        self.standing = decided.standing
        self.ended += decided.ended
        self.flapped += [tell.told.is_flapping for tell in decided.tells if tell.kind is NoticeKind.FLAPPING]
        self.said += [f"{tell.channel}: {tell.kind} {tell.told.event.kind}" for tell in decided.tells]

    def tells(self, *expected: str) -> None:
        """This was said since the last time that it was asked."""
        assert self.said == list(expected)
        self.said.clear()


# A problem, and its end


def test_problem_is_told_once_and_its_end_once() -> None:
    case = _Case()
    case.fails(1)
    case.tells("ops: problem failed")
    case.fails(2, EventKind.TIMEOUT)
    case.tells()
    assert (case.alert.count, case.alert.event.kind, case.alert.since_ms) == (2, EventKind.TIMEOUT, _NOON + _SECOND)
    case.succeeds(3)
    case.tells("ops: recovered recovered")
    assert case.standing.alert is None
    assert [alert.end_ms for alert in case.ended] == [_NOON + 3 * _SECOND]


def test_what_is_delivered_again_is_told_once_and_counts_once() -> None:
    case = _Case()
    case.fails(1)
    case.fails(1)
    case.fails(2)
    case.fails(1)
    case.tells("ops: problem failed")
    assert case.alert.count == 2
    case.succeeds(3)
    case.said.clear()
    case.fails(2)
    case.tells()
    assert case.standing.alert is None


def test_verdict_that_comes_behind_lost_is_the_same_run() -> None:
    case = _Case()
    lost = _order(1).replace("/1/job", "/0/job")
    case.hears(_event(1, EventKind.LOST, order=lost))
    case.fails(1)
    assert (case.alert.count, case.alert.event.kind) == (1, EventKind.FAILED)


def test_success_of_a_run_that_counted_as_lost_ends_its_alert() -> None:
    case = _Case()
    case.hears(_event(1, EventKind.LOST, order=_order(1).replace("/1/job", "/0/job")))
    case.succeeds(1)
    case.tells("ops: problem lost", "ops: recovered recovered")


def test_failure_older_than_a_known_success_is_told_and_opens_nothing() -> None:
    case = _Case(successes=[5])
    case.fails(2)
    case.tells("ops: problem failed", "ops: recovered recovered")
    assert case.standing.alert is None
    assert len(case.ended) == 1


def test_failure_that_arrives_late_leaves_the_newest_one_in_place() -> None:
    case = _Case()
    case.fails(5)
    case.fails(2, EventKind.MISSED)
    assert (case.alert.event.order, case.alert.count) == (_order(5), 2)


def test_success_between_two_failures_ends_one_alert_and_the_next_is_another() -> None:
    case = _Case()
    case.fails(1)
    case.successes.append(2)
    case.fails(3)
    case.tells("ops: problem failed", "ops: recovered recovered", "ops: flapping failed")
    assert case.alert.in_a_row == 1


def test_job_that_is_deleted_takes_its_alert_with_it_and_nothing_is_told() -> None:
    case = _Case()
    case.fails(1)
    case.said.clear()
    case.exists = False
    case.passes(_MINUTE)
    case.tells()
    assert case.standing.alert is None
    assert len(case.ended) == 1


@pytest.mark.parametrize("kind", [EventKind.KILLED, EventKind.SKIPPED, EventKind.SUCCEEDED, EventKind.OUTPUT,
                                  EventKind.LATE, EventKind.FAST, EventKind.SLOW])  # fmt: skip
def test_what_is_no_problem_is_told_where_it_is_asked_for_and_opens_nothing(kind: EventKind) -> None:
    case = _Case(rules={"some": Rule(labels=EVERYTHING, on=(kind,), to=("ops",))})
    case.fails(1, kind)
    case.fails(1, kind)
    case.tells(f"ops: problem {kind}")
    assert case.standing.alert is None


# Who is told


def test_channel_is_told_at_the_third_in_a_row_where_it_asks_for_three() -> None:
    case = _Case(rules={"all": replace(_ALL, after=3)}, notify=[Notify(to="owner")])
    case.fails(1)
    case.tells("owner: problem failed")
    case.fails(2)
    case.tells()
    case.fails(3)
    case.tells("ops: problem failed")
    case.fails(4)
    case.tells()
    case.succeeds(5)
    assert sorted(case.said) == ["ops: recovered recovered", "owner: recovered recovered"]


def test_two_failures_with_a_success_between_are_not_two_in_a_row() -> None:
    case = _Case(rules={"all": replace(_ALL, after=2)})
    for number in (1, 3, 5, 7):
        case.fails(number)
        case.successes.append(number + 1)
    case.tells()


def test_one_record_of_many_missed_fires_counts_as_many() -> None:
    case = _Case(rules={"all": replace(_ALL, after=3)})
    case.fails(1, EventKind.MISSED, count=3)
    case.tells("ops: problem missed")


def test_channel_that_was_not_told_of_the_problem_is_not_told_of_its_end() -> None:
    case = _Case(rules={"lost": replace(_ALL, on=(EventKind.LOST, EventKind.RECOVERED), to=("night",)), "all": _ALL})
    case.fails(1)
    case.succeeds(2)
    case.tells("ops: problem failed", "ops: recovered recovered")


def test_channel_that_several_rules_name_is_told_once() -> None:
    case = _Case(rules={"a": _ALL, "b": replace(_ALL, to=("ops", "boss"))}, notify=[Notify(to="ops")])
    case.fails(1)
    case.tells("ops: problem failed", "boss: problem failed")
    case.succeeds(2)
    case.tells("ops: recovered recovered", "boss: recovered recovered")


def test_problem_that_goes_on_is_told_again_as_often_as_its_rule_says() -> None:
    case = _Case(rules={"all": _ALL, "often": replace(_ALL, to=("often",), repeat_hours=2),
                        "once": replace(_ALL, to=("once",), repeat_hours=0)})  # fmt: skip
    case.fails(1)
    case.said.clear()
    case.passes(25 * _HOUR)
    assert case.said.count("often: repeat failed") == 12
    assert case.said.count("ops: repeat failed") == 1
    assert len(case.said) == 13


# Silences


def _silence(from_ms: int, until_ms: int, **what: object) -> Silence:
    return Silence(**({"labels": EVERYTHING, "from_ms": from_ms, "until_ms": until_ms} | what))  # type: ignore[arg-type]


def test_what_a_silence_holds_back_is_told_behind_it_where_it_is_still_open() -> None:
    case = _Case(silences=[_silence(_NOON, _NOON + _HOUR)])
    case.fails(1)
    case.passes(59 * _MINUTE)
    case.tells()
    case.passes(2 * _MINUTE)
    case.tells("ops: problem failed")


def test_what_is_over_before_its_silence_is_never_told() -> None:
    case = _Case(silences=[_silence(_NOON, _NOON + _HOUR)])
    case.fails(1)
    case.succeeds(2)
    case.passes(2 * _HOUR)
    case.tells()


def test_required_rule_is_told_in_a_silence() -> None:
    case = _Case(rules={"all": _ALL, "must": replace(_ALL, to=("audit",), required=True)},
                 silences=[_silence(_NOON, _NOON + _HOUR)])  # fmt: skip
    case.fails(1)
    case.tells("audit: problem failed")


def test_acknowledged_alert_is_quiet_until_it_is_over_and_the_next_one_is_not() -> None:
    case = _Case()
    case.fails(1)
    case.said.clear()
    since = AlertOf(job="job", since_ms=case.alert.since_ms)
    case.silences = [_silence(_NOON, _NOON + 30 * 24 * _HOUR, labels=None, alert=since)]
    case.passes(50 * _HOUR)
    case.tells()
    case.succeeds(50 * 3600)
    case.tells("ops: recovered recovered")
    case.fails(50 * 3600 + 10)
    case.tells("ops: problem failed")


def test_rule_that_is_made_later_is_not_told_of_all_that_is_open() -> None:
    case = _Case()
    case.fails(1)
    case.said.clear()
    case.rules["new"] = replace(_ALL, to=("new",))
    case.passes(_HOUR)
    case.tells()
    case.fails(2)
    case.tells("new: problem failed")


def test_problem_that_a_silence_held_back_is_told_behind_it_though_one_of_another_kind_came_since() -> None:
    case = _Case(rules={"all": replace(_ALL, on=(EventKind.FAILED,))}, silences=[_silence(_NOON, _NOON + _HOUR)])
    case.fails(1)
    case.fails(2, EventKind.MISSED)
    case.passes(59 * _MINUTE)
    case.tells()
    case.passes(2 * _MINUTE)
    case.tells("ops: problem failed")


def test_problem_that_goes_on_is_told_again_though_one_of_another_kind_came_since() -> None:
    case = _Case(rules={"all": replace(_ALL, on=(EventKind.FAILED,))})
    case.fails(1)
    case.fails(2, EventKind.MISSED)
    case.passes(25 * _HOUR)
    case.tells("ops: problem failed", "ops: repeat failed")


# Flapping


def test_job_that_fails_and_succeeds_every_second_for_ten_minutes_is_told_six_times_at_most() -> None:
    case = _Case()
    for number in range(0, 600, 2):
        case.now_ms = _NOON + number * _SECOND
        case.fails(number)
        case.now_ms += _SECOND
        case.succeeds(number + 1)
    case.tells("ops: problem failed", "ops: recovered recovered", "ops: flapping failed")
    assert case.alert.is_flapping
    assert case.flapped == [True]
    case.passes(FLAPPING_MS + _MINUTE)
    case.tells("ops: recovered recovered")
    assert case.standing.alert is None


def test_what_flaps_is_told_hourly() -> None:
    case = _Case()
    for minute in range(0, 240, 2):
        case.now_ms = _NOON + minute * _MINUTE
        case.fails(minute * 60)
        case.passes(_MINUTE)
        case.succeeds(minute * 60 + 60)
    assert case.said.count("ops: flapping failed") in (4, 5)
    assert len(case.said) <= 7


def test_what_flapped_and_stays_broken_is_told_as_a_problem() -> None:
    case = _Case()
    case.fails(1)
    case.succeeds(2)
    case.fails(3)
    case.said.clear()
    case.passes(FLAPPING_MS + _MINUTE)
    case.tells("ops: problem failed")
    assert not case.alert.is_flapping


def test_who_was_told_that_it_flaps_is_told_that_it_is_over_though_it_was_acknowledged_meanwhile() -> None:
    case = _Case()
    case.fails(1)
    case.succeeds(2)
    case.fails(3)
    case.tells("ops: problem failed", "ops: recovered recovered", "ops: flapping failed")
    since = AlertOf(job="job", since_ms=case.alert.since_ms)
    case.silences = [_silence(_NOON, _NOON + 24 * _HOUR, labels=None, alert=since)]
    case.passes(FLAPPING_MS + _MINUTE)
    case.tells()
    case.succeeds(3600)
    case.tells("ops: recovered recovered")


def test_who_was_told_that_it_flaps_is_told_that_it_is_over_where_the_last_problem_is_none_of_theirs() -> None:
    case = _Case(rules={"all": replace(_ALL, on=(EventKind.FAILED, EventKind.RECOVERED))})
    case.fails(1)
    case.succeeds(2)
    case.fails(3)
    case.succeeds(4)
    case.fails(5, EventKind.MISSED)
    case.said.clear()
    case.passes(FLAPPING_MS + _MINUTE)
    case.tells()
    case.succeeds(3600)
    case.tells("ops: recovered recovered")


# Silent jobs


def test_silent_job_is_over_with_its_next_success() -> None:
    case = _Case(successes=[1], now_ms=_NOON + _HOUR)
    case.hears(Event(kind=EventKind.SILENT, at_ms=case.now_ms, job="job", order=_order(1)))
    case.tells("ops: problem silent")
    assert recovery_of(case.alert, case.came_to) is None
    case.succeeds(3700)
    case.tells("ops: recovered recovered")


def test_job_that_fails_until_it_is_silent_has_one_alert() -> None:
    case = _Case(notify=[Notify(to="quiet", on=(EventKind.SILENT,))])
    case.fails(1)
    case.hears(Event(kind=EventKind.SILENT, at_ms=_NOON + _HOUR, job="job"))
    case.tells("ops: problem failed", "quiet: problem silent")
    assert (case.alert.event.kind, case.alert.count) == (EventKind.FAILED, 1)


# The system


def test_matter_of_the_system_is_told_to_rules_for_the_system_alone_until_it_is_over() -> None:
    applying = list(applying_to_system({"all": _ALL, "system": Rule(system=True, after=3, to=("admins",))}))
    setting = Setting(applying=applying, silences=[_silence(_NOON, _NOON + _HOUR)], now_ms=_NOON)
    down = Event(kind=EventKind.WORKER_DOWN, at_ms=_NOON, subject="w1")
    decided = decide(NEVER_HEARD_OF, down, CameTo(), setting)
    again = decide(decided.standing, down, CameTo(), setting)
    assert ([tell.channel for tell in decided.tells], again.tells) == (["admins"], [])
    assert decided.standing.alert is not None
    over = recovered(decided.standing.alert, at_ms=_NOON + _MINUTE)
    assert key_of(over) == key_of(down)
    ended = decide(decided.standing, over, CameTo(), setting)
    assert [tell.kind for tell in ended.tells] == ["recovered"]
    assert ended.standing.alert is None


# What is kept, and notices


def test_standing_is_forgotten_an_hour_after_its_end() -> None:
    case = _Case()
    case.fails(1)
    assert case.standing.kept(_NOON + 30 * 24 * _HOUR) is not None
    case.succeeds(2)
    assert case.standing.kept(_NOON + _HOUR // 2) is not None
    assert case.standing.kept(_NOON + 2 * _HOUR) is None


def test_notices_of_one_cause_are_one_for_each_channel_with_the_same_ids_whoever_makes_them() -> None:
    setting = Setting(applying=applying_to_job({}, [Notify(to="a"), Notify(to="b")], {}, {}), now_ms=_NOON)
    tells = [
        tell
        for number in range(20)
        for tell in decide(NEVER_HEARD_OF, _event(number, job=f"job-{number}"), CameTo(), setting).tells
    ]
    notices = notices_of("outbox/1", tells, _NOON)
    assert [(one.channel, one.total, len(one.told)) for one in notices] == [("a", 20, 10), ("b", 20, 10)]
    assert [one.id for one in notices_of("outbox/1", tells, _NOON + 5)] == [one.id for one in notices]
    assert {one.id for one in notices_of("outbox/2", tells, _NOON)}.isdisjoint(one.id for one in notices)


def test_run_that_fails_and_prints_is_one_event_in_its_message() -> None:
    notify = Notify(to="ops", on=(EventKind.FAILED, EventKind.OUTPUT))
    setting = Setting(applying=applying_to_job({}, [notify], {}, {}), now_ms=_NOON)
    failed, printed, other = _event(1), _event(1, EventKind.OUTPUT), _event(2, EventKind.OUTPUT)
    tells = [tell for event in (printed, failed, other)
             for tell in decide(NEVER_HEARD_OF, event, CameTo(), setting).tells]  # fmt: skip
    (notice,) = notices_of("outbox/1", tells, _NOON)
    assert [told.event for told in notice.told] == [failed, other]


# Which rules apply


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"team": "billing"}, [(None, ("own",)), ("all", ("ops",)), ("billing", ("billing",))]),
        ({"team": "sales"}, [(None, ("own",)), ("all", ("ops",))]),
        ({}, [(None, ("own",)), ("all", ("ops",))]),
    ],
)
def test_rules_apply_by_labels_and_channels_by_whom_they_serve(
    labels: Mapping[str, str], expected: list[tuple[str | None, tuple[str, ...]]]
) -> None:
    billing = Selector.of({"team": ["billing"]})
    rules = {"all": replace(_ALL, to=("ops", "billing-only")), "billing": Rule(labels=billing, to=("billing",)),
             "system": Rule(system=True, to=("admins",))}  # fmt: skip
    channels = {
        "billing-only": Channel(kind=ChannelKind.WEBHOOK, url="https://x.example", labels=Selector.of({"x": ["y"]}))
    }
    found = applying_to_job(labels, [Notify(to="own")], rules, channels)
    assert [(one.rule, one.to) for one in found] == expected
    assert isinstance(found[0], Applying)


def test_job_of_a_command_channel_is_told_to_no_command_channel() -> None:
    channels = {"pager": Channel(kind=ChannelKind.COMMAND, job="page"), "ops": Channel(kind=ChannelKind.SLACK, url="x")}
    rules = {"all": replace(_ALL, to=("pager", "ops"))}
    assert jobs_of_commands(channels) == {"page"}
    assert [one.to for one in applying_to_job({}, (), rules, channels)] == [("pager", "ops")]
    assert [one.to for one in applying_to_job({}, (), rules, channels, is_of_command=True)] == [("ops",)]
