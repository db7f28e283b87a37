"""Notices in the log store: put once, found by state and channel, moved on by the one sender that has the channel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from common.errors import InvalidInputError
from common.notices.joining import ChannelState, Content, Message, Outcome
from common.notices.notice import Notice, NoticeKind, NoticeState, notice_id, trial_notice
from common.runlog import RunLog
from common.runlog.notices import KEPT_MS

NOW = 1_790_000_000_000
SAYS = Content(subject="s\ud800", text="t", html="h", facts="{}")


def notice(number: int, channel: str = "ops") -> Notice:
    return Notice(id=notice_id(str(number), channel), channel=channel, kind=NoticeKind.PROBLEM, created_ms=NOW + number)


async def numbers(runlog: RunLog, limit: int = 2, **wanted: object) -> list[int]:
    """When those were made that are found, by pages."""
    found, cursor = list[int](), None
    while True:
        page = await runlog.notices.page(cursor=cursor, limit=limit, **wanted)  # type: ignore[arg-type]
        found += [one.created_ms - NOW for one in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def test_a_notice_is_put_once_and_stays_as_it_is(runlog: RunLog) -> None:
    await runlog.notices.prepare()
    await runlog.notices.put([notice(0), notice(1)])
    await runlog.notices.put_into([notice(0).id], "m")
    await runlog.notices.put([replace(notice(0), kind=NoticeKind.REPEAT), notice(2)])
    there = await runlog.notices.get(notice(0).id)
    assert there == replace(notice(0), state=NoticeState.SENDING, message="m")
    assert await numbers(runlog) == [2, 1, 0]
    assert await runlog.notices.get("nothing") is None


async def test_notices_are_found_by_state_and_channel_newest_first(runlog: RunLog) -> None:
    await runlog.notices.put([*map(notice, range(5)), *(notice(number, "007") for number in range(5, 8))])
    await runlog.notices.put_into([notice(3).id], "m")
    assert await numbers(runlog, channel="ops") == [4, 3, 2, 1, 0]
    assert await numbers(runlog, channel="007") == [7, 6, 5]
    assert await numbers(runlog, channel="7") == []
    assert await numbers(runlog, state=NoticeState.WAITING) == [7, 6, 5, 4, 2, 1, 0]
    assert await numbers(runlog, state=NoticeState.SENDING, channel="ops") == [3]
    with pytest.raises(InvalidInputError):
        await runlog.notices.page(cursor="b3RoZXI")


async def test_channels_with_something_to_send_are_found(runlog: RunLog) -> None:
    await runlog.notices.put([notice(0, "a"), notice(1, "a"), notice(2, "b"), notice(3, "c")])
    await runlog.notices.put_into([notice(2, "b").id], "m")
    await runlog.notices.settle(outcome("x", notice(3, "c")))  # it is in no message of this id
    assert await runlog.notices.channels_to_serve() == ["a", "b", "c"]
    await runlog.notices.put_into([notice(3, "c").id], "x")
    await runlog.notices.settle(outcome("x", notice(3, "c")))
    assert await runlog.notices.channels_to_serve() == ["a", "b"]


def outcome(message: str, *notices: Notice, state: NoticeState = NoticeState.SENT) -> Outcome:
    return Outcome(message=message, notices=tuple(one.id for one in notices), state=state, error="", at_ms=NOW)


async def test_a_channel_has_one_sender_and_another_only_in_place_of_it(runlog: RunLog) -> None:
    claims = await asyncio.gather(*(runlog.notices.claim("ops", f"m{number}") for number in range(5)))
    (owner,) = {state.owner for state in claims}
    assert owner
    assert (await runlog.notices.claim("ops", "other")).owner == owner
    assert (await runlog.notices.claim("ops", "other", instead_of="else")).owner == owner
    assert (await runlog.notices.claim("ops", "other", instead_of=owner)).owner == "other"


async def test_who_was_replaced_writes_nothing(runlog: RunLog) -> None:
    mine = await runlog.notices.claim("ops", "mine")
    message = Message(id="m", notices=("n",), content=SAYS, accepted=("a",), refused=(("b", "no"),))
    assert await runlog.notices.write(replace(mine, messages=(message,)), owner="mine")
    await runlog.notices.claim("ops", "other", instead_of="mine")
    assert not await runlog.notices.write(replace(mine, messages=()), owner="mine")
    there = await runlog.notices.state("ops")
    assert there is not None
    assert there.messages == (replace(message, content=replace(SAYS, subject="s?")),)


async def test_a_write_that_was_long_on_its_way_changes_nothing(runlog: RunLog) -> None:
    mine = await runlog.notices.claim("ops", "mine")
    message = Message(id="m", notices=("n",), content=SAYS)
    assert await runlog.notices.write(replace(mine, messages=(message,), step=1), owner="mine")
    assert await runlog.notices.write(replace(mine, last_sent_ms=NOW, step=2), owner="mine")
    assert not await runlog.notices.write(replace(mine, messages=(message,), step=1), owner="mine")
    assert await runlog.notices.write(replace(mine, last_sent_ms=NOW, step=2), owner="mine")
    assert await runlog.notices.state("ops") == replace(mine, last_sent_ms=NOW, step=2)


async def test_a_write_that_nobody_has_heard_of_changes_nothing_once_its_sender_has_begun_anew(runlog: RunLog) -> None:
    before = await runlog.notices.claim("ops", "mine")
    mine = await runlog.notices.claim("ops", "mine")
    assert not await runlog.notices.write(replace(before, owner="", step=before.step + 1), owner="mine")
    assert await runlog.notices.state("ops") == mine
    assert await runlog.notices.write(replace(mine, owner="", step=mine.step + 1), owner="mine")


async def test_a_channel_that_was_let_go_is_anybody_s(runlog: RunLog) -> None:
    mine = await runlog.notices.claim("ops", "mine")
    await runlog.notices.write(replace(mine, owner=""), owner="mine")
    claims = await asyncio.gather(*(runlog.notices.claim("ops", f"m{number}") for number in range(5)))
    assert len({state.owner for state in claims}) == 1


async def test_what_is_in_no_message_waits_again(runlog: RunLog) -> None:
    await runlog.notices.put([notice(0), notice(1), notice(2)])
    await runlog.notices.put_into([notice(0).id], "m")
    await runlog.notices.put_into([notice(1).id], "lost")
    state = ChannelState(channel="ops", messages=(Message(id="m", notices=(notice(0).id,), content=SAYS),))
    await runlog.notices.let_go(state)
    assert [one.id for one in await runlog.notices.waiting("ops", 10)] == [notice(1).id, notice(2).id]


async def test_only_what_has_ended_is_sent_again(runlog: RunLog) -> None:
    one = trial_notice("ops", by="ann", now_ms=NOW)
    await runlog.notices.put([one])
    assert not await runlog.notices.send_again(one.id)
    await runlog.notices.put_into([one.id], one.id)
    ended = outcome(one.id, one, state=NoticeState.FAILED)
    await runlog.notices.settle(ended)
    assert await runlog.notices.send_again(one.id)
    await runlog.notices.settle(ended)  # once more, by a sender that was slow
    assert await runlog.notices.get(one.id) == replace(one, resends=1)


async def test_a_notice_of_a_later_version_waits_and_is_told_of_once(
    runlog: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    later: Any = "of-a-later-version"
    await runlog.notices.put([replace(notice(0), kind=later), notice(1)])
    for _ in range(3):
        assert await runlog.notices.waiting("ops", 9) == [notice(1)]
    assert len([one for one in caplog.records if "none of ours" in one.getMessage()]) == 1


async def test_old_notices_are_forgotten_and_those_that_waited_are_logged(
    runlog: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    await runlog.notices.prepare()
    await runlog.notices.put([notice(0), notice(1), notice(5)])
    await runlog.notices.put_into([notice(0).id], "m")
    await runlog.notices.settle(outcome("m", notice(0)))
    assert await runlog.notices.forget(NOW + KEPT_MS + 2) == 2
    assert [getattr(one, "count", 0) for one in caplog.records if getattr(one, "action", "") == "notice.too_old"] == [1]
    assert await numbers(runlog) == [5]
    counts = await runlog.notices.counts()
    assert (counts.by_state[NoticeState.WAITING], counts.oldest_ms) == (1, NOW + 5)


async def test_of_too_many_notices_the_oldest_sent_and_failed_ones_go_and_none_that_waits(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.runlog.notices.KEPT", 2)
    await runlog.notices.prepare()
    await runlog.notices.put([notice(number) for number in range(12)])
    came_to = {"sent": (range(3), NoticeState.SENT), "failed": (range(3, 6), NoticeState.FAILED)}
    for message, (some, state) in came_to.items():
        ids = tuple(notice(number).id for number in some)
        await runlog.notices.put_into(ids, message)
        await runlog.notices.settle(Outcome(message=message, notices=ids, state=state, error="", at_ms=NOW))
    await runlog.notices.put_into([notice(number).id for number in range(6, 9)], "on its way")
    while await runlog.notices.forget(NOW + 20):
        pass
    assert await numbers(runlog, state=NoticeState.SENT) == [2, 1]
    assert await numbers(runlog, state=NoticeState.FAILED) == [5, 4]
    assert await numbers(runlog, state=NoticeState.SENDING) == [8, 7, 6]
    assert await numbers(runlog, state=NoticeState.WAITING) == [11, 10, 9]


async def test_the_state_of_a_channel_that_is_long_not_used_is_forgotten(runlog: RunLog) -> None:
    await runlog.notices.prepare()
    message = Message(id="m", notices=("n",), content=SAYS)
    kept: dict[str, Any] = {
        "taken": {"owner": "mine"},
        "busy": {"messages": (message,)},
        "used": {"last_sent_ms": NOW + 1},
    }
    for channel, changes in {**kept, "old": {}}.items():
        claimed = await runlog.notices.claim(channel, "mine")
        state = replace(claimed, **{"owner": "", "last_sent_ms": NOW, **changes})
        assert await runlog.notices.write(state, owner="mine")
    await runlog.notices.forget(NOW + KEPT_MS + 1)
    assert [one for one in (*kept, "old") if await runlog.notices.state(one) is None] == ["old"]
