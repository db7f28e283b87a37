"""The commands that need a worker, against a whole etcron: run and wait, output, kill, drain."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.run import EntryState, RunEntry
from common.protocol.txn import Put, Txn
from tests.integration.cli.conftest import Etcron, Result
from tests.support.cluster import ROOT, Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.logstore, pytest.mark.asyncio(loop_scope="module")]

NEVER = "0 0 0 1 1 * 2199"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path_factory.mktemp("cli-whole"), workers=1, managers=1) as running:
        yield running


@pytest.fixture
def etcron(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Etcron:
    return Etcron(server=f"http://127.0.0.1:{cluster.ports[0]}", monkeypatch=monkeypatch)


async def saved(etcron: Etcron, name: str, command: str, *more: str) -> None:
    await etcron.ok("job", "save", name, "--command", command, "--cron", NEVER, *more)


async def test_run_and_wait_has_the_runs_output_and_verdict(etcron: Etcron) -> None:
    await saved(etcron, "echo", 'echo "$LEVEL" "$@"', "--paused")
    result = await etcron("job", "run", "echo", "--env", "LEVEL=debug", "--arg=--full", "--arg", "a b", "--wait")
    assert (result.status, result.out) == (0, "debug --full a b\n"), result
    assert ": success (took " in result.err
    assert result.err.rstrip().endswith("on worker-1)")


async def test_run_and_follow_has_the_output_and_the_verdict(etcron: Etcron) -> None:
    await saved(etcron, "slow", "echo one; sleep 1; printf two; exit 3")
    result = await etcron("job", "run", "slow", "--follow")
    assert (result.status, result.out) == (1, "one\ntwo\n"), result
    assert ": failed: exit status 3 (took " in result.err
    assert (await etcron("job", "run", "slow", "--follow", "-o", "json")).status == 2


async def test_run_that_fails_is_a_no(etcron: Etcron) -> None:
    await saved(etcron, "fails", "echo sorry; exit 3")
    result = await etcron("job", "run", "fails", "--wait")
    assert (result.status, result.out) == (1, "sorry\n"), result
    assert "failed: exit status 3" in result.err
    as_json = await etcron("job", "run", "fails", "--wait", "-o", "json")
    assert (as_json.status, as_json.json["exitCode"], as_json.json["state"]) == (1, 3, "finished")


async def test_run_without_waiting_prints_the_id_that_run_takes(etcron: Etcron) -> None:
    await saved(etcron, "later", "echo now")
    run = (await etcron.ok("job", "run", "later")).out.strip()

    async def finished() -> bool:
        return bool((await etcron.ok("run", "show", run, "-o", "json")).json["state"] == "finished")

    await wait_until(finished, description="the run has ended")
    assert (await etcron.ok("run", "log", run)).out == "now\n"
    shown = (await etcron.ok("run", "show", run)).out
    assert "createTime" in shown
    assert "status" in shown
    assert run in (await etcron.ok("job", "log", "later")).out
    assert "success" in (await etcron.ok("job", "list", "-q", "later")).out


async def test_the_same_key_gives_the_same_run(etcron: Etcron) -> None:
    await saved(etcron, "once", "echo once")
    arguments = ("job", "run", "once", "--dedupe-key", "k", "--dedupe-seconds", "300")
    first, second = await etcron.ok(*arguments), await etcron.ok(*arguments)
    assert first.out == second.out
    assert second.err.startswith("the same run as before: k has been used within its time")
    assert (await etcron.ok(*arguments, "-o", "json")).json["deduplicated"] is True


async def test_mistakes_in_what_is_to_run_are_told(etcron: Etcron) -> None:
    await saved(etcron, "at", "true")
    past = await etcron("job", "run", "at", "--at", "2020-01-01T00:00:00Z")
    assert (past.status, past.err.startswith("etcron: at: is 2020-01-01")) == (5, True)
    assert (await etcron("job", "run", "at", "--at", "noon")).status == 2
    assert (await etcron("job", "run", "at", "--dedupe-seconds", "5")).status == 2
    assert (await etcron("job", "run", "nothing")).status == 3


async def test_kill_ends_what_somebody_waits_for(etcron: Etcron, cluster: Cluster) -> None:
    begun = cluster.directory / "begun"
    await saved(etcron, "sleeper", f"echo going; touch {begun}; sleep 305.5")
    environ = {**os.environ, "ETCRON_SERVER": etcron.server, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cli", "job", "run", "sleeper", "--wait"]
    waiting = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await wait_until(begun.exists, description="it sleeps")
    assert "enabled, running" in (await etcron.ok("job", "list", "-q", "sleeper")).out
    killed = (await etcron.ok("job", "kill", "sleeper", "--reason", "enough")).out.splitlines()
    assert killed[0] == "1 run of sleeper asked to end"
    out, err = await asyncio.to_thread(waiting.communicate)
    assert (waiting.returncode, out) == (1, "going\n")
    assert f"{killed[1].strip()}: killed" in err
    assert (await etcron.ok("run", "kill", killed[1].strip())).out.strip().endswith("had ended already: killed")


async def test_run_of_a_machine_that_does_not_come_back_is_given_up(etcron: Etcron, cluster: Cluster) -> None:
    """Its job's lock would be held for ever: nobody else may take it, and no kill is ever heeded."""
    await saved(etcron, "gone", "echo again", "--set", "lostAfterSeconds=never")
    keys, run = Keys(), RunId.planned("gone", time.time_ns() // 1_000_000 - 1000)
    entry = RunEntry(
        state=EntryState.OPEN, worker="burned", session="123abc", locked=True, plan_ms=run.plan_ms or 0,
        dispatch_ms=run.plan_ms or 0,
    )  # fmt: skip
    async with EtcdClient([cluster.etcd.endpoint]) as client:
        await client.txn(Txn((), [Put(keys.run(run), entry.to_json()), Put(keys.lock("gone"), str(run).encode())]))
    assert (await etcron("run", "kill", str(run))).status == 1
    why = "given up by api 127.0.0.1: it burned"
    # A call waits some seconds for its outcome, and the steward may take longer.
    asked = await etcron("run", "give-up", str(run), "--reason", "it burned")

    async def is_lost() -> bool:
        shown: dict[str, str] = (await etcron.ok("run", "show", str(run), "-o", "json")).json
        return (shown.get("status"), shown.get("reason")) == ("lost", why)

    await wait_until(is_lost, description="it is given up")
    assert (asked.status, asked.out) in ((0, f"{run} is lost: {why}\n"), (1, "")), asked
    assert (await etcron.ok("job", "run", "gone", "--wait")).out == "again\n"


async def test_ctrl_c_ends_the_waiting_and_not_the_run(etcron: Etcron) -> None:
    await saved(etcron, "goes-on", "sleep 306.5")
    environ = {**os.environ, "ETCRON_SERVER": etcron.server, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cli", "job", "run", "goes-on", "--wait"]
    waiting = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    async def running() -> bool:
        return bool((await etcron.ok("job", "show", "goes-on", "-o", "json")).json["running"])

    await wait_until(running, description="it sleeps")
    waiting.send_signal(signal.SIGINT)
    out, err = await asyncio.to_thread(waiting.communicate)
    assert (waiting.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert await running()
    run = (await etcron.ok("job", "show", "goes-on", "-o", "json")).json["running"][0]["id"]
    assert (await etcron.ok("run", "kill", run)).out.strip() == f"{run} was killed"


async def test_drain_and_undrain(etcron: Etcron) -> None:
    drained = await etcron.ok("worker", "drain", "worker-1", "--reason", "kernel update")
    assert drained.out == "worker-1 takes no new fires; what runs there goes on\n"
    assert "no other worker takes fires: nothing fires until" in drained.err

    async def listed(text: str) -> Result | None:
        result = await etcron.ok("worker", "list")
        return result if text in result.out else None

    async def is_drained() -> bool:
        return await listed("drained") is not None

    async def accepts() -> bool:
        return await listed("accepting") is not None

    await wait_until(is_drained, description="the worker is drained")
    assert "kernel update" in (await etcron.ok("worker", "list")).out
    assert (await etcron.ok("worker", "undrain", "worker-1")).out == "worker-1 takes fires again\n"
    await wait_until(accepts, description="the worker accepts")
    assert (await etcron("worker", "drain", "nobody")).status == 3
