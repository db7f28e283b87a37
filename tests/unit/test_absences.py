"""What is said of fires that nobody took: only what is known of all who could have taken them, for all of that time."""

from __future__ import annotations

from typing import Any

from common.protocol.member import Member
from tests.support.fake_clock import FakeClock
from tests.support.stored import planned, spec_of
from worker.absences import Absences

START_MS = 1_790_000_000_000  # 14:13:20 UTC
JOB = planned(spec_of(workers={"zone": "eu"}))


def member(worker: str, not_accepting: str | None = None, **changes: Any) -> Member:
    values: dict[str, Any] = {"session": "a", "instance": "i", "host": "h", "address": "a", "slots": 1, "since_ms": 1,
                              "labels": {"zone": "eu"}}  # fmt: skip
    return Member(worker=worker, not_accepting=not_accepting, **(values | changes))


class Watched:
    """The absences that w1 has seen; times in seconds since its start."""

    def __init__(self) -> None:
        self.clock = FakeClock(START_MS)
        self.absences = Absences(worker="w1", clock=self.clock)

    def at(self, second: int, *members: Member) -> None:
        self.clock.advance(START_MS + 1000 * second - self.clock.wall_ms())
        if members:
            self.absences.saw(members)

    def why(self, lo_s: int, hi_s: int, *eligible: str) -> str | None:
        return self.absences.why_late(JOB, eligible or ("w1",), START_MS + 1000 * lo_s, START_MS + 1000 * hi_s)


def deciding() -> Watched:
    watched = Watched()
    watched.at(1, member("w1"))
    watched.absences.begins()
    return watched


def test_before_it_was_started() -> None:
    watched = Watched()
    watched.at(1, member("w1"))
    watched.at(3)
    watched.absences.begins()
    assert watched.why(-3600, 2) == "late: no worker took it: w1: was started later"
    assert watched.why(2, 4) is None


def test_only_what_was_due_while_it_took_none() -> None:
    watched = deciding()
    watched.at(10, member("w1", "drained by me"))
    watched.at(12, member("w1", "drained by me; the clock is off"))
    watched.at(20, member("w1"))
    assert watched.why(10, 20) == "late: no worker took it: w1: drained by me; the clock is off"
    assert (watched.why(9, 20), watched.why(10, 21), watched.why(0, 1)) == (None, None, None)


def test_one_who_could_have_taken_it_leaves_the_reason_open() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), member("w2"))
    watched.at(20, member("w1"), member("w2"))
    assert watched.why(11, 19, "w1", "w2") is None
    assert watched.why(11, 19, "w1") == "late: no worker took it: w1: full"
    watched.at(30, member("w1", "full"), member("w2", "drained by me"))
    watched.at(40, member("w1"), member("w2"))
    assert watched.why(31, 39, "w2", "w1") == "late: no worker took it: w1: full; w2: drained by me"


def test_a_worker_that_came_later_and_one_that_was_there_before() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"))
    watched.at(20, member("w1"), member("w2", since_ms=START_MS + 19_000))
    assert watched.why(11, 18, "w1", "w2") == "late: no worker took it: w1: full; w2: was started later"
    watched.at(21, member("w1"), member("w2", since_ms=START_MS + 19_000), member("w3", since_ms=START_MS))
    assert watched.why(11, 18, "w1", "w3") is None


def test_out_of_touch_from_the_last_word_of_etcd_until_the_marks_are_read() -> None:
    watched = deciding()
    watched.at(30)
    began_s = watched.clock.boottime() - 20
    watched.absences.lost_touch(began_s)
    watched.absences.lost_touch(began_s + 5)
    watched.at(40)
    watched.absences.in_touch(watched.clock.boottime())
    assert watched.why(10, 40) == "late: w1 was out of touch with etcd"
    assert (watched.why(9, 40), watched.why(10, 41)) == (None, None)


def test_a_wall_clock_that_was_wrong_meanwhile_harms_none() -> None:
    watched = deciding()
    watched.clock.set_wall(START_MS + 3_600_000)
    watched.absences.saw([member("w1", "the clock is off")])
    watched.clock.advance(9000)
    watched.clock.set_wall(START_MS + 10_000)
    watched.absences.saw([member("w1")])
    assert watched.why(2, 9) == "late: no worker took it: w1: the clock is off"


def test_workers_that_are_still_away_are_named_too() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), member("w2", "drained by me"), member("w3"), member("us", "full", labels={}))
    watched.at(20, member("w1", "full"), member("w2", "drained by me"), member("us", "full", labels={}))
    watched.at(90, member("w1"), member("w2", "drained by me"), member("us", "full", labels={}))
    away = "w2: drained by me; w3 has been gone since 14:13 UTC"
    assert watched.why(30, 80) == f"late: no worker took it: w1: full; {away}"
    assert watched.why(15, 80) == f"late: no worker took it: w1: full; {away}", "it went meanwhile, and it says when"
    assert watched.why(12, 19) is None, "w3 was here for all of it"


def test_of_a_workers_own_sequence_nobody_else_is_named() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), member("w2", "drained by me"), member("w3"))
    watched.at(20, member("w1", "full"), member("w2", "drained by me"))
    watched.at(90, member("w1"), member("w2", "drained by me"))
    own = planned(JOB.spec, of_worker="w1")
    told = watched.absences.why_late(own, ["w1"], START_MS + 30_000, START_MS + 80_000)
    assert told == "late: no worker took it: w1: full"


def test_one_that_was_drained_after_all_of_it_was_due_leaves_the_reason_open() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), member("w2"))
    watched.at(20, member("w1"), member("w2", "drained by me"))
    assert watched.why(11, 19) is None
    watched.at(86_500, member("w1", "full"), member("w2", "drained by me"))
    watched.at(90_000, member("w1"))
    assert watched.why(86_600, 90_000) == "late: no worker took it: w1: full; w2 has been gone since 15:13 UTC"
    watched.at(180_000, member("w1", "full"))
    watched.at(180_100, member("w1"))
    assert (
        watched.why(180_000, 180_050)
        == "late: no worker took it: w1: full; w2 has been gone since 2026-09-22 15:13 UTC"
    )


def test_one_that_has_come_back_was_started_later() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), member("w2"))
    watched.at(20, member("w1", "full"))
    watched.at(40, member("w1"), member("w2", since_ms=START_MS + 39_000))
    assert watched.why(15, 38, "w1", "w2") == "late: no worker took it: w1: full; w2: was started later"


def test_of_those_that_are_gone_as_many_are_named_as_have_room() -> None:
    watched = deciding()
    watched.at(10, member("w1", "full"), *(member(f"m{number:03}") for number in range(300)))
    watched.at(20, member("w1", "full"))
    watched.at(90, member("w1"))
    told = watched.why(30, 80)
    newest = "m299 has been gone since 14:13 UTC; m298 has been gone since 14:13 UTC"
    assert told == f"late: no worker took it: w1: full; {newest} and 18 more"


def test_of_another_only_a_session_that_it_lost_meanwhile_says_that_it_was_away_in_a_silence() -> None:
    watched = deciding()

    def were_away(lo_s: int, hi_s: int) -> bool:
        return watched.absences.all_were_away(("w1", "w2"), START_MS + 1000 * lo_s, START_MS + 1000 * hi_s)

    watched.at(5, member("w1"), member("w2"))
    watched.at(20)
    watched.absences.lost_touch(watched.clock.boottime() - 10)
    watched.at(30, member("w1"), member("w2"))
    watched.absences.in_touch(watched.clock.boottime())
    assert watched.why(12, 28, "w1", "w2") is not None
    assert not were_away(12, 28), "its session is the same: it has been there, for all that is known"
    watched.at(31, member("w1"))
    watched.at(32, member("w1"), member("w2", session="b"))
    assert were_away(12, 28)
    assert not were_away(8, 28)
    watched.at(33, member("w1"), member("w2", session="c", since_ms=START_MS + 15_000))
    assert not were_away(12, 28), "it was started meanwhile, and there from then on"
