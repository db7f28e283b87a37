"""What a worker's guardian is told, and how often."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.protocol.keys import RunId
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.guardian import child as child_module
from worker.guardian.child import Child
from worker.guardian.link import GuardianLink, _Open
from worker.guardian.messages import (
    Adopt,
    Confirmed,
    Ended,
    Ending,
    Group,
    Intent,
    Leapt,
    Message,
    Over,
    Past,
    Pong,
    Ready,
    decode,
    encode,
)
from worker.runs import RunTable


class ToldChild:
    """Listens at once, unless its pipe is full."""

    pid = 4711

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.writes = 0
        self.words: list[Message] | None = []
        self.is_full = self.is_behind = False
        self.hears, self.out_fd = os.pipe()

    def queue(self, line: bytes) -> None:
        self.lines.append(line)

    def flush(self) -> bool:
        self.writes += 1
        self.is_behind = self.is_full
        return True

    def receive(self) -> list[Message] | None:
        words, self.words = self.words, []
        return words

    @property
    def told(self) -> list[Message]:
        return [decode(line) for line in self.lines]


@pytest.fixture
def child() -> Iterator[ToldChild]:
    made = ToldChild()
    yield made
    os.close(made.hears)
    os.close(made.out_fd)


def run_with(table: RunTable, run_id: RunId, **entry: Any) -> Any:
    """A run of this worker's, with a grace of 5 s."""
    run: Any = SimpleNamespace(
        entry=SimpleNamespace(**{"lost_after_ms": None, **entry}), holds_lock=True,
        job=SimpleNamespace(spec=SimpleNamespace(kill_grace_s=5.0)),
        session=SimpleNamespace(id="session", confirmed_boottime=1.0),
    )  # fmt: skip
    table._runs[run_id] = run
    return run


def linked(
    directory: Path, table: RunTable, child: ToldChild, *,
    on_past: Callable[[RunId, bool], bool] = lambda *_: False, on_ready: Callable[[], None] = lambda: None,
    on_leapt: Callable[[], None] = lambda: None,
) -> GuardianLink:  # fmt: skip
    async def tell(fault: str | None) -> None:
        """Nobody hears."""

    link = GuardianLink(
        directory=directory, instance="i", table=table, margin_s=2.0, logs=("INFO", "text"),
        on_past=on_past, on_ready=on_ready, on_leapt=on_leapt, announce=tell, clock=FakeClock(0),
    )  # fmt: skip
    link._child = cast(Any, child)
    link._ready.set()
    return link


async def test_of_several_starts_it_is_told_in_one_write_or_of_none(tmp_path: Path, child: ToldChild) -> None:
    run_ids, table = [RunId("job", str(number)) for number in range(3)], RunTable(4)
    for run_id in run_ids[:2]:
        run_with(table, run_id)
    link = linked(tmp_path, table, child)
    assert not link.intents(run_ids), "one of them is none of this worker's"
    assert child.lines == []
    assert link.intents(run_ids[:2])
    assert (len(child.lines), child.writes) == (2, 1)


async def test_nothing_starts_of_which_it_is_told_only_once_its_pipe_has_room(tmp_path: Path, child: ToldChild) -> None:
    run_id, table = RunId("job", "1"), RunTable(4)
    run_with(table, run_id)
    readies: list[bool] = []
    link = linked(tmp_path, table, child, on_ready=lambda: readies.append(link.guarding))
    child.is_full = True
    assert not link.intents([run_id])
    assert not link.guarding
    assert link._open == {}
    assert [type(message) for message in child.told] == [Intent, Over]
    link._on_writable()
    assert not link.intents([run_id])
    child.is_full = False
    link._on_writable()
    assert readies == [True]
    assert link.intents([run_id])
    child.words = [Ready()]
    link.read_messages()
    assert readies == [True, True]


async def test_who_answers_is_not_replaced(tmp_path: Path, child: ToldChild) -> None:
    link = linked(tmp_path, RunTable(4), child)
    for number in range(25):
        link.tick()
        child.words = [Pong(number)]
        link.read_messages()
    assert link._child is cast(Any, child)


async def test_a_process_and_what_is_over_are_told_when_the_loop_has_gone_round(
    tmp_path: Path, child: ToldChild
) -> None:
    run_ids, table = [RunId("job", str(number)) for number in range(2)], RunTable(4)
    for run_id in run_ids:
        run_with(table, run_id)
    link = linked(tmp_path, table, child)
    assert link.intents(run_ids)
    for _ in range(2):
        writes = child.writes
        link.group(run_ids[0], 17, 998.5)
        link.group(run_ids[1], 18, 998.5)
        assert child.writes == writes
        await asyncio.sleep(0)
        assert child.writes == writes + 1
        assert child.told[-2:] == [Group(str(run_ids[0]), 17, 998.5, 1000.0), Group(str(run_ids[1]), 18, 998.5, 1000.0)]
    link.over(run_ids[0])
    await asyncio.sleep(0)
    assert child.told[-1] == Over(str(run_ids[0]))


async def test_what_a_run_may_go_on_for_leaves_time_for_its_grace_and_the_margin(
    tmp_path: Path, child: ToldChild
) -> None:
    locked, free, table = RunId("locked", "1"), RunId("free", "1"), RunTable(4)
    run_with(table, locked, lost_after_ms=20_000)
    run_with(table, free).holds_lock = False
    link = linked(tmp_path, table, child)
    assert link.intents([locked, free])
    of_locked = Intent(str(locked), "session", 1.0, 20.0 - 5.0 - 2.0, 5.0, locked=True)
    of_free = Intent(str(free), "session", 1.0, None, 5.0, locked=False)
    assert child.told == [of_locked, of_free]
    link.group(free, 17, 998.5)
    await asyncio.sleep(0)
    child.words = [Ready()]  # as a new one says
    link.read_messages()
    assert child.told[-2:] == [of_locked, replace(of_free, pid=17, began=998.5, reported=1000.0)]


async def test_it_is_told_of_what_is_being_ended_in_words_and_heard_where_it_was_first(
    tmp_path: Path, child: ToldChild
) -> None:
    late, deaf, gone = (RunId.parse(f"{name}@1#1") for name in ("late", "deaf", "gone"))
    past: list[tuple[RunId, bool]] = []

    def on_past(run_id: RunId, ended: bool) -> bool:
        past.append((run_id, ended))
        return run_id == late

    link = linked(tmp_path, RunTable(4), child, on_past=on_past)
    child.words = [Past(str(late)), Past(str(gone)), Ended(str(deaf)), Pong(1)]
    link.read_messages()
    assert past == [(late, False), (gone, False), (deaf, True)]
    assert child.told == [Ending(str(late))]


async def test_a_leap_that_the_guardian_noticed_has_the_sessions_of_open_runs_confirmed(
    tmp_path: Path, child: ToldChild
) -> None:
    confirmed: list[str] = []

    def session(name: str) -> Any:
        return SimpleNamespace(id=name, confirmed_boottime=1.0, confirm_soon=lambda: confirmed.append(name))

    run_id, table = RunId("job", "1"), RunTable(4)
    run = run_with(table, run_id)
    run.session = session("old")
    link = linked(tmp_path, table, child)
    assert link.intents([run_id])
    run.session = session("next")  # the run key names it already, and the guardian will be told so
    child.words = [Leapt()]
    link.read_messages()
    assert confirmed == ["next"]


async def test_a_leap_that_the_guardian_noticed_is_passed_on_also_where_no_run_is_open(
    tmp_path: Path, child: ToldChild
) -> None:
    leaps: list[str] = []
    link = linked(tmp_path, RunTable(4), child, on_leapt=lambda: leaps.append("leapt"))
    child.words = [Leapt()]
    link.read_messages()
    assert leaps == ["leapt"]


async def test_it_is_told_once_of_the_session_that_a_run_key_names_now(tmp_path: Path, child: ToldChild) -> None:
    run_id, table = RunId("job", "1"), RunTable(4)
    run = run_with(table, run_id)
    link = linked(tmp_path, table, child)
    assert link.intents([run_id])
    run.session = SimpleNamespace(id="next", confirmed_boottime=7.0)
    for _ in range(2):
        link.tick()
    assert [message for message in child.told if isinstance(message, Adopt)] == [Adopt(str(run_id), "next", 7.0)]


async def test_of_each_session_it_is_told_once_what_has_changed(tmp_path: Path, child: ToldChild) -> None:
    link = linked(tmp_path, RunTable(4), child)
    sessions = [cast(Any, SimpleNamespace(id=name, confirmed_boottime=5.0)) for name in ("old", "new")]
    for number, session in enumerate(sessions):
        run = cast(Any, SimpleNamespace(session=session))
        link._open[RunId("job", str(number))] = _Open(run=run, session=session, name="x")
    told = [encode(Confirmed(session.id, 5.0)) for session in sessions]
    for _ in range(3):
        link.tick()
    assert [line for line in child.lines if line in told] == told
    del link._open[RunId("job", "0")]
    sessions[1].confirmed_boottime = 6.0
    link.tick()
    assert link._confirmed == {"new": 6.0}
    assert encode(Confirmed("new", 6.0)) in child.lines


async def test_a_word_that_this_version_does_not_know_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program, words = tmp_path / "newer.py", [encode(Past("job@1#1")), b'["dance", 1]\n', encode(Ended("job@1#1"))]
    program.write_text(f"import sys; sys.stdout.buffer.write({b''.join(words)!r})")
    monkeypatch.setattr(child_module, "_PROGRAM", str(program))
    newer = Child(lock=tmp_path / "guardian.lock", instance="i", logs=("INFO", "text"))
    await wait_until(newer.has_ended, description="it has said all")
    assert newer.receive() == [Past("job@1#1"), Ended("job@1#1")]
    assert "dance" in caplog.text
    newer.leave()
