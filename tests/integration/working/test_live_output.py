"""What a command prints, seen while it goes: from the pipe, through the log store, to those who look at a manager."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from common.protocol.keys import RunId
from tests.integration.working.test_secrets import BILLING, PASSWORD, vault
from tests.support import managing
from tests.support.event_stream import Event, EventStream
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.record.tails import MOST_BYTES

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]
_PLAN = 1_790_000_000_000


class Prompter:
    """A command that prints what the test writes, when it writes it, and ends when it is told."""

    def __init__(self, directory: Path) -> None:
        self._fifo = directory / "said"
        os.mkfifo(self._fifo)
        self._end = os.open(self._fifo, os.O_RDWR)
        self.command = ["sh", "-c", f"exec cat < {shlex.quote(str(self._fifo))}"]

    def say(self, text: str | bytes) -> None:
        os.write(self._end, text.encode() if isinstance(text, str) else text)

    def end(self) -> None:
        """Once the command has opened it."""
        os.close(self._end)


@dataclass(slots=True, kw_only=True)
class Live:
    """A worker and managers on the same servers."""

    world: World
    worker: Working
    managers: list[managing.Managed] = field(default_factory=list)

    async def run(self, command: str | list[str], **fields: Any) -> RunId:
        """A run of such a job, which has a process, and of which every manager knows."""
        run = await self.world.ask(await self.world.save("job", command, **fields), _PLAN)
        known = [manager.parts.watching.open_runs for manager in self.managers]
        await wait_until(
            lambda: run in self.worker.running() and all(runs.get(run) for runs in known), description=f"{run} runs"
        )
        return run

    @asynccontextmanager
    async def following(self, run: RunId, place: int = 0, manager: int = 0) -> AsyncIterator[EventStream]:
        headers = {"Last-Event-ID": str(place)} if place else {}
        path = f"/api/v1/runs/{quote(str(run), safe='')}/output"
        async with self.managers[manager].http.get(path, params={"follow": "true"}, headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield EventStream(response)

    async def output(self, run: RunId, **query: str) -> Any:
        return await self.managers[0].get(f"/api/v1/runs/{quote(str(run), safe='')}/output", **query)

    async def looks(self) -> int:
        return await self.world.etcd.count(self.world.keys.tails)

    async def chunks(self, run: RunId) -> list[str]:
        return [chunk.text for chunk in await self.world.runlog.tails.read(run, 0, limit=100)]


@asynccontextmanager
async def living(world: World, place: Place, *, managers: int = 1, **changes: Any) -> AsyncIterator[Live]:
    theirs = managing.Place(
        etcd=place.etcd, log_store=place.log_store, prefix=place.prefix, database=place.database
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        live = Live(world=world, worker=await stack.enter_async_context(working(place, **changes)))
        for _ in range(managers):
            live.managers.append(await stack.enter_async_context(managing.managing(theirs, loops=True)))
        await live.worker.deciding()
        yield live


@pytest.fixture
async def live(world: World, place: Place) -> AsyncIterator[Live]:
    async with living(world, place) as live:
        yield live


async def told(stream: EventStream, upto: str) -> str:
    """What is told until this is in it."""
    text = ""
    while upto not in text:
        text += (await stream.until("chunk")).data["text"]
    return text


def pieced(events: list[Event], place: int = 0) -> tuple[str, int]:
    """The text of a stream, and how many of its bytes are missing; each event begins where the one before has ended."""
    text, missing = "", 0
    for event in events:
        if event.kind == "gap":
            assert event.data["from"] == place
            missing += event.data["to"] - place
            place = event.data["to"]
        elif event.kind == "chunk":
            assert event.data["offset"] == place
            assert event.data["bytes"] <= MOST_BYTES
            text, place = text + event.data["text"], place + event.data["bytes"]
        else:
            continue
        assert event.id == str(place)
    return text, missing


async def test_output_is_told_while_the_run_goes_and_up_to_its_end(live: Live, tmp_path: Path) -> None:
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    prompter.say("before anybody looked\n")
    async with live.following(run) as stream:
        while (await stream.until("state")).data["state"] != "running":
            pass  # its worker has not heard of it yet
        assert await told(stream, "looked\n") == "before anybody looked\n"
        prompter.say("añ€ one\n")
        chunk = await stream.until("chunk")
        assert (chunk.data, chunk.id) == ({"offset": 22, "bytes": 11, "text": "añ€ one\n"}, "33")
        prompter.say("::progress 40% halfway\n")
        assert (await stream.until("progress")).data == {"percent": 40.0, "text": "halfway"}
        seen = await live.output(run)
        assert (seen["live"], seen["ended"], seen["printed"], seen["progress"]["percent"]) == (True, False, 56, 40.0)
        assert (await live.output(run, tail="1"))["text"] == "::progress 40% halfway\n"
        prompter.say("the end")
        prompter.end()
        rest = await stream.rest()
    record = await live.world.record(run)
    assert (rest[-1].kind, rest[-1].data) == ("end", {"status": "success"})
    assert record["output"].endswith("halfway\nthe end")
    assert pieced(rest, 56) == ("the end", 0)
    assert await live.output(run) == {
        "text": record["output"], "offset": 0, "printed": 63, "truncated": False, "ended": True, "live": False,
    }  # fmt: skip

    async def nothing_is_left() -> bool:
        return not await live.chunks(run) and not await live.looks()

    await wait_until(nothing_is_left, description="the chunks and the look are gone")


async def test_output_that_nobody_looks_at_is_sent_nowhere(live: Live, tmp_path: Path) -> None:
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    prompter.say("secretly\n")
    running = live.worker.parts.executor.running[run]
    await wait_until(lambda: running.output.printed > 0, description="the worker has read it")
    assert not live.worker.parts.tails._has_work.is_set()
    assert (await live.chunks(run), await live.looks()) == ([], 0)
    prompter.end()
    await live.world.record(run)
    assert await live.chunks(run) == []


async def test_one_reader_tells_all_who_look_and_a_late_one_gets_what_there_is(live: Live, tmp_path: Path) -> None:
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(live.following(run)) for _ in range(20)]
        prompter.say("for all\n")
        assert {await told(stream, "\n") for stream in streams} == {"for all\n"}
        assert (await live.looks(), len(live.managers[0].parts.tails)) == (1, 1)
        late = await stack.enter_async_context(live.following(run))
        assert await told(late, "\n") == "for all\n"
        prompter.end()
        assert {(await stream.until("end")).data["status"] for stream in [*streams, late]} == {"success"}


async def test_stream_goes_on_where_it_was_at_another_manager(world: World, place: Place, tmp_path: Path) -> None:
    async with living(world, place, managers=2) as live:
        prompter = Prompter(tmp_path)
        run = await live.run(prompter.command)
        async with live.following(run) as stream:
            prompter.say("one\n")
            assert await told(stream, "one\n") == "one\n"
        prompter.say("two\n")
        async with live.following(run, place=4, manager=1) as stream:
            assert await told(stream, "two\n") == "two\n"
            prompter.say("three\n")
            prompter.end()
            assert pieced(await stream.rest(), 8) == ("three\n", 0)


@pytest.mark.parametrize(
    ("command", "size"),
    [
        pytest.param("yes 'as fast as it can' | head -c 30000000", 30_000_000, id="fast"),
        pytest.param("head -c 1000000 /dev/zero | tr '\\0' x; echo; sleep 2; echo end", 1_000_005, id="a line of 1 MB"),
        pytest.param("head -c 300000 /dev/urandom; sleep 2; head -c 70000 /dev/urandom", 370_000, id="binary"),
        pytest.param("printf '\\033[2J\\033]0;owned\\007red \\000'; sleep 1", 19, id="terminal"),
    ],
)
async def test_gaps_are_told_and_nothing_else_is_missing(live: Live, command: str, size: int) -> None:
    run = await live.world.ask(await live.world.save("job", command, outputLimitBytes=200_000), _PLAN)
    async with live.following(run) as stream:
        events = await stream.rest()
    text, missing = pieced(events)
    record = await live.world.record(run)
    assert record["outputBytes"] == size
    assert (events[-1].kind, events[-1].data) == ("end", {"status": "success"})
    _, _, tail = record["output"].rpartition(" bytes cut ...\n")
    if "\N{REPLACEMENT CHARACTER}" in tail:
        # The record has one for several bytes: of what comes from there some may come twice, and all of it comes.
        last = iter(text[-10_500:])
        assert all(character in last for character in tail[-10_000:])
    else:
        assert text.endswith(tail[-10_000:])
    assert missing < size
    assert int([event.id for event in events if event.id is not None][-1]) == size


async def test_secret_is_masked_across_pieces_and_a_line_without_one_does_not_wait(
    world: World, place: Place, tmp_path: Path
) -> None:
    async with living(world, place, secrets_file=vault(tmp_path)) as live:
        prompter = Prompter(tmp_path)
        run = await live.run(prompter.command, labels=BILLING, secrets={"PW": "pg/prod"})
        async with live.following(run) as stream:
            prompter.say("short\n")
            assert await told(stream, "\n") == "short\n"
            prompter.say(f"it is {PASSWORD[:10]}")
            assert await told(stream, "it is ") == "it is "
            prompter.say(f"{PASSWORD[10:]}!\n")
            assert await told(stream, "\n") == "***!\n"
        assert not any(PASSWORD[:10] in text for text in await live.chunks(run))
        prompter.end()


async def test_output_is_read_no_more_when_the_last_has_gone(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.watch.tails.LINGERS_S", 0.2)
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    async with live.following(run) as stream:
        prompter.say("one\n")
        assert await told(stream, "\n") == "one\n"

    async def is_forgotten() -> bool:
        return not await live.looks() and not len(live.managers[0].parts.tails)

    await wait_until(is_forgotten, description="nobody looks any more")
    await wait_until(lambda: not live.worker.parts.tails._looks, description="the worker knows")
    prompter.say("two\n")
    async with live.following(run) as stream:
        assert await told(stream, "two\n") == "one\ntwo\n"
    prompter.end()


async def test_last_lines_alone_are_sent_as_seldom_as_they_are_short(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.record.tails._LAST_EVERY_S", 0.1)
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    assert (await live.output(run, tail="1"))["live"]

    async def has_begun() -> bool:
        return await live.chunks(run) == [""]

    await wait_until(has_begun, description="the worker has sent its first piece, which is as long as any")
    prompter.say("x" * 20_000 + "\nlast\n")

    async def is_shown() -> bool:
        return bool((await live.output(run, tail="1"))["text"] == "last\n")

    await wait_until(is_shown, description="the last line is shown")
    assert max(map(len, await live.chunks(run))) <= 4_096
    async with live.following(run) as stream:
        await wait_until(
            lambda: live.worker.parts.tails._looks[run] == {live.managers[0].parts.name: False},
            description="the worker knows that somebody follows",
        )
        prompter.say("y" * 20_000 + "\n")
        assert len(await told(stream, "y\n")) >= 20_000
    prompter.end()


async def test_look_outlives_the_session_of_its_manager(live: Live, tmp_path: Path) -> None:
    prompter = Prompter(tmp_path)
    run = await live.run(prompter.command)
    async with live.following(run) as stream:
        prompter.say("one\n")
        assert await told(stream, "\n") == "one\n"
        session = live.managers[0].parts.presence.session
        assert session is not None
        await live.world.etcd.lease_revoke(session.lease_id)
        await wait_until(lambda: session.ended.is_set(), description="the session is over")
        prompter.say("two\n")
        assert await told(stream, "two\n") == "two\n"
    prompter.end()
