"""The checker accepts a history in which every promise is kept, and rejects it corrupted in any one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.check import given_twice, report, violations
from tests.chaos.good_history import EDITED, REVISIONS, T0_MS, good_history
from tests.chaos.history import (
    Call,
    Event,
    Evidence,
    Exit,
    Fault,
    Header,
    HistoryFile,
    Leftover,
    Mark,
    Op,
    Stage,
    Stored,
    read_history,
)
from tests.chaos.latency import Beyond, beyond_by_kind
from tests.chaos.rules import absences, attempts, catching_up, edits, evidence_clocks, give_ups, leftovers, overlap
from tests.chaos.view import View

Corruption = Callable[[list[Event]], list[Event]]
_MS = 1_000_000


def run_id(job: str, second: float, attempt: int = 1) -> str:
    return f"{job}@{T0_MS + int(second * 1000)}#{attempt}"


def marked(run: str, mark: Mark, /, **changes: Any) -> Corruption:
    """One line of evidence is another."""

    def corrupt(events: list[Event]) -> list[Event]:
        return [_changed(one, changes) if _is_mark(one, run, mark) else one for one in events]

    return corrupt


def moved(run: str, mark: Mark, by_ms: int) -> Corruption:
    """One line of evidence was written at another time."""

    def corrupt(events: list[Event]) -> list[Event]:
        return [
            replace(one, boot_ns=one.boot_ns + by_ms * _MS, wall_ms=one.wall_ms + by_ms)
            if isinstance(one, Evidence) and _is_mark(one, run, mark)
            else one
            for one in events
        ]

    return corrupt


def without_mark(run: str, mark: Mark) -> Corruption:
    return lambda events: [one for one in events if not _is_mark(one, run, mark)]


def twice(run: str, mark: Mark, /, **changes: Any) -> Corruption:
    """One line of evidence is there again, a little different."""
    return lambda events: [*events, *(_changed(one, changes) for one in events if _is_mark(one, run, mark))]


def without_record(run: str) -> Corruption:
    return lambda events: [one for one in events if not _is_record(one, run)]


def record(run: str, **changes: Any) -> Corruption:
    """The record says something else."""

    def corrupt(events: list[Event]) -> list[Event]:
        return [
            Stored(document=one.document | changes) if isinstance(one, Stored) and _is_record(one, run) else one
            for one in events
        ]

    return corrupt


def copied_record(run: str, **changes: Any) -> Corruption:
    """There is one more record, nearly the same."""

    def corrupt(events: list[Event]) -> list[Event]:
        found = [one for one in events if isinstance(one, Stored) and _is_record(one, run)]
        return [*events, *(Stored(document=one.document | changes) for one in found)]

    return corrupt


def and_also(event: Event) -> Corruption:
    return lambda events: [*events, event]


def both(*corruptions: Corruption) -> Corruption:
    def corrupt(events: list[Event]) -> list[Event]:
        for one in corruptions:
            events = one(events)
        return events

    return corrupt


def _changed(event: Event, changes: dict[str, Any]) -> Event:
    return replace(event, **changes)


def _is_mark(event: Event, run: str, mark: Mark) -> bool:
    return isinstance(event, Evidence) and event.run == run and event.mark is mark


def _is_record(event: Event, run: str) -> bool:
    return isinstance(event, Stored) and event.document["_id"] == run


TICK, MISSED, SKIPPED = run_id("tick", 2), run_id("tick", 8), run_id("tick", 20)
LOST, KILLED, ASKED = run_id("long", 20), run_id("long", 0), f"asked@r-{T0_MS + 3000}-0a#1"
LAST = run_id("tick", 18)
AGAIN = run_id("flaky", 0, 2)
LOUD = run_id("loud", 0)


def fault(what: str, target: str, from_ms: int, until_ms: int) -> Fault:
    """Times since the beginning."""
    return Fault(what=what, target=target, from_ms=T0_MS + from_ms, until_ms=T0_MS + until_ms)


WRONG_CLOCK = and_also(fault("clock off by +30 s for 3 s", "w1", 1000, 4000))
FULL_DISK = and_also(fault("disk full for 10 s", "w1", 0, 10_000))
HANGING_DISK = and_also(fault("disk hangs for 10 s", "w1", 0, 10_000))

CORRUPTIONS: dict[str, tuple[str, Corruption]] = {
    "the command started twice": ("G1", twice(TICK, Mark.START, pid=4001, worker="w2")),
    "a planned fire has no record": ("G2", without_record(SKIPPED)),
    "a fire of a range has its own record": ("G2", copied_record(MISSED, _id=run_id("tick", 10), rangeEndTime=None)),
    "a range says another number": ("G2", record(MISSED, count=3)),
    "a range ends where nothing was planned": ("G2", record(MISSED, rangeEndTime=T0_MS + 14_500)),
    "a fire that was never planned": ("G2", copied_record(SKIPPED, _id=run_id("tick", 5), planTime=T0_MS + 5000)),
    "a fire of the schedule that was replaced": ("G2", copied_record(run_id("edited", 9), _id=run_id("edited", 18))),
    "a fire after the pause": ("G2", copied_record(SKIPPED, _id=run_id("tick", 24), planTime=T0_MS + 24_000)),
    "an attempt whose forerunner is missing": ("G2", without_record(run_id("long", 20))),
    "a run that was asked for left no record": (
        "G2", both(without_record(ASKED), without_mark(ASKED, Mark.START), without_mark(ASKED, Mark.END)),
    ),
    "success, and nothing started": ("G3", both(without_mark(TICK, Mark.START), without_mark(TICK, Mark.END))),
    "success, and it did not end": ("G3", without_mark(TICK, Mark.END)),
    "success, and it ended with 1": ("G3", marked(TICK, Mark.END, exit_code=1)),
    "failed, and it ended with 0": ("G3", record(TICK, status="failed", exitCode=1)),
    "skipped, and it started": ("G3", twice(TICK, Mark.START, run=SKIPPED)),
    "missed, and it started": ("G3", twice(TICK, Mark.START, run=MISSED)),
    "another fence than the record's": ("G3", marked(TICK, Mark.START, fence=201)),
    "another worker than the record's": ("G3", record(TICK, worker="w3")),
    "started after it was recorded as lost": ("G3", record(LOST, endTime=T0_MS + 19_000)),
    "lived beyond its recorded end": ("G3", moved(KILLED, Mark.LAST, 150)),
    "skipped for a run that never was": ("G3", record(SKIPPED, reason="overlap: tick@7#1 was going")),
    "recorded to have started later than it did": ("G3", record(TICK, startTime=T0_MS + 2100)),
    "recorded to have started before its time": ("G4", record(TICK, startTime=T0_MS + 1999)),
    "started before its time": ("G4", moved(TICK, Mark.START, -10)),
    "two runs of a queue overlap": ("G5", moved(run_id("queued", 0), Mark.END, 100)),
    "two runs of a skip overlap": ("G5", moved(run_id("tick", 4), Mark.END, 1700)),
    "a link of a chain overlaps the one before": ("G5", moved(run_id("chain", 2.5), Mark.START, -1200)),
    "a link of a chain comes too soon": ("after", moved(run_id("chain", 2.5), Mark.START, -300)),
    "started although it was too late": ("G6", both(moved(LAST, Mark.START, 5000), moved(LAST, Mark.END, 5000))),
    "claimed under the old spec after the edit": ("G7", record(run_id("edited", 15), revision=REVISIONS["edited"])),
    "claimed under the spec that was paused": ("G7", record(run_id("edited", 20), fence=EDITED + 5000)),
    "killed, and it wrote afterwards": ("G8", moved(KILLED, Mark.LAST, 150)),
    "killed, says the answer, and the record does not": ("G8", record(KILLED, status="lost")),
    "a start without a record": ("G9", without_record(TICK)),
    "two records of one run": ("G9", copied_record(TICK)),
    "a key is left": ("G9", and_also(Leftover(key="/etcron/locks/tick", value="x"))),
    "a command outlived its worker": (
        "guardian", and_also(Fault(what=leftovers.KILLED, target="w1", from_ms=T0_MS + 2000, until_ms=T0_MS + 3000)),
    ),
    "a command outlived its worker, which killed itself": (
        "guardian", and_also(fault(f"{leftovers.KILLED} at after_spawn:kill:1", "w1", 2000, 3000)),
    ),
    "a command outlived the next start of its worker": (
        "guardian", both(
            and_also(fault(leftovers.KILLED_WITH_GUARDIAN, "w1", 2000, 3000)),
            moved(run_id("queued", 0), Mark.END, 18_000),
        ),
    ),
    "what was left in the process group outlived the run": ("G3", moved(TICK, Mark.BACKGROUND, 200)),
    "a daemon of a killed run lived beyond its recorded end": ("G3", moved(KILLED, Mark.DEPARTED, 150)),
    "a daemon of a run wrote after the answer that it was killed": ("G8", moved(KILLED, Mark.DEPARTED, 150)),
    "less output is recorded than was printed": ("G9", record(LOUD, outputBytes=20_000)),
    "output was cut, and the record does not say so": ("G9", record(LOUD, outputTruncated=False)),
    "output was whole, and the record says it was cut": ("G9", record(run_id("loud", 20), outputTruncated=True)),
    "a full disk, and output is lost without a word": ("G9", both(FULL_DISK, record(LOUD, outputBytes=0))),
    "a disk that hangs, and output is lost without a word": ("G9", both(HANGING_DISK, record(LOUD, outputBytes=0))),
    "a wrong clock, and too early even for a claim": ("G4", both(WRONG_CLOCK, moved(TICK, Mark.START, -460))),
    "a wrong clock elsewhere": ("G3", both(WRONG_CLOCK, record(run_id("tick", 16), startTime=T0_MS + 16_100))),
    "a wrong clock, and recorded to have started at a time that it did not show": (
        "G3", both(WRONG_CLOCK, record(TICK, startTime=T0_MS + 33_000, endTime=T0_MS + 33_400)),
    ),
    "a wrong clock, and it lived beyond its end by that clock": (
        "G3", both(
            and_also(fault("clock off by -30 s for 3 s", "w1", 1000, 4000)),
            record(TICK, startTime=T0_MS - 28_000, endTime=T0_MS - 27_800),
        ),
    ),
    "a wrong clock of another worker's": (
        "G3", both(
            and_also(fault("clock off by +30 s for 3 s", "w2", 1000, 4000)),
            record(TICK, startTime=T0_MS + 32_000, endTime=T0_MS + 32_400),
        ),
    ),
    "recorded as lost before it started, and no clock was that wrong": (
        "G3", both(
            and_also(fault("clock off by -30 s for 3 s", "w1", 40_000, 43_000)),
            record(LOST, reason="worker gone", endTime=T0_MS + 50_000 - 31_000),
        ),
    ),
    "recorded as lost before it started, by itself, and another's clock was wrong": (
        "G3", both(
            and_also(fault("clock off by -30 s for 3 s", "w2", 40_000, 43_000)),
            record(LOST, endTime=T0_MS + 41_000 - 30_000),
        ),
    ),
    "a failed run was not tried again": (
        "retry", both(without_record(AGAIN), without_mark(AGAIN, Mark.START), without_mark(AGAIN, Mark.END)),
    ),
    "tried again after a success": ("retry", record(run_id("flaky", 0), status="success", exitCode=0)),
    "tried again before its delay was over": ("retry", moved(AGAIN, Mark.START, -10)),
    "tried again before it had ended": ("retry", moved(AGAIN, Mark.START, -930)),
    "it did not come to rest": ("G12", and_also(Stage(name="settled", at_ms=0, failed="7 keys are left"))),
    "a worker ended by itself": ("G12", and_also(Exit(process="w1", status=1, at_ms=T0_MS))),
}  # fmt: skip


def test_a_history_that_keeps_every_promise_is_accepted() -> None:
    assert [str(one) for one in violations(View.of(good_history()))] == []


@pytest.mark.parametrize(("every", "accepted"), [("5s", True), ("3s", False)])
def test_only_an_edit_of_when_a_job_fires_takes_a_fire_away(every: str, accepted: bool) -> None:
    """The fire at 9 s is recorded as skipped by the edit after it; before, the job fires every 3 s."""
    after = {"name": "edited", "every": every, "priority": 1}
    events = [
        replace(event, spec=after) if isinstance(event, Call) and event.job_revision == EDITED else event
        for event in good_history()
    ]
    assert (not list(edits.check(View.of(events)))) is accepted


@pytest.mark.parametrize(("revision", "accepted"), [(REVISIONS["edited"], True), (REVISIONS["edited"] + 1, False)])
def test_a_save_that_changes_nothing_takes_no_fire_away(revision: int, accepted: bool) -> None:
    """It has the revision of the save before it; with one of its own it would be an edit, and the one to blame."""
    again = next(event for event in good_history() if isinstance(event, Call) and event.job == "edited")
    same = replace(again, sent_ms=again.sent_ms + 30, ack_ms=again.ack_ms + 30, job_revision=revision)
    events = [*good_history(), same]
    assert (not list(edits.check(View.of(events)))) is accepted


@pytest.mark.parametrize(("killed_ms", "accepted"), [(5000, True), (4999, False)])
def test_a_command_of_a_killed_worker_has_its_grace_and_one_second(killed_ms: int, accepted: bool) -> None:
    """The first run of the queue lives until 11 s, with a grace of 5 s."""
    kill = Fault(what=leftovers.KILLED, target="w1", from_ms=T0_MS + killed_ms, until_ms=T0_MS + killed_ms)
    assert (not list(leftovers.check(View.of([*good_history(), kill])))) is accepted


_STORE_AWAY = fault("SIGSTOP for 1 s", "log store", 20_900, 21_500)
_CUT_OFF = fault("etcd: reset for 60 s", "w1", 20_600, 80_000)
_ETCD_AWAY = fault("SIGKILL of the leader", "etcd", 20_600, 20_750)
_GONE = fault("the machine is gone for 60 s", "w1", 20_900, 80_000)


@pytest.mark.parametrize(
    ("faults", "accepted"),
    [
        pytest.param([_CUT_OFF, _STORE_AWAY], True, id="cut off from etcd, and the log store away"),
        pytest.param([_CUT_OFF, fault("log store: swallow for 5 s", "w2", 20_900, 21_500)], True, id="for the steward"),
        pytest.param([_CUT_OFF], False, id="the log store could be asked"),
        pytest.param([_ETCD_AWAY, _GONE, _STORE_AWAY], True, id="etcd away, and its machine gone before it is back"),
        pytest.param([_ETCD_AWAY, _STORE_AWAY], False, id="etcd away, and back"),
        pytest.param([_GONE, _STORE_AWAY], False, id="its machine gone after it could free the lock"),
        pytest.param([_STORE_AWAY], False, id="its worker could free the lock"),
        pytest.param([fault("etcd: reset for 60 s", "w2", 20_600, 80_000), _STORE_AWAY], False, id="another worker"),
        pytest.param([fault("etcd: reset for 60 s", "w1", 20_800, 80_000), _STORE_AWAY], False, id="cut off later"),
        pytest.param(
            [_CUT_OFF, fault("SIGSTOP for 1 s", "log store", 30_900, 31_500)], False, id="the log store away later"
        ),
    ],
)
def test_a_success_that_nobody_could_know_of_may_be_run_again(faults: list[Event], accepted: bool) -> None:
    """The run that its job wants repeated where it is lost has ended at 20,700 ms, and is claimed again at 21,000."""
    found = violations(View.of(succeeds([*good_history(), *faults], again_ms=21_000)))
    assert {one.promise for one in found} == (set() if accepted else {"retry"})


@pytest.mark.parametrize(("gone_ms", "accepted"), [(25_750, True), (25_751, False)])
def test_a_machine_that_goes_once_etcd_has_long_been_back_has_told_the_end(gone_ms: int, accepted: bool) -> None:
    faults = [
        _ETCD_AWAY, fault("the machine is gone for 60 s", "w1", gone_ms, 80_000),
        fault("SIGSTOP for 1 s", "log store", 30_900, 31_500),
    ]  # fmt: skip
    found = attempts.check(View.of(succeeds([*good_history(), *faults], again_ms=40_000)))
    assert any("after one that was success" in one.text for one in found) is not accepted


def succeeds(events: list[Event], *, again_ms: int) -> list[Event]:
    """The run that is lost has ended well, and has been claimed again at that time."""
    return both(
        marked(LOST, Mark.LAST, mark=Mark.END, exit_code=0),
        record(LOST, status="success", exitCode=0, startTime=T0_MS + 20_003, endTime=T0_MS + 20_703, reason=None),
        record(run_id("long", 20, 2), trigger="rerun", claimTime=T0_MS + again_ms),
    )(events)


@pytest.mark.parametrize(
    ("freeze", "accepted"),
    [
        pytest.param(fault("SIGSTOP for 5 s at before_spawn:stop:1", "w1", 18_003, 23_000), True, id="before its exec"),
        pytest.param(fault("SIGSTOP for 5 s at after_claim:stop:1", "w1", 18_003, 23_000), False, id="after its claim"),
        pytest.param(fault("SIGSTOP for 5 s", "w1", 18_003, 23_000), False, id="just so"),
        pytest.param(fault("SIGSTOP for 5 s at before_spawn:stop:1", "w2", 18_003, 23_000), False, id="another worker"),
        pytest.param(fault("SIGSTOP for 1 s at before_spawn:stop:1", "w1", 18_003, 19_000), False, id="long before"),
    ],
)
def test_a_start_may_be_too_late_where_its_worker_was_frozen_behind_its_last_look(
    freeze: Fault, accepted: bool
) -> None:
    late = both(moved(LAST, Mark.START, 5000), moved(LAST, Mark.END, 5000))
    view = View.of(late([*good_history(), freeze]))
    assert (not list(catching_up.check(view))) is accepted


@pytest.mark.parametrize(("edited_ms", "accepted"), [(10_050, True), (15_050, True), (15_150, False), (9970, False)])
@pytest.mark.parametrize("by_ms", [-30_000, 0])
def test_an_edit_near_a_failed_run_excuses_its_retry_whatever_its_workers_clock_said(
    edited_ms: int, by_ms: int, accepted: bool
) -> None:
    """The second run of the flaky job goes from 10,005 to 10,100 ms."""
    run = run_id("flaky", 10)
    fails = record(run, status="failed", exitCode=1, startTime=T0_MS + 10_003 + by_ms, endTime=T0_MS + 10_103 + by_ms)
    edit = Call(op=Op.SAVE, job="flaky", sent_ms=T0_MS + edited_ms, ack_ms=T0_MS + edited_ms + 20)
    view = View.of(fails([*good_history(), edit]))
    assert (not list(attempts.check(view))) is accepted


_KILLED_WITH_GUARDIAN = fault(leftovers.KILLED_WITH_GUARDIAN, "w1", 2000, 3000)
_IN_TIME = 3000 + leftovers.STARTS_WITHIN_MS
"""Until then the next start has to come so far."""
_GRACE = 5000


@pytest.mark.parametrize(
    ("next_fault", "of", "from_ms", "until_ms", "accepted_until_ms"),
    [
        ("drained", "w1", 0, 0, _IN_TIME),
        (leftovers.KILLED, "w1", _IN_TIME, _IN_TIME + 500, _IN_TIME + 500 + leftovers.STARTS_WITHIN_MS),
        (f"{leftovers.KILLED} at after_claim:kill:1", "w1", 9000, 9500, 9500 + leftovers.STARTS_WITHIN_MS),
        (leftovers.KILLED, "w1", _IN_TIME + 1, _IN_TIME + 500, _IN_TIME),
        (leftovers.KILLED, "w2", 9000, 9500, _IN_TIME),
        ("SIGTERM", "w1", 9000, 9500, _IN_TIME),
        ("SIGSTOP for 3 s", "w1", 9000, 12_000, 12_000 + leftovers.STARTS_WITHIN_MS),
        ("SIGSTOP for 3 s", "w1", _IN_TIME + 1, _IN_TIME + 3000, _IN_TIME),
        ("no more descriptors than 20 for 5 s", "w1", 9000, 14_000, 14_000 + leftovers.STARTS_WITHIN_MS),
        ("no more processes than 1 for 5 s", "w1", 9000, 14_000, 14_000 + leftovers.STARTS_WITHIN_MS),
        ("disk full for 5 s", "w1", 9000, 14_000, _IN_TIME),
        ("disk hangs for 5 s", "w1", 9000, 14_000, _IN_TIME),
    ],
)
@pytest.mark.parametrize("beyond_ms", [0, 1])
def test_a_command_of_a_worker_killed_with_its_guardian_ends_with_the_next_start_that_can_go_on(
    next_fault: str, of: str, from_ms: int, until_ms: int, accepted_until_ms: int, beyond_ms: int
) -> None:
    """The first run of the queue starts at 5 ms and lives until 11 s, with a grace of 5 s."""
    lives_on = moved(run_id("queued", 0), Mark.END, accepted_until_ms + _GRACE + beyond_ms - 11_000)
    faults = [_KILLED_WITH_GUARDIAN, fault(next_fault, of, from_ms, until_ms)]
    found = list(leftovers.check(View.of(lives_on([*good_history(), *faults]))))
    assert (not found) is (beyond_ms == 0)


_CUT_OFF_UNTIL_GIVEN_UP = fault("etcd: swallow until a run of it was given up", "w1", 2000, 20_000)
_QUEUED = run_id("queued", 0)


def given_up(run: str, sent: int, outcome: str = "lost", *, in_doubt: bool = False) -> Call:
    """Sent and answered then, in ms since the beginning."""
    return Call(
        op=Op.GIVE_UP, job=run.partition("@")[0], sent_ms=T0_MS + sent, ack_ms=T0_MS + sent + 500, runs=[run],
        outcome=outcome, in_doubt=in_doubt,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "accepted"),
    [
        pytest.param(given_up(_QUEUED, 11_000), True, id="given up before"),
        pytest.param(given_up(_QUEUED, 11_000, "pending"), True, id="given up, and the steward is slow"),
        pytest.param(given_up(_QUEUED, 11_000, "finished"), False, id="it had ended, said the answer"),
        pytest.param(given_up(_QUEUED, 11_000, "finished", in_doubt=True), True, id="by a sending without an answer"),
        pytest.param(given_up(_QUEUED, 11_021), False, id="given up after the other began"),
        pytest.param(given_up(run_id("queued", 20), 11_000), False, id="another one was given up"),
    ],
)
def test_a_run_that_users_gave_up_may_go_on_beside_the_next(call: Call, accepted: bool) -> None:
    """The first run of the queue goes on until 11,100 ms; the second one begins at 11,020."""
    goes_on = both(moved(_QUEUED, Mark.END, 100), record(_QUEUED, endTime=T0_MS + 11_103))
    found = violations(View.of(goes_on([*good_history(), _CUT_OFF_UNTIL_GIVEN_UP, call])))
    assert {one.promise for one in found} == (set() if accepted else {"G5"})


@pytest.mark.parametrize(
    ("what", "of", "until_ms", "accepted"),
    [
        ("etcd: swallow until a run of it was given up", "w1", 20_000, True),
        ("the machine is gone for 40 s", "w1", 20_000, True),
        ("majority lost for 3 s", "etcd", 5_000, True),
        ("etcd: swallow until a run of it was given up", "w2", 20_000, False),
        ("drained", "w1", -50_000, False),
    ],
)
def test_a_run_is_given_up_only_where_its_worker_may_be_out_of_reach(
    what: str, of: str, until_ms: int, accepted: bool
) -> None:
    faults: list[Event] = [fault(what, of, -60_000, until_ms), given_up(_QUEUED, 11_000)]
    found = list(give_ups.check(View.of([*good_history(), *faults])))
    assert (not found) is accepted


@pytest.mark.parametrize(
    ("wish", "is_asked_for"),
    [
        ([given_up(LOST, 20_800)], True),
        ([given_up(LOST, 20_800, "finished", in_doubt=True)], True),
        ([given_up(LOST, 20_800, "finished")], False),
        ([], False),
    ],
)
def test_only_what_users_gave_up_is_recorded_so(wish: list[Event], is_asked_for: bool) -> None:
    lost = record(LOST, reason="given up by api ::1: it burned")
    killed = fault("SIGKILL", "w1", 20_600, 20_700)
    assert (not list(give_ups.check(View.of(lost([*good_history(), killed, *wish]))))) is is_asked_for


@pytest.mark.parametrize(
    ("what", "of", "from_ms", "until_ms", "accepted"),
    [
        ("SIGSTOP for 20 s", "w1", -12_000, 8000, True),
        ("majority lost for 20 s", "etcd", -12_000, 8000, True),
        ("SIGSTOP for 20 s", "w1", -8000, 12_000, False),  # the lock of a run of 20 s had no time to pass on
        ("SIGSTOP for 19 s", "w1", -12_000, 7000, False),
        ("SIGSTOP for 20 s", "w2", -12_000, 8000, False),
    ],
)
def test_no_run_begins_while_what_is_left_of_the_one_before_lingers(
    what: str, of: str, from_ms: int, until_ms: int, accepted: bool
) -> None:
    """The second run of the queue begins at 11,020 ms; of the first one a process goes on until 11,100 ms."""
    [one] = [event for event in good_history() if _is_mark(event, _QUEUED, Mark.START)]
    assert isinstance(one, Evidence)
    lingers = replace(
        one, mark=Mark.LINGERS, pid=4001, boot_ns=one.boot_ns + 11_095 * _MS, wall_ms=one.wall_ms + 11_095
    )
    lost_soon = _with_lost_after("queued", 20)
    view = View.of(lost_soon([*good_history(), lingers, fault(what, of, from_ms, until_ms)]))
    assert (not list(overlap.check(view))) is accepted
    gone = replace(lingers, boot_ns=one.boot_ns + 11_000 * _MS)
    assert not list(overlap.check(View.of(lost_soon([*good_history(), gone]))))
    given = View.of(lost_soon([*good_history(), lingers, given_up(_QUEUED, 11_000)]))
    assert not list(overlap.check(given))


def _with_lost_after(job: str, seconds: float) -> Corruption:
    return lambda events: [
        replace(one, spec={**one.spec, "lostAfterSeconds": seconds})
        if isinstance(one, Call) and one.job == job and one.spec else one
        for one in events
    ]  # fmt: skip


_UNBLOCKED_MS = 7000
_AGAIN_UNTIL_MS = 17_000


def unblocked(job: str = "tick", outcome: str = "") -> Call:
    """Sent and answered then; fires of the next ten seconds begin with their second attempt."""
    return Call(
        op=Op.UNBLOCK, job=job, sent_ms=T0_MS + _UNBLOCKED_MS, ack_ms=T0_MS + _UNBLOCKED_MS + 20, outcome=outcome,
        spec={"name": "tick", "every": "2s", "misfire": {"policy": "skip", "graceSeconds": 1}},
        again_until_ms=T0_MS + _AGAIN_UNTIL_MS, again_attempt=2,
    )  # fmt: skip


def numbered(second: int, attempt: int) -> Corruption:
    """That fire of the job `tick` has no attempt but this one."""
    before, after = run_id("tick", second), run_id("tick", second, attempt)

    def corrupt(events: list[Event]) -> list[Event]:
        return [
            replace(one, run=after) if isinstance(one, Evidence) and one.run == before
            else Stored(document=one.document | {"_id": after, "attempt": attempt})
            if isinstance(one, Stored) and one.document["_id"] == before else one
            for one in events
        ]  # fmt: skip

    return corrupt


@pytest.mark.parametrize(
    ("calls", "second", "attempt", "accepted"),
    [
        pytest.param([unblocked()], 16, 2, True, id="up to the old mark"),
        pytest.param([unblocked()], 18, 2, False, id="beyond it"),
        pytest.param([unblocked()], 16, 3, False, id="another number"),
        pytest.param([unblocked("queued")], 16, 2, False, id="another job"),
        pytest.param([], 16, 2, False, id="nobody has unblocked it"),
    ],
)
def test_fires_up_to_the_mark_of_an_unblocked_job_begin_with_its_number(
    calls: list[Event], second: int, attempt: int, accepted: bool
) -> None:
    found = violations(View.of(numbered(second, attempt)([*good_history(), *calls])))
    assert {one.promise for one in found} == (set() if accepted else {"G2"})


def test_no_fire_of_an_unblocked_job_runs_under_both_numbers() -> None:
    twice_there = both(copied_record(run_id("tick", 16), _id=run_id("tick", 16, 2), attempt=2), and_also(unblocked()))
    assert "G2" in {one.promise for one in violations(View.of(twice_there(good_history())))}


@pytest.mark.parametrize("outcome", ["recorded as missed", "did not run have no record: the log store was away"])
def test_what_was_due_while_a_mark_lay_ahead_has_a_record_whatever_is_said_of_it(outcome: str) -> None:
    """The fire at 6 s is there no more."""
    run, ahead = run_id("tick", 6), fault("its mark is put 900 s ahead", "tick", 5000, 8000)
    gone = both(without_record(run), without_mark(run, Mark.START), without_mark(run, Mark.END))
    found = violations(View.of(gone([*good_history(), ahead, unblocked(outcome=outcome)])))
    assert {one.promise for one in found} == {"G2"}


@pytest.mark.parametrize(
    ("what", "of", "until_ms", "exit_code", "accepted"),
    [
        ("the machine is gone for 40 s, and its disk with it", "w1", 40_000, 1, True),
        ("the machine is gone for 40 s, and its disk with it", "w1", 40_000, 0, False),
        ("the machine is gone for 40 s, and its disk with it", "w2", 40_000, 1, False),
        ("the machine is gone for 40 s, and its disk with it", "w1", 50, 1, False),
        ("the machine is gone for 40 s", "w1", 40_000, 1, False),
    ],
)
def test_a_failure_whose_record_was_lost_with_its_disk_may_be_tried_again(
    what: str, of: str, until_ms: int, exit_code: int, accepted: bool
) -> None:
    """The first run of the flaky job fails at 100 ms, and is tried again."""
    run = run_id("flaky", 0)
    lost = both(
        record(run, status="lost", exitCode=None, endTime=T0_MS + 30_000), marked(run, Mark.END, exit_code=exit_code)
    )
    view = View.of(lost([*good_history(), fault(what, of, 0, until_ms)]))
    assert (not list(attempts.check(view))) is accepted


@pytest.mark.parametrize(
    ("what", "of", "until_ms", "reason", "accepted"),
    [
        ("the machine is gone for 40 s, and its disk with it", "w1", 40_000, "result not delivered", True),
        ("the machine is gone for 40 s, and its disk with it", "w1", 40_000, "worker gone", False),
        ("the machine is gone for 40 s, and its disk with it", "w2", 40_000, "result not delivered", False),
        ("the machine is gone for 40 s, and its disk with it", "w1", -50, "result not delivered", False),
        ("the machine is gone for 40 s", "w1", 40_000, "result not delivered", False),
    ],
)
def test_so_may_one_that_could_not_be_started(what: str, of: str, until_ms: int, reason: str, accepted: bool) -> None:
    run = run_id("flaky", 0)
    lost = record(run, status="lost", exitCode=None, endTime=T0_MS + 30_000, reason=reason)
    events = [one for one in good_history() if not isinstance(one, Evidence) or one.run != str(run)]
    view = View.of(lost([*events, fault(what, of, -100, until_ms)]))
    assert (not list(attempts.check(view))) is accepted


@pytest.mark.parametrize(
    ("ended_ms", "worker", "accepted"),
    [
        pytest.param(78_500, "w1", True, id="a minute after its last start"),
        pytest.param(77_500, "w1", False, id="sooner"),
        pytest.param(77_500, "w2", True, id="of another worker's absence"),
        pytest.param(20_100, "w1", True, id="when it is just back"),
    ],
)
def test_fires_are_passed_for_a_worker_that_has_been_away_for_a_minute(
    ended_ms: int, worker: str, accepted: bool
) -> None:
    """The worker starts a command at 18,005 ms; those of before and after are of no matter here."""
    reason = f"no worker: {worker} (machine={worker}) has been gone since 02:14 UTC"
    events = [one for one in good_history() if not isinstance(one, Evidence) or one.run == LAST]
    if ended_ms < 30_000:
        events = [replace(one, wall_ms=T0_MS + 20_000) if isinstance(one, Evidence) else one for one in events]
    passed = record(SKIPPED, status="missed", reason=reason, endTime=T0_MS + ended_ms)
    assert (not list(absences.check(View.of(passed(events))))) is accepted


@pytest.mark.parametrize(("changes", "accepted"), [({"calendar": {"exclude": ["01-01"]}}, True), ({}, False)])
def test_the_fires_of_a_job_with_a_calendar_are_not_judged(changes: dict[str, Any], accepted: bool) -> None:
    events = [
        replace(one, spec={**one.spec, **changes}) if isinstance(one, Call) and one.job == "tick" and one.spec else one
        for one in record(MISSED, count=3)(good_history())
    ]
    assert {one.promise for one in violations(View.of(events))} == (set() if accepted else {"G2"})


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_history_is_rejected(name: str) -> None:
    promise, corrupt = CORRUPTIONS[name]
    found = violations(View.of(corrupt(good_history())))
    assert promise in {one.promise for one in found}, [str(one) for one in found]


ACCEPTED: dict[str, Corruption] = {
    "times that a worker wrote by a clock that was wrong": both(
        WRONG_CLOCK, record(TICK, startTime=T0_MS + 32_000, endTime=T0_MS + 32_400)
    ),
    "a start that was claimed before the clock was set": both(
        WRONG_CLOCK,
        moved(TICK, Mark.START, -150),
        record(TICK, startTime=T0_MS + 31_850, endTime=T0_MS + 32_400),
    ),
    "an end that was dated by a start with a wrong clock": both(
        and_also(fault("clock jumps to -5, +0.4 s", "w1", 0, 2100)),
        record(TICK, startTime=T0_MS + 2003 + 400, endTime=T0_MS + 2403 + 400),
    ),
    "a run that a steward with a wrong clock gave up": both(
        and_also(fault("clock off by -30 s for 3 s", "w1", 40_000, 43_000)),
        record(LOST, reason="worker gone", endTime=T0_MS + 41_000 - 30_000),
        marked(LOST, Mark.START, worker="w3"),
        record(LOST, worker="w3"),
    ),
    "output that a full disk did not take": both(FULL_DISK, record(LOUD, outputBytes=0, err="the disk is full")),
    "output that a disk that hangs did not take": both(HANGING_DISK, record(LOUD, outputBytes=0, err="the disk hangs")),
    "output that could not be written for want of a descriptor": both(
        and_also(fault("no more descriptors than 20 for 5 s", "w1", 0, 5000)),
        record(LOUD, outputBytes=0, err="the spool refused its output"),
    ),
    "a command that ended with the next start of its worker": and_also(
        fault(leftovers.KILLED_WITH_GUARDIAN, "w1", 2000, 3000)
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_a_fault_explains_is_accepted(name: str) -> None:
    assert [str(one) for one in violations(View.of(ACCEPTED[name](good_history())))] == []


def test_a_command_that_has_its_workers_wrong_clock_is_noticed() -> None:
    corrupt = marked(TICK, Mark.START, wall_ms=T0_MS + 2005 - 30_000)
    view = View.of(corrupt(good_history()))
    assert ["-30000 ms off" in str(one) for one in evidence_clocks.check(view)] == [True]


def test_a_history_that_ends_before_it_settled_is_rejected() -> None:
    events = [event for event in good_history() if not isinstance(event, Stage)]
    assert [one.promise for one in violations(View.of(events))] == ["G12"]


def test_a_history_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    for event in good_history():
        history.add(event)
    history.close()
    assert list(read_history(history.path)) == good_history()


def test_the_report_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(good_history()) == 0
    assert "no violation" in capsys.readouterr().out
    assert report(without_record(TICK)(good_history())) == 1
    assert f"G2  tick@{T0_MS + 2000}: a planned fire, and no record covers it" in capsys.readouterr().out


def test_lateness_is_told_by_kind_and_not_of_what_waited_for_a_run_before_it() -> None:
    late = moved(run_id("edited", 3), Mark.START, 150)(good_history())
    late = [_recorded_later(one, run_id("edited", 3), 150) for one in late]
    found = beyond_by_kind(View.of(late))
    assert found["queue"] == Beyond(starts=1, late=0, latest_ms=3), "one of the queued ones waited, one is near a fault"
    assert (found["skip"].late, found["skip"].latest_ms) == (1, 153)
    assert "LOOK INTO IT" in str(found["skip"])
    assert "LOOK INTO IT" not in str(found["queue"])


def test_lateness_is_not_told_of_what_may_have_waited_for_a_slot() -> None:
    header, *events = good_history()
    assert isinstance(header, Header)
    assert beyond_by_kind(View.of([replace(header, slots=3), *events])).keys() == {"after", "skip"}
    assert beyond_by_kind(View.of([replace(header, slots=1), *events])) == {}


def _recorded_later(event: Event, run: str, by_ms: int) -> Event:
    if isinstance(event, Stored) and event.document["_id"] == run:
        return replace(event, document={**event.document, "startTime": event.document["startTime"] + by_ms})
    return event


def test_the_report_counts_faults_also_those_that_were_never_met(capsys: pytest.CaptureFixture[str]) -> None:
    header, *events = good_history()
    assert isinstance(header, Header)
    report([replace(header, faults=["SIGKILL", "garbage"]), *events])
    told = capsys.readouterr().out
    assert "   1  SIGKILL (met less than twice)" in told
    assert "   0  garbage (met less than twice)" in told


def test_a_history_without_a_header_is_none() -> None:
    with pytest.raises(ValueError, match="no header"):
        View.of([])


def test_revision_under_which_two_workers_have_claimed_is_the_fault_of_etcd() -> None:
    fence = next(one.fence for one in good_history() if isinstance(one, Evidence) and one.run != _QUEUED)
    corrupt = marked(_QUEUED, Mark.START, fence=fence, worker="w2")
    assert given_twice(View.of(good_history())) == []
    assert given_twice(View.of(corrupt(good_history()))) == [fence]
