"""Runs that somebody asks for, on real processes: once for each key, at their time, whatever is killed."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from common.etcd import EtcdClient
from common.instants import iso
from common.notices.channels import CHANNEL
from common.notices.forms import Stored
from common.notices.notice import trial_notice
from common.protocol.keys import Keys
from common.runlog import RunLog
from tests.support.cluster import Cluster, running_cluster
from tests.support.open_runs import now_ms
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

NEVER = "0 0 0 1 1 * 2199"
SAY = 'echo "$ETCRON_RUN_ID $WHAT $*" >> {}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """For all that kill none of its processes: each has jobs of its own."""
    patient = ("--api-write-timeout", "60000")  # the last of a hundred calls waits for all others
    flags = {"manager-1": patient, "manager-2": patient}
    async with running_cluster(tmp_path_factory.mktemp("run-now"), workers=2, flags_of=flags) as running:
        yield running


async def ask(cluster: Cluster, job: str = "job", **body: Any) -> dict[str, Any]:
    """What the managers, in turn, answer to a call for a run; one with a key is sent again where etcd is too busy."""
    assert cluster.http is not None
    for tries_left in range(9 if "dedupeKey" in body else 0, -1, -1):
        async with cluster.http.post(cluster._url(f"/api/v1/jobs/{job}/run"), json=body) as response:
            answer: dict[str, Any] = await response.json()
            if response.status == 503 and tries_left:
                continue
            assert response.status == (200 if answer.get("deduplicated") else 202), answer
            return answer
    raise AssertionError(body)


async def shown(cluster: Cluster, run: str) -> dict[str, Any]:
    found: dict[str, Any] = await cluster.get(f"/api/v1/runs/{quote(run, safe='')}")
    return found


async def finished(cluster: Cluster, run: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def is_over() -> bool:
        found.update(await shown(cluster, run))
        return bool(found["state"] == "finished")

    await wait_until(is_over, description=f"{run} is finished")
    return found


async def all_recorded(cluster: Cluster, count: int, *, job: str = "job") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []

    async def there() -> bool:
        records[:] = await cluster.runs(job=job)
        return len(records) >= count

    await wait_until(there, description=f"{count} runs are recorded")
    return records


async def test_a_hundred_at_once_through_two_managers(cluster: Cluster, tmp_path: Path) -> None:
    """One dedupe key: one run. A hundred: a hundred, each once."""
    evidence = tmp_path / "said"
    await cluster.save("job", SAY.format(evidence), NEVER, overlap="allow")
    answers = await asyncio.gather(*(ask(cluster, dedupeKey="one", args=["x"]) for _ in range(100)))
    assert len({answer["runId"] for answer in answers}) == 1
    # None: the first one's answer was lost, and it asked again.
    assert Counter(answer["deduplicated"] for answer in answers)[False] <= 1
    began = time.monotonic()
    others = await asyncio.gather(*(ask(cluster, dedupeKey=f"k{n}", args=[str(n)]) for n in range(100)))
    asked_s = time.monotonic() - began
    runs = {answer["runId"] for answer in others}
    assert len(runs) == 100
    records = await all_recorded(cluster, 101)
    print(f"100 calls took {asked_s:.2f} s; all recorded after {time.monotonic() - began:.2f} s")
    late = sorted(record["startTime"] - record["createTime"] for record in records)
    print(f"from asking to starting: median {late[50]} ms, last {late[-1]} ms")
    print(f"spread: {dict(Counter(record['worker'] for record in records))}")
    assert Counter(record["status"] for record in records) == {"success": 101}
    said = Counter(line.split()[0] for line in evidence.read_text().splitlines())
    assert said == Counter({*runs, answers[0]["runId"]})


async def test_arguments_environment_and_the_whole_life(cluster: Cluster, tmp_path: Path) -> None:
    evidence = tmp_path / "said"
    seen = tmp_path / "seen"
    command = f"{SAY.format(evidence)}; until [ -e {seen} ]; do sleep 0.1; done; echo done"
    await cluster.save("line", command, NEVER, env={"WHAT": "job"})
    await cluster.post("/job/save", job='{"name":"list","command":["printf","%s|"],"cronExpr":"@yearly"}')
    answer = await ask(cluster, "line", args=["a b", "$(c)"], env={"WHAT": "mine"}, reason="because")
    run, states = answer["runId"], dict[str, dict[str, Any]]()

    async def is_over() -> bool:
        view = await shown(cluster, run)
        states[view["state"]] = view
        if view["state"] == "running":
            seen.touch()
        return bool(view["state"] == "finished")

    await wait_until(is_over, description="it is finished")
    assert evidence.read_text() == f"{run} mine a b $(c)\n"
    assert set(states) <= {"created", "claimed", "running", "ended", "finished"}
    record = states["finished"]
    times = [record[name] for name in ("createTime", "claimTime", "scheduleTime", "startTime", "endTime")]
    assert times == sorted(times)
    assert record["createTime"] == answer["createTime"] == record["planTime"] == states["running"]["createTime"]
    assert record["command"].endswith("echo done 'a b' '$(c)'")
    assert (record["trigger"], record["note"], record["status"]) == ("api", "because", "success")
    assert record["output"] == "done\n"
    listed = await finished(cluster, (await ask(cluster, "list", args=["a b", "$(c)"]))["runId"])
    assert (listed["output"], listed["command"]) == ("a b|$(c)|", "printf '%s|' 'a b' '$(c)'")
    print({name: record[name] - record["createTime"] for name in ("claimTime", "startTime", "endTime")})


async def test_at_its_time_and_not_before(cluster: Cluster) -> None:
    await cluster.save("timed", "true", NEVER)
    tomorrow_ms, at_ms = (int(cluster.second_from_now(away).timestamp() * 1000) for away in (86_400, 4))
    far, later = [(await ask(cluster, "timed", at=iso(one)))["runId"] for one in (tomorrow_ms, at_ms)]
    at_once = (await ask(cluster, "timed"))["runId"]
    await finished(cluster, at_once)
    record = await finished(cluster, later)
    assert record["startTime"] >= at_ms
    view = await shown(cluster, far)
    assert (view["state"], view["waitsFor"], view["planTime"]) == ("created", "its time", tomorrow_ms)
    print(f"late: {record['startTime'] - at_ms} ms")


async def test_worker_killed_before_its_claim(tmp_path: Path) -> None:
    """A frozen worker, still ranked, takes nothing: the next in rank does, within a hedge; dead or not."""
    async with running_cluster(tmp_path, workers=2, managers=1) as cluster:
        await cluster.save("job", "true", NEVER, overlap="allow")
        await finished(cluster, (await ask(cluster))["runId"])
        frozen = cluster.workers[0]
        assert frozen.popen is not None
        frozen.popen.send_signal(signal.SIGSTOP)
        asked = [(await ask(cluster))["runId"] for _ in range(20)]
        await frozen.end(signal.SIGKILL)
        records = [await finished(cluster, run) for run in asked]
        assert {record["status"] for record in records} == {"success"}
        assert frozen.name not in {record["worker"] for record in records}
        late = sorted(record["startTime"] - record["createTime"] for record in records)
        print(f"from asking to starting: median {late[10]} ms, last {late[-1]} ms")


async def test_what_waits_survives_the_death_of_every_process(tmp_path: Path) -> None:
    evidence = tmp_path / "said"
    async with running_cluster(tmp_path, workers=2) as cluster:
        await cluster.save("job", f"{SAY.format(evidence)}; sleep 0.1", NEVER, lostAfterSeconds=20)
        holds = (await ask(cluster, args=["first"], env={"WHAT": "x"}))["runId"]
        await finished(cluster, holds)
        await asyncio.gather(*(worker.end(signal.SIGKILL) for worker in cluster.workers))
        asked = [(await ask(cluster, args=[str(n)], env={"WHAT": "x"}))["runId"] for n in range(20)]
        assert (await shown(cluster, asked[0]))["state"] == "created"
        await asyncio.gather(*(manager.end(signal.SIGKILL) for manager in cluster.managers))
        for process in (*cluster.managers, *cluster.workers):
            process.start()
        await cluster.ready()
        records = [await finished(cluster, run) for run in asked]
        assert {record["status"] for record in records} == {"success"}
        lines = [line.split() for line in evidence.read_text().splitlines()]
        assert [(run, what, rest) for run, what, rest in lines[1:]] == [(r, "x", str(n)) for n, r in enumerate(asked)]
        spans = sorted((record["startTime"], record["endTime"]) for record in records)
        assert all(before[1] <= after[0] for before, after in pairwise(spans)), "one at a time, in their order"


async def test_kill_of_what_waits_and_of_what_runs(cluster: Cluster) -> None:
    await cluster.save("killed", "sleep 60", NEVER)
    going, waiting = (await ask(cluster, "killed"))["runId"], (await ask(cluster, "killed"))["runId"]

    async def is_running() -> bool:
        return bool((await shown(cluster, going))["state"] == "running")

    await wait_until(is_running, description="the first runs")
    view = await shown(cluster, waiting)
    assert (view["state"], going in view["waitsFor"]) == ("created", True)
    assert cluster.http is not None
    for run, reason in ((waiting, "before start"), (going, None)):
        url = cluster._url(f"/api/v1/runs/{quote(run, safe='')}/kill")
        async with cluster.http.post(url, json={}) as response:
            # On a busy machine it is not over when it is answered.
            assert (await response.json())["outcome"] in ("killed", "pending")
        record = await finished(cluster, run)
        assert (record["status"], record.get("reason")) == ("killed", reason)


async def test_manager_killed_in_the_middle_of_idempotent_calls(tmp_path: Path) -> None:
    """Whoever gets no answer asks another manager under the same key: each run once, asked for already or not."""
    evidence = tmp_path / "said"
    async with running_cluster(tmp_path, workers=2) as cluster:
        await cluster.save("job", SAY.format(evidence), NEVER, overlap="allow")
        assert cluster.http is not None
        http, answered, some_are = cluster.http, dict[int, str](), asyncio.Event()

        async def ask_one(number: int, port: int) -> None:
            url = f"http://127.0.0.1:{port}/api/v1/jobs/job/run"
            headers = {"Idempotency-Key": f"call-{number}"}
            status, answer = 503, dict[str, Any]()
            for _ in range(20):  # where etcd is too busy, which is no answer either
                async with http.post(url, json={"args": [str(number)]}, headers=headers) as response:
                    status, answer = response.status, await response.json()
                if status != 503:
                    break
            assert status == 202, answer
            answered[number] = answer["runId"]
            if len(answered) > 20:
                some_are.set()

        first, second = cluster.ports
        calls = [asyncio.ensure_future(ask_one(number, first)) for number in range(140)]
        async with asyncio.timeout(PATIENCE_S):
            await some_are.wait()
        killed = cluster.managers[0]
        assert killed.popen is not None
        killed.popen.send_signal(signal.SIGSTOP)
        # However late we are, and however much it has answered: it gives these no answer.
        calls += [asyncio.ensure_future(ask_one(number, first)) for number in range(140, 150)]
        await killed.end(signal.SIGKILL)
        results = await asyncio.gather(*calls, return_exceptions=True)
        before, failed = dict(answered), [number for number, result in enumerate(results) if result is not None]
        assert failed, "calls without an answer"
        await asyncio.gather(*(ask_one(number, second) for number in range(150)))
        assert {number: answered[number] for number in before} == before, "the first answer again"
        cluster.ports.remove(first)
        records = await all_recorded(cluster, 150)
        print(f"{len(failed)} calls got no answer")
        assert sorted(record["id"] for record in records) == sorted(answered.values())
        assert sorted(int(line.split()[-1]) for line in evidence.read_text().splitlines()) == list(range(150))


async def test_job_of_a_channel_reads_its_message(cluster: Cluster, tmp_path: Path) -> None:
    said = tmp_path / "said"
    line = '"$ETCRON_NOTICE_CHANNEL: $ETCRON_NOTICE_SUBJECT" "$ETCRON_NOTICE_TEXT" "$ETCRON_NOTICE_JSON"'
    await cluster.save("page", f"printf '%s\\0' {line} > {said}.new; mv {said}.new {said}", NEVER)
    record = CHANNEL.read({"kind": "command", "job": "page"})
    async with EtcdClient([cluster.etcd.endpoint]) as etcd, RunLog(cluster.log_store.uri) as runlog:
        await etcd.put(Keys().channel("pager"), CHANNEL.to_json(Stored(record=record)))
        await runlog.notices.put([trial_notice("pager", by="alice", now_ms=now_ms())])
    await wait_until(said.exists, description="the job has been told")
    subject, text, facts, _ = said.read_text().split("\0")
    assert subject.startswith("pager: [etcron]")
    assert "pager" in text
    assert json.loads(facts)
