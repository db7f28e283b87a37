"""The arithmetic of clocks: offsets from the median, what counts and what does not, and the key's value."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from math import inf

import pytest

from common.clocks.watch import ClockWatch, WatchedClock
from common.protocol.clocks import Clocks, Measured, off_by
from common.protocol.member import BEAT_S, SOON_S, Beat, BeatPace
from manager.cluster.clocks import clock_view
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from worker.lead.clock_book import ClockBook

WALL = 1_790_000_000_000
BOUND = 250
ENTRY = {"offsetMs": 0, "withinMs": 0, "clock": "c"}


def a_beat(clock: str, after_ms: int, round_trip_ms: int | None) -> Beat:
    return Beat(kind="worker", clock=clock, wall_ms=WALL + after_ms, round_trip_ms=round_trip_ms)


class Listening:
    """A listener whose boot clock stands at zero when all wall clocks stand at `WALL`, but for their offsets."""

    def __init__(self) -> None:
        self.book = ClockBook(bound_ms=BOUND)
        self.versions = Counter[str]()

    def beat(
        self, at_ms: int, *, late_ms: int = 0, round_trip_ms: int | None = 5, clock: str = "c1", **offsets: int
    ) -> bool:
        """Whether the next one of some of them is listened for at once."""
        wanted = False
        for process, offset_ms in offsets.items():
            self.versions[process] += 1
            beat, version = a_beat(clock, at_ms + offset_ms, round_trip_ms), self.versions[process]
            wanted |= self.book.hear(process, beat, version=version, at_ms=at_ms + late_ms, not_before_ms=at_ms)
        return wanted

    def measured(self, now_ms: int = 9_000) -> dict[str, tuple[int, int]]:
        """(offset, by how much it may be more or less)"""
        measured = self.book.compare(now_ms).measured
        return {process: (one.offset_ms, one.within_ms) for process, one in measured.items()}

    def offsets(self, now_ms: int = 9_000) -> dict[str, int]:
        return {process: one.offset_ms for process, one in self.book.compare(now_ms).measured.items()}


def test_each_clock_is_measured_from_the_median_of_all() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=10, c=-20, d=30_000, e=5)
    assert listening.offsets() == {"a": -5, "b": 5, "c": -25, "d": 29_995, "e": 0}
    clocks = listening.book.compare(9_000)
    assert (clocks.count, clocks.off(250)) == (5, {"d": 29_995})


def test_fewer_than_three_are_counted_and_not_compared() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=30_000)
    clocks = listening.book.compare(9_000)
    assert (clocks.count, clocks.are_enough, clocks.measured) == (2, False, {})


def test_beat_bounds_the_clock_once_the_next_one_says_how_long_it_took() -> None:
    listening = Listening()
    listening.beat(0, late_ms=20, a=0, b=0, c=0)
    assert listening.measured() == {}
    assert listening.book.compare(9_000).count == 3
    listening.beat(3_000, round_trip_ms=None, late_ms=20, a=0, b=0, c=0)
    assert listening.measured() == {}, "nobody knows how long it took"
    listening.beat(6_000, round_trip_ms=40, late_ms=20, a=0, b=0, c=0)
    assert listening.measured() == dict.fromkeys("abc", (0, 60)), "each by up to 60 ms, and so is the median"


@pytest.mark.parametrize("after_ms", [6_000, 2_000])
def test_beat_whose_next_one_was_not_heard_does_not_count(after_ms: int) -> None:
    """Of it nobody knows how long it took: the first ones of a process that is slow to begin follow each other soon."""
    listening = Listening()
    listening.beat(0, late_ms=1_500, a=0)
    listening.versions["a"] += 1
    listening.beat(after_ms, a=0)
    for at_ms in (0, 3_000):
        listening.beat(at_ms, b=0, c=0, d=0)
    assert set(listening.offsets()) == {"b", "c", "d"}


def test_of_all_the_beats_of_a_clock_the_one_with_the_least_error_counts() -> None:
    listening = Listening()
    for number, (late_ms, round_trip_ms) in enumerate(((100, 0), (3, 900), (60, 40), (800, 20), (0, 50))):
        listening.beat(number * 3_000, late_ms=late_ms, round_trip_ms=round_trip_ms, a=0)
        listening.beat(number * 3_000, round_trip_ms=0, b=0, c=0)
    assert listening.measured(12_000) == {"a": (18, 22), "b": (0, 0), "c": (0, 0)}, "-3 .. 40"


def test_clock_that_is_far_off_is_found_where_all_is_slow_and_no_right_one_is() -> None:
    listening = Listening()
    for at_ms in range(0, 30_000, 3_000):
        listening.beat(at_ms, late_ms=900 + at_ms // 100, round_trip_ms=1_500, a=0, b=0, c=0, d=30_000)
    clocks = listening.book.compare(30_000)
    assert clocks.off(BOUND).keys() == {"d"}
    assert clocks.measured["a"].within_ms > BOUND, "how far the others are off exactly, nobody knows"


def test_clock_of_which_too_little_is_known_is_not_measured() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=0, c=0)
        listening.beat(at_ms, late_ms=6_000, round_trip_ms=6_000, d=0)
    assert set(listening.offsets()) == {"a", "b", "c"}


def test_clock_that_was_set_a_little_is_where_it_is_now_by_its_next_beat() -> None:
    listening = Listening()
    for at_ms in (0, 3_000, 6_000, 9_000):
        listening.beat(at_ms, round_trip_ms=0, b=0, c=0)
        listening.beat(at_ms, round_trip_ms=0 if at_ms < 6_000 else 4, a=0 if at_ms < 6_000 else 200)
    assert listening.measured(9_000)["a"] == (202, 2)


def test_clock_that_was_set_by_less_than_is_known_is_where_it_is_now_within_30_s() -> None:
    listening = Listening()
    for at_ms in range(0, 33_000, 3_000):
        listening.beat(at_ms, round_trip_ms=0, b=0, c=0)
        listening.beat(at_ms, round_trip_ms=0 if at_ms < 6_000 else 400, a=0 if at_ms < 3_000 else -100)
    assert listening.measured(30_000)["a"] == (0, 0)
    assert listening.measured(30_001)["a"] == (100, 200)


def test_right_clock_is_not_found_wrong_when_the_listener_stood_still_and_its_boot_clock_with_it() -> None:
    """The beats before that were heard better of some, and worse of others, than those since."""
    listening = Listening()
    for at_ms in (0, 3_000, 6_000, 9_000):
        is_before = at_ms < 6_000
        went_on_ms = 0 if is_before else 5_000
        listening.beat(at_ms, late_ms=0 if is_before else 9, a=went_on_ms, b=went_on_ms)
        listening.beat(at_ms, late_ms=9 if is_before else 0, c=went_on_ms)
    assert listening.book.compare(9_000).off(BOUND) == {}


def test_beat_of_which_nobody_knows_when_it_was_put_does_not_count() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=0, c=0)
        version = 1 + at_ms // 3_000
        listening.book.hear("d", a_beat("c1", at_ms, 1), version=version, at_ms=at_ms, not_before_ms=None)
    assert set(listening.offsets()) == {"a", "b", "c"}


def test_clock_that_jumped_is_another_one() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=0, c=0, d=30_000)
    listening.beat(6_000, a=0, b=0, c=0)
    listening.beat(6_000, clock="c2", d=0)
    assert set(listening.offsets()) == {"a", "b", "c"}
    listening.beat(9_000, clock="c2", d=0)
    assert listening.book.compare(9_000).measured["d"] == Measured(offset_ms=0, clock="c2", within_ms=5)


def test_who_beats_no_more_and_what_is_old_counts_no_more() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=0, c=0, d=0)
    listening.book.forget("d")
    assert set(listening.offsets()) == {"a", "b", "c"}
    assert listening.offsets(now_ms=30_000) == {"a": 0, "b": 0, "c": 0}
    assert listening.offsets(now_ms=30_001) == {}


@pytest.mark.parametrize(("late_ms", "round_trip_ms"), [(BOUND, 0), (0, BOUND), (2_000, 3_000), (9_000, 900)])
def test_right_clock_is_never_found_wrong_by_being_slow(late_ms: int, round_trip_ms: int) -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, b=0, c=0, d=0)
        listening.beat(at_ms, late_ms=late_ms, round_trip_ms=round_trip_ms, a=0)
    assert set(listening.offsets()) == {"a", "b", "c", "d"}
    assert listening.book.compare(9_000).off(BOUND) == {}


def test_two_against_two_go_by_where_the_median_was() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=7, c=0, d=3)
    former = listening.book.compare(9_000)
    for at_ms in (9_000, 12_000):
        listening.beat(at_ms, a=0, b=7)
        listening.beat(at_ms, clock="c2", c=30_000, d=30_003)
    assert listening.book.compare(15_000).off(BOUND).keys() == {"a", "b", "c", "d"}, "nobody can tell"
    now = listening.book.compare(15_000, former)
    assert now.off(BOUND).keys() == {"c", "d"}
    assert listening.book.compare(15_000, now) == now


@pytest.mark.parametrize("right", [{"a": 0}, {"a": 0, "e": -90_000, "f": 90_000}, {"a": 0, "e": 50_000}])
def test_middle_clock_that_no_other_agrees_with_goes_by_where_the_median_was(right: dict[str, int]) -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, b=30_000, c=5, d=0)
    former = listening.book.compare(9_000)
    assert former.off(BOUND).keys() == {"b"}
    listening.book.forget("c")
    for at_ms in (9_000, 12_000):
        listening.beat(at_ms, b=30_000)
        listening.beat(at_ms, clock="c2", d=7_200_000, **right)
    now = listening.book.compare(15_000, former)
    assert now.off(BOUND).keys() == {"b", "d", *right} - {"a"}
    assert listening.book.compare(15_000, now) == now


def test_two_that_agree_outweigh_others_that_differ_wherever_the_median_was() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=30_000, b=30_000, c=30_003)
    former = listening.book.compare(9_000)
    listening.book.forget("b")
    listening.book.forget("c")
    for at_ms in (9_000, 12_000):
        listening.beat(at_ms, a=30_000, d=0, e=5, f=7_200_000)
    assert listening.book.compare(15_000, former).off(BOUND).keys() == {"a", "f"}


def test_clock_that_is_hardly_known_agrees_with_both_sides_and_decides_nothing() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=2, c=0, e=1_500)
        listening.beat(at_ms, late_ms=2_000, round_trip_ms=2_000, d=0)
    assert listening.book.compare(9_000).off(BOUND).keys() == {"e"}


def test_of_three_clocks_that_all_differ_the_middle_one_counts_where_none_was_compared() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=600, c=-600)
    assert listening.book.compare(9_000).off(BOUND).keys() == {"b", "c"}


def test_two_middle_clocks_that_are_near_each_other_are_both_right() -> None:
    listening = Listening()
    for at_ms in (0, 3_000):
        listening.beat(at_ms, a=0, b=0, c=2 * BOUND, d=2 * BOUND)
    clocks = listening.book.compare(9_000)
    assert clocks.off(BOUND) == listening.book.compare(9_000, clocks).off(BOUND) == {}


def test_a_clock_is_listened_for_until_it_was_heard_well_and_again_after_15_s_when_its_beat_is_due() -> None:
    listening = Listening()
    assert listening.book.rest_ms(0) == inf
    assert listening.beat(0, late_ms=BOUND + 1, a=0)
    assert listening.book.rest_ms(0) == 0
    assert not listening.beat(3_000, a=0)
    assert listening.book.rest_ms(3_000) == 15_000
    for at_ms in range(6_000, 21_000, 3_000):
        listening.beat(at_ms, a=0, late_ms=BOUND + 1)
    assert listening.book.rest_ms(18_000 + BOUND + 1) == 2_700, "a beat has just come"
    assert listening.book.rest_ms(20_701 + BOUND) == 0
    listening.beat(21_000, a=0, late_ms=BOUND + 1)
    assert listening.book.rest_ms(23_400) > 0
    assert listening.book.rest_ms(23_401) == 0, "they come late: all of them are listened for"


def test_a_beat_whose_write_was_slow_was_not_heard_well_and_each_clock_is_listened_for_by_itself() -> None:
    listening = Listening()
    listening.beat(3_000, a=0)
    listening.beat(6_000, a=0, late_ms=BOUND + 1, round_trip_ms=BOUND + 1)
    assert listening.book.rest_ms(6_000) == 0, "its write was slow: it does not count"
    listening.beat(9_000, a=0)
    assert listening.book.rest_ms(9_000) > 0
    listening.beat(9_000, clock="c2", late_ms=BOUND + 1, a=0)
    assert listening.book.rest_ms(9_000) == 0, "another clock"
    listening.beat(9_000, clock="c2", a=0)
    listening.beat(9_000, late_ms=BOUND + 1, b=0)
    assert listening.book.rest_ms(9_000) == 0, "another process"


def test_a_beat_of_which_nobody_knows_when_it_was_put_was_not_heard_well() -> None:
    book = ClockBook(bound_ms=BOUND)
    book.hear("a", a_beat("c1", 0, 5), version=1, at_ms=1_000, not_before_ms=None)
    assert book.rest_ms(1_000) == 0


def test_value_is_read_as_it_was_written() -> None:
    clocks = Clocks(
        count=4,
        measured={"w1": Measured(offset_ms=-3, clock="ab.0", within_ms=7), "m": Measured(offset_ms=9, clock="")},
    )
    assert Clocks.from_json(clocks.to_json()) == clocks


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"null", b"[]", b"{}", b"[" * 20_000, b'{"count":3}', b'{"count":3,"processes":[]}',
        b'{"count":true,"processes":{}}', b'{"count":3,"processes":{"w":null}}', b'{"count":NaN,"processes":{}}',
        b'{"count":3,"processes":{"w":{"offsetMs":"1","withinMs":0,"clock":"c"}}}',
        b'{"count":3,"processes":{"w":{"offsetMs":1e3,"withinMs":0,"clock":"c"}}}',
        b'{"count":3,"processes":{"w":{"offsetMs":1,"withinMs":-1,"clock":"c"}}}',
        b'{"count":3,"processes":{"w":{"offsetMs":1,"clock":"c"}}}',
        b'{"count":3,"processes":{"w":{"offsetMs":1' + b"0" * 20 + b',"withinMs":0,"clock":"c"}}}',
        b'{"count":3,"processes":{"w":{"offsetMs":1,"withinMs":0,"clock":"' + b"c" * 500 + b'"}}}',
        json.dumps({"count": 1, "processes": dict.fromkeys(map(str, range(10_001)), ENTRY)}).encode(),
    ],
)  # fmt: skip
def test_garbage_is_no_value(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a comparison of clocks"):
        Clocks.from_json(value)


@pytest.mark.parametrize(
    ("offset_ms", "words"),
    [(30_000, "30.0 s ahead of the others'"), (-412, "412 ms behind the others'"),
     (-3_600_000, "3,600.0 s behind the others'")],
)  # fmt: skip
def test_offset_in_words(offset_ms: int, words: str) -> None:
    assert off_by(offset_ms) == words


def test_beat_tells_its_clock_and_those_of_earlier_versions_do_not() -> None:
    beat = Beat(kind="worker", wall_ms=1, clock="ab.0", round_trip_ms=7)
    assert Beat.from_json(beat.to_json()) == beat
    old = Beat.from_json(b'{"kind":"worker","wallMs":1}')
    assert (old.clock, old.round_trip_ms) == ("", None)
    for bad in (b'{"kind":"w","wallMs":1,"clock":7}', b'{"kind":"w","wallMs":1,"roundTripMs":"7"}'):
        with pytest.raises(ValueError, match="not a beat"):
            Beat.from_json(bad)


def test_first_beats_of_a_clock_follow_soon() -> None:
    pace = BeatPace()
    assert [pace.after("a") for _ in range(5)] == [SOON_S, SOON_S, SOON_S, BEAT_S, BEAT_S]
    assert [pace.after("b") for _ in range(4)] == [SOON_S, SOON_S, SOON_S, BEAT_S]


def test_jump_is_told_before_the_clock_is_read_again_and_the_clock_has_another_name() -> None:
    jumps: list[float] = []
    clock = FakeClock(WALL)
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=jumps.append)
    watched, name = WatchedClock(clock, watch), watch.name
    clock.advance(60_000)
    clock.set_wall(clock.wall_ms() + 250)
    assert (watched.wall_ms(), jumps, watch.name) == (WALL + 60_250, [], name)
    clock.set_wall(clock.wall_ms() - 30_250)
    watched.wall_ms()
    watched.wall_ms()
    assert [round(jump, 3) for jump in jumps] == [-30.0]
    assert watch.name != name


def test_small_steps_add_up_until_the_clock_was_found_right() -> None:
    jumps: list[float] = []
    clock = FakeClock(WALL)
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=jumps.append)
    for _ in range(3):
        clock.set_wall(clock.wall_ms() + 200)
        watch.agreed()
    watch.look()
    assert jumps == []
    for _ in range(2):
        clock.set_wall(clock.wall_ms() + 200)
        watch.look()
    assert [round(jump, 3) for jump in jumps] == [0.4]


def test_process_that_is_frozen_between_two_readings_has_not_jumped() -> None:
    jumps: list[float] = []

    class Frozen(FakeClock):
        freezes = 0

        def boottime(self) -> float:
            if self.freezes:
                self.freezes -= 1
                self.advance(8_000)
            return super().boottime()

    clock = Frozen(WALL)
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=jumps.append)
    clock.freezes = 1
    assert watch.look() == WALL + 8_000, "the time after it"
    watch.look()
    for freezes in (1, 2):
        clock.freezes = freezes
        watch.agreed()
        watch.look()
    assert jumps == []


@pytest.mark.parametrize(
    ("offset_ms", "within_ms", "shown_ms"),
    [(3_000, 2_990, 3_000), (3_000, 3_000, None), (-40, 300, None), (-40, 250, -40), (30_000, 1_700, 30_000)],
)
def test_offset_of_a_clock_that_may_be_right_as_well_as_off_is_not_shown(
    offset_ms: int, within_ms: int, shown_ms: int | None
) -> None:
    measured = Measured(offset_ms=offset_ms, clock="a.0", within_ms=within_ms)
    view = clock_view(Clocks(count=3, measured={"w": measured}), "w", 250)
    assert view["clockOffsetMs"] == shown_ms


async def test_jump_is_told_though_nobody_reads_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.clocks.watch._LOOK_S", 0.001)
    jumped = asyncio.Event()
    clock = FakeClock(WALL)
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=lambda _: jumped.set())
    async with running(watch.run()), asyncio.timeout(60):
        clock.set_wall(WALL + 30_000)
        await jumped.wait()
