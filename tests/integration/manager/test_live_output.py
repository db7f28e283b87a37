"""Live output as a manager tells it, with chunks that the test writes in the worker's place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from common.protocol.keys import RunId
from common.protocol.run import EntryState
from common.runlog import Chunk
from common.verdicts import Verdict
from manager.watch.tails import MOST_GLANCES, MOST_OF_A_CALLER
from tests.support.event_stream import Event, EventStream
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import claim, now_ms, open_entry, record_of, settle
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


CUT = "... 7 bytes cut ...\n"


def path(run: RunId) -> str:
    return f"/api/v1/runs/{quote(str(run), safe='')}/output"


@asynccontextmanager
async def following(manager: Managed, run: RunId, **headers: str) -> AsyncIterator[EventStream]:
    async with manager.http.get(path(run), params={"follow": "true"}, headers=headers) as response:
        assert response.status == 200, await response.text()
        yield EventStream(response)


async def going(manager: Managed, job: str = "j", **changes: Any) -> RunId:
    run = await claim(manager, job, now_ms() - 1_000, **changes)
    await wait_until(lambda: manager.parts.watching.open_runs.has(run), description=f"{run} is seen")
    return run


async def put(manager: Managed, run: RunId, *chunks: tuple[int, str]) -> None:
    await manager.runlog.tails.put(
        [Chunk(run=str(run), start=start, size=len(text), text=text) for start, text in chunks], 1
    )


def of(events: Sequence[Event]) -> list[Any]:
    return [event.data if event.kind != "chunk" else event.data["text"] for event in events if event.kind != "state"]


async def test_gaps_and_what_the_record_adds_are_told(working_manager: Managed) -> None:
    run = await going(working_manager)
    await put(working_manager, run, (0, "head\n"), (100, "tail\n"))
    async with following(working_manager, run) as stream:
        assert [(await stream.until(kind)).data for kind in ("chunk", "gap", "chunk")] == [
            {"offset": 0, "bytes": 5, "text": "head\n"}, {"from": 5, "to": 100},
            {"offset": 100, "bytes": 5, "text": "tail\n"},
        ]  # fmt: skip
        document = await working_manager.get(path(run))
        assert document == {
            "text": "head\n... 95 bytes cut ...\ntail\n", "offset": 0, "printed": 105, "truncated": True,
            "ended": False, "live": True,
        }  # fmt: skip
        await settle(
            working_manager, run, output="head\nmore\n... 90 bytes cut ...\ntail\nañ\N{SYMBOL FOR NULL}\ufffd\n",
            output_bytes=111, output_truncated=True,
        )  # fmt: skip
        assert of(await stream.rest()) == ["añ\N{SYMBOL FOR NULL}\ufffd\n", {"status": "success"}]


@pytest.mark.parametrize(
    ("known", "output", "printed", "truncated", "told"),
    [
        pytest.param(0, "whole", 5, False, ["whole"], id="all of it"),
        pytest.param(3, "whole", 5, False, ["le"], id="the rest"),
        pytest.param(5, "whole", 5, False, [], id="nothing more"),
        pytest.param(7, "whole", 5, False, [], id="beyond"),
        pytest.param(0, f"ab\n{CUT}yz", 11, True, ["ab", {"from": 2, "to": 9}, "yz"], id="a line end put in"),
        pytest.param(0, f"a\n{CUT}yz", 11, True, ["a\n", {"from": 2, "to": 9}, "yz"], id="cut at a line end"),
        pytest.param(10, f"ab\n{CUT}yz", 11, True, ["z"], id="from within the tail"),
        pytest.param(0, "", 11, True, [{"from": 0, "to": 11}], id="nothing is kept"),
        pytest.param(0, "\N{SNOWMAN}" * 30_000, 90_000, False, None, id="in parts"),
    ],
)  # fmt: skip
async def test_record_is_told_from_a_place_on(
    working_manager: Managed, known: int, output: str, printed: int, truncated: bool, told: list[Any] | None
) -> None:
    run = RunId.planned("j", 1_790_000_000_000)
    await working_manager.write([
        record_of(run, Verdict.FAILED, output=output, output_bytes=printed, output_truncated=truncated)
    ])  # fmt: skip
    async with following(working_manager, run, **{"Last-Event-ID": str(known)}) as stream:
        *events, end = of(await stream.rest())
    assert end == {"status": "failed"}
    if told is None:
        assert ("".join(events), len(events)) == (output, 2)
    else:
        assert events == told


async def test_tail_has_the_last_lines(working_manager: Managed) -> None:
    run = RunId.planned("j", 1_790_000_000_000)
    await working_manager.write([record_of(run, output="one\ntwo\nthree", output_bytes=13)])
    document = await working_manager.get(path(run), tail="2")
    assert document == {
        "text": "two\nthree", "offset": 4, "printed": 13, "truncated": False, "ended": True, "live": False,
    }  # fmt: skip


async def test_worker_that_sends_nothing_is_told_and_the_end_comes_all_the_same(
    working_manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.watch.tails._SILENT_S", 0.5)
    monkeypatch.setattr("manager.views.output._FIRST_S", 0.1)
    run = await going(working_manager)
    assert (await working_manager.get(path(run)))["live"] is False
    async with following(working_manager, run) as stream:
        states = [(await stream.until("state")).data, (await stream.until("state")).data]
        assert [state["state"] for state in states] == ["running", "unavailable"]
        assert states[1]["why"].startswith("worker w1 sends nothing: it is of an older version")
        await settle(working_manager, run, output="said\n", output_bytes=5)
        assert of(await stream.rest()) == ["said\n", {"status": "success"}]


async def test_run_that_has_ended_is_not_over_before_its_record_can_be_read(working_manager: Managed) -> None:
    run = await going(working_manager)
    await put(working_manager, run, (0, "said\n"))
    async with following(working_manager, run) as stream:
        await stream.until("chunk")
        ended = open_entry(run.plan_ms or 0, state=EntryState.ENDED)
        await working_manager.etcd.put(working_manager.keys.run(run), ended.to_json())
        waits = (await stream.until("state")).data
        assert (waits["state"], waits["why"]) == ("waiting", "it has ended; its record is on its way to the log store")
        await settle(working_manager, run, output="said\nmore\n", output_bytes=10)
        assert of(await stream.rest()) == ["more\n", {"status": "success"}]


async def test_progress_is_found_in_the_lines_that_say_it(working_manager: Managed) -> None:
    run = await going(working_manager)
    await put(working_manager, run, (0, "::progress 10\nx ::progress 20%\n::progress 1000%\n::prog"))
    async with following(working_manager, run) as stream:
        assert (await stream.until("progress")).data == {"percent": 10.0, "text": ""}
        await put(working_manager, run, (54, "ress 45.5 % step \x1b[31m5\r\n::progress 99"))
        assert (await stream.until("progress")).data == {"percent": 45.5, "text": "step \x1b[31m5"}
    assert (await working_manager.get(path(run), tail="1"))["progress"] == {"percent": 45.5, "text": "step \x1b[31m5"}


async def test_one_caller_follows_so_many_runs_and_glances_at_so_many_others(working_manager: Managed) -> None:
    runs = [await going(working_manager, f"job-{number}") for number in range(MOST_GLANCES + 1)]
    for run in runs:
        await put(working_manager, run, (0, "said\n"))
    async with AsyncExitStack() as stack:
        for run in (*runs[:MOST_OF_A_CALLER], runs[0]):
            await stack.enter_async_context(following(working_manager, run))
        refused = await working_manager.http.get(path(runs[-1]), params={"follow": "true"})
        assert (await problem_of(refused, 503))["code"] == "too-many-clients"
        seen = [await working_manager.get(path(run), tail="1") for run in runs]
        assert [one["live"] for one in seen] == [True] * MOST_GLANCES + [False]
    await wait_until(lambda: working_manager.parts.tails.viewers == 0, description="it is seen that they have gone")
    async with following(working_manager, runs[-1]) as stream:
        assert (await stream.until("chunk")).data["text"] == "said\n"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        pytest.param({"follow": "perhaps"}, {}, id="follow"),
        pytest.param({"tail": "-1"}, {}, id="tail"),
        pytest.param({"follow": "true", "tail": "1"}, {}, id="both"),
        pytest.param({"follow": "true"}, {"Last-Event-ID": "end"}, id="place"),
    ],
)
async def test_mistakes_are_named(manager: Managed, query: dict[str, str], headers: dict[str, str]) -> None:
    run = RunId.planned("j", 1)
    problem = await problem_of(await manager.http.get(path(run), params=query, headers=headers), 400)
    assert [error.keys() >= {"field", "message", "remedy"} for error in problem["errors"]] == [True]


async def test_run_that_nobody_knows_has_no_stream(working_manager: Managed) -> None:
    await problem_of(await working_manager.http.get(path(RunId.planned("j", 1)), params={"follow": "true"}), 404)


async def test_page_of_another_site_may_not_follow(manager: Managed) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    answer = await manager.http.get(path(RunId.planned("j", 1)), params={"follow": "true"}, headers=foreign)
    await problem_of(answer, 403)


async def test_stream_of_a_run_that_waits_tells_what_for(working_manager: Managed) -> None:
    await working_manager.call("PUT", "/api/v1/jobs/j", {"command": "true", "cronExpr": "0 0 0 1 1 * 2199"})
    run = RunId.parse((await working_manager.call("POST", "/api/v1/jobs/j/run", {}))["runId"])
    async with following(working_manager, run) as stream:
        first = (await stream.until("state")).data
        assert (first["state"], first["why"].startswith("a worker")) == ("waiting", True)
    document = await working_manager.get(path(run))
    assert (document["text"], document["ended"], document["live"]) == ("", False, False)
