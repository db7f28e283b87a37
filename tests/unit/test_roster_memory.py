"""When workers left is kept of the newest only: whoever is never seen again takes no memory for ever."""

from __future__ import annotations

from common.protocol.keys import Keys
from common.protocol.member import Member
from common.protocol.roster import MOST_KEPT, RosterEntry
from tests.support.fake_clock import FakeClock
from worker.lead.roster import Roster

NOW_MS = 1_790_000_000_000


def test_when_a_worker_left_is_forgotten_once_so_many_left_after_it_that_etcd_has_forgotten_it() -> None:
    clock = FakeClock(NOW_MS)
    roster = Roster(Keys("/etcron"), clock)
    names = [f"w{number}" for number in range(MOST_KEPT + 1)]
    for name in names:
        roster.saw([member(name)])
        clock.advance(1_000)
    roster.saw([])
    left_ms = [roster.left_ms(RosterEntry(worker=name, host="h", seen_ms=NOW_MS)) for name in names]
    assert left_ms[:3] == [NOW_MS, NOW_MS + 2_000, NOW_MS + 3_000]
    assert left_ms[-1] == clock.wall_ms()


def member(name: str) -> Member:
    return Member(worker=name, session="1", instance="i", host="h", address="a", slots=1)
