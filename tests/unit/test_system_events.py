"""What is wrong with the system, by what etcd says; and how long a job has been silent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from common.clocks.watch import ClockWatch
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.notices.alerts import Alert, key_of
from common.notices.events import Event
from common.protocol.clocks import Clocks, Measured
from common.protocol.drain import Drain
from common.protocol.keys import Keys
from common.protocol.member import Beat, Member
from common.protocol.roster import Left, RosterEntry
from common.protocol.saved_job import SavedJob
from common.runlog.alerts import Watch
from common.verdicts import EventKind
from manager.notices.system_events import Seen, SystemEvents, wrong_in
from manager.notices.time_events import SilentJobs, silent_for, with_gap
from manager.views.inventory import Fleet, Inventory, SeenWorker
from manager.watch.catalog import KnownJob
from tests.support.clocks import OffClock

_NOON = 1_790_000_000_000
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


def _worker(*, beat: Beat | None = None, drain: Drain | None = None, **changes: Any) -> SeenWorker:
    given: dict[str, Any] = {
        "worker": "w1",
        "session": "1",
        "instance": "i",
        "host": "h",
        "address": "a",
        "slots": 4,
    } | changes
    return SeenWorker(key="k", name="w1", member=Member(**given), beat=beat, drain=drain)


def _gone(left: Left | None, *, ago_ms: int = _MINUTE) -> SeenWorker:
    past = RosterEntry(worker="w1", host="h", seen_ms=_NOON - ago_ms, left=left)
    return SeenWorker(key="k", name="w1", member=None, past=past)


def _beat(unsent: int) -> Beat:
    return Beat(kind="worker", wall_ms=_NOON, unsent_records=unsent)


_DOWN, _REFUSING, _FILLING = "~worker-down/w1", "~worker-refusing/w1", "~spool-filling/w1"


@pytest.mark.parametrize(
    ("workers", "there", "expected"),
    [
        pytest.param([_worker()], (), [], id="all is well"),
        pytest.param([_gone(Left.GONE)], (), ["worker-down"], id="a worker has died"),
        pytest.param([_gone(None)], (), ["worker-down"], id="and nobody was left to write that down"),
        pytest.param([_gone(Left.STOPPED)], (), [], id="a worker was stopped"),
        pytest.param([_gone(Left.DRAINED)], (), [], id="a drained worker was stopped"),
        pytest.param([_gone(Left.GONE, ago_ms=_DAY)], (), [], id="long ago, nobody told that"),
        pytest.param([_gone(Left.GONE, ago_ms=_DAY)], (_DOWN,), ["worker-down"], id="long ago, and still"),
        pytest.param([_worker(not_accepting="the disk is full")], (), ["worker-refusing"], id="its disk is full"),
        pytest.param([_worker(slots=0)], (), ["worker-refusing"], id="no slots"),
        pytest.param(
            [_worker(not_accepting="drained by ann", drain=Drain(by="ann", since_ms=_NOON - _HOUR))], (), [],
            id="drained for an hour",
        ),
        pytest.param(
            [_worker(not_accepting="drained by ann", drain=Drain(by="ann", since_ms=_NOON - 2 * _DAY))], (),
            ["worker-refusing"], id="drained, and forgotten",
        ),
        pytest.param([_worker(beat=_beat(5_000))], (), [], id="some records wait"),
        pytest.param([_worker(beat=_beat(50_000))], (), ["spool-filling"], id="many records wait"),
        pytest.param([_worker(beat=_beat(5_000))], (_FILLING,), ["spool-filling"], id="fewer, and still too many"),
        pytest.param([_worker(beat=_beat(10))], (_FILLING,), [], id="the spool is empty again"),
        pytest.param([_worker()], (_FILLING,), ["spool-filling"], id="what it holds is not known at the moment"),
        pytest.param([_gone(Left.STOPPED)], (_FILLING,), ["spool-filling"], id="stopped, with what waits on its disk"),
        pytest.param(
            [_gone(Left.GONE)], (_DOWN, _FILLING), ["worker-down", "spool-filling"],
            id="dead, with what waits on its disk",
        ),
        pytest.param([], (_FILLING,), [], id="the worker is forgotten"),
    ],
)  # fmt: skip
def test_worker_is_told_where_somebody_has_to_look(
    workers: Sequence[SeenWorker], there: Collection[str], expected: list[str]
) -> None:
    kinds = {key: EventKind(key.strip("~").partition("/")[0]) for key in there}
    alerts = {
        key: Alert(event=Event(kind=kind, at_ms=_NOON, subject="w1"), since_ms=_NOON) for key, kind in kinds.items()
    }
    assert _wrong(alerts, workers=workers) == expected


def test_clocks_etcd_and_steward() -> None:
    clocks = Clocks(
        count=3, measured={"w1": Measured(offset_ms=90_000, clock="c"), "w2": Measured(offset_ms=2, clock="c")}
    )
    assert _wrong({}, clocks=clocks) == ["clock-off"]
    assert _wrong({}, etcd_full="its database is 90% of 2 GiB") == ["etcd-full"]
    assert _wrong({}, etcd_away={"m2:2379": "connection refused"}) == ["etcd-member-away"]
    away = Event(kind=EventKind.ETCD_MEMBER_AWAY, at_ms=_NOON, subject="m2:2379")
    there = {key_of(away): Alert(event=away, since_ms=_NOON)}
    assert _wrong(there, etcd_away=None) == ["etcd-member-away"], "it is not over before the first look"
    assert _wrong(there) == []
    assert _wrong({}, has_steward=False) == ["no-leader"]


def test_clock_is_off_until_it_is_measured_again_or_its_process_has_gone() -> None:
    off = Event(kind=EventKind.CLOCK_OFF, at_ms=_NOON, subject="w1")
    there = {key_of(off): Alert(event=off, since_ms=_NOON)}
    known = Clocks(count=3, measured={name: Measured(offset_ms=2, clock="c") for name in ("w1", "w2", "w3")})
    assert _wrong(there, clocks=None, beating={"w1", "m1"}) == ["clock-off"], "the steward has just changed"
    assert _wrong(there, clocks=Clocks(count=2), beating={"w1"}) == ["clock-off"], "there are too few to compare"
    assert _wrong(there, clocks=known, beating={"w1", "w2", "w3"}) == []
    for workers in [[_gone(Left.STOPPED)], []]:
        assert _wrong(there, clocks=None, workers=workers, beating={"m1"}) == [], "a worker that is off, or forgotten"
    manager_off = Event(kind=EventKind.CLOCK_OFF, at_ms=_NOON, subject="m2")
    there = {key_of(manager_off): Alert(event=manager_off, since_ms=_NOON)}
    assert _wrong(there, clocks=Clocks(count=2), beating={"m1", "m2"}) == ["clock-off"]
    assert _wrong(there, clocks=Clocks(count=2), beating={"m1", "w1"}) == []


async def test_time_is_right_as_far_as_is_known_though_nothing_is_measured_at_the_moment() -> None:
    clock = OffClock(offset_ms=90_000)
    watch = ClockWatch(clock, max_skew_ms=1000, on_jump=lambda _: None)
    known = Clocks(count=3, measured={"m1": Measured(offset_ms=90_000, clock=watch.name)})
    fleets = _Fleets([known, None, Clocks(count=2), known, None])
    nothing: Any = None
    events = SystemEvents(
        nothing, Keys("/t/"), fleets, fullness=lambda: None, members_away=lambda: None, name="m1", watch=watch,
        max_skew_ms=1000, clock=clock,
    )  # fmt: skip
    for _ in range(3):
        await events.look({})
        assert abs(events.now_ms() - clock.wall_ms() + 90_000) < _MINUTE
        clock.passed_s += 6
    clock.offset_ms = 0  # somebody has set it, and the steward has not measured it since
    for _ in range(2):
        await events.look({})
        assert abs(events.now_ms() - clock.wall_ms()) < _MINUTE
        clock.passed_s += 6
    assert fleets.left == []


class _Fleets(Inventory):
    """One fleet after the other, of which only the clocks are known."""

    def __init__(self, clocks: list[Clocks | None]) -> None:
        self.left = clocks

    async def fleet(self) -> Fleet:
        return Fleet(workers=(), beating=(), clocks=self.left.pop(0), has_steward=True)


def _wrong(there: Mapping[str, Alert], **seen: Any) -> list[str]:
    given: dict[str, Any] = {
        "workers": [], "beating": (), "has_steward": True, "clocks": None, "etcd_full": None, "etcd_away": {},
        "now_ms": _NOON,
    }  # fmt: skip
    return [str(event.kind) for event in wrong_in(Seen(**(given | seen)), there, max_skew_ms=1000)]


@pytest.mark.parametrize(
    ("gaps", "silent_ms"),
    [
        ([], 10 * _HOUR),
        ([(_NOON - 20 * _HOUR, _NOON - 15 * _HOUR)], 10 * _HOUR),
        ([(_NOON - 20 * _HOUR, _NOON - 7 * _HOUR)], 7 * _HOUR),
        ([(_NOON - 9 * _HOUR, _NOON - 7 * _HOUR), (_NOON - 2 * _HOUR, _NOON - _HOUR)], 7 * _HOUR),
    ],
)
def test_time_in_which_no_notifier_looked_does_not_count(gaps: list[tuple[int, int]], silent_ms: int) -> None:
    assert silent_for(_NOON - 10 * _HOUR, _NOON, gaps) == silent_ms


def test_outage_of_a_minute_is_a_gap_and_a_short_one_is_none() -> None:
    watch = Watch(looked_ms=_NOON)
    assert with_gap(Watch(), _NOON).gaps == ()
    assert with_gap(watch, _NOON + 29_999).gaps == ()
    assert with_gap(watch, _NOON + _MINUTE).gaps == ((_NOON, _NOON + _MINUTE),)
    assert with_gap(watch, _NOON + _HOUR).gaps == ((_NOON, _NOON + _HOUR),)
    for number in range(1, 60):
        watch = with_gap(watch, watch.looked_ms + (_HOUR if number == 1 else _MINUTE))
        watch = Watch(looked_ms=watch.gaps[-1][1] + 1, gaps=watch.gaps)
    assert (len(watch.gaps), watch.gaps[0]) == (50, (_NOON, _NOON + _HOUR)), "many short ones forget no long one"


async def test_job_that_was_made_anew_between_two_looks_has_its_whole_limit() -> None:
    clock, catalog = OffClock(), _Jobs()

    class Log:
        def __init__(self) -> None:
            self.alerts = self

        async def put_watch(self, _: Watch) -> None: ...

        async def came_to(self, _: object) -> dict[str, object]:
            return {}

    def pass_by(seconds: int) -> None:
        clock.passed_s += seconds
        clock.offset_ms += 1000 * seconds

    watching: Any = SimpleNamespace(catalog=catalog)
    log: Any = Log()
    jobs = SilentJobs(watching, log, Watch(), clock.wall_ms, clock)
    catalog.save(create_revision=1, saved_ms=clock.wall_ms())
    assert await jobs.look() == []
    pass_by(_DAY // 1000 - 1)
    catalog.save(create_revision=1, saved_ms=clock.wall_ms())
    assert await jobs.look() == []
    catalog.save(create_revision=9, saved_ms=clock.wall_ms())
    pass_by(2)
    assert await jobs.look() == [], "before the next scan"
    pass_by(_DAY // 1000 - 60)
    assert await jobs.look() == []
    pass_by(120)
    assert [event.kind for event in await jobs.look()] == [EventKind.SILENT]


class _Jobs(dict[str, KnownJob]):
    """A catalog of one job that is silent after a day."""

    def save(self, *, create_revision: int, saved_ms: int) -> None:
        spec = parse_job({"name": "x", "command": "a", "cronExpr": "@yearly", "silentAfterSeconds": _DAY // 1000})
        saved = SavedJob(spec=spec, anchor_ms=saved_ms, saved_ms=saved_ms)
        self["x"] = KnownJob(
            name="x", revision=saved_ms, create_revision=create_revision, saved=saved, problem=None, text=""
        )

    async def each(self) -> AsyncIterator[tuple[str, JobSpec]]:
        for name, job in self.items():
            assert job.saved is not None
            yield name, job.saved.spec
