"""What commands do, and what is done to them: killed, escaping, shouting, missing. Each ends as a user would expect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bench.filling import save_directly
from common.jobs.job import JobSpec
from tests.support.cluster import Cluster, processes_with, running_cluster, sleep_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

NEVER = "0 0 0 1 1 * 2199"
SOON = "*/2 * * * * * *"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path_factory.mktemp("commands"), workers=2, managers=1) as running:
        yield running


async def first_record(cluster: Cluster, job: str) -> dict[str, Any]:
    """The first record that the legacy log shows of a job."""
    documents: list[dict[str, Any]] = []

    async def there() -> bool:
        documents[:] = (await cluster.get("/job/log", name=job, skip=0, limit=100))["data"]
        return bool(documents)

    await wait_until(there, description=f"{job} has a log")
    return documents[-1]


async def test_kill_reaches_everything_that_the_command_started(cluster: Cluster) -> None:
    command = sleep_of(301)
    await cluster.save("sleepers", f"sh -c '{command} & {command}'", NEVER)  # no fire comes between kill and look
    await cluster.call("POST", "/api/v1/jobs/sleepers/run", {})
    await wait_until(lambda: len(processes_with(command)) >= 3, description="both sleep")
    answer = await cluster.post("/job/kill", name="sleepers")
    await cluster.post("/job/delete", name="sleepers")
    assert len(answer["killed"]) == 1
    await wait_until(lambda: not processes_with(command), description="everything is gone")
    record = await first_record(cluster, "sleepers")
    assert record["status"] == "killed"
    assert record["_id"] == answer["killed"][0]
    assert record["by"] == "api 127.0.0.1"
    assert record["err"] == "killed by api 127.0.0.1"


async def test_kill_of_a_job_that_does_not_run_says_so(cluster: Cluster) -> None:
    await cluster.save("idle", "true", NEVER)
    answer = await cluster.post("/job/kill", name="idle")
    assert answer["killed"] == []
    assert answer["msg"] == "success: no run of idle was going"


async def test_command_in_the_background_ends_with_its_run(cluster: Cluster) -> None:
    command = sleep_of(302)
    await cluster.save("escapes", f"{command} & exit 0", SOON)
    record = await first_record(cluster, "escapes")
    await cluster.post("/job/delete", name="escapes")
    assert (record["status"], record["err"]) == ("success", "")
    await wait_until(lambda: not processes_with(command), description="nothing is left")


async def test_fifty_megabytes_are_cut_in_the_middle(cluster: Cluster) -> None:
    await cluster.save("shouts", "echo first; yes 0123456789 | head -c 50000000; echo last", SOON)
    record = await first_record(cluster, "shouts")
    await cluster.post("/job/delete", name="shouts")
    assert record["status"] == "success"
    assert record["outputTruncated"] is True
    assert record["outputBytes"] == 50_000_000 + len("first\n") + len("last\n")
    assert record["output"].startswith("first\n0123456789\n")
    assert record["output"].endswith("last\n")
    assert len(record["output"].encode()) < 262_144 + 200


async def test_bytes_that_are_no_text_are_kept_readable(cluster: Cluster) -> None:
    await cluster.save("binary", r"printf 'a\000b\377c\n'", SOON)
    record = await first_record(cluster, "binary")
    await cluster.post("/job/delete", name="binary")
    assert record["output"] == "a\N{SYMBOL FOR NULL}b\N{REPLACEMENT CHARACTER}c\n"
    assert record["outputBytes"] == 6


async def test_command_that_does_not_exist_fails_with_the_shells_words(cluster: Cluster) -> None:
    await cluster.save("nothing", "/no/such/program --now", SOON)
    record = await first_record(cluster, "nothing")
    await cluster.post("/job/delete", name="nothing")
    assert (record["status"], record["exitCode"], record["err"]) == ("failed", 127, "exit status 127")
    assert "/no/such/program" in record["output"]


async def test_timeout_ends_the_whole_group(cluster: Cluster) -> None:
    command = sleep_of(303)
    await cluster.save("slow", f"{command} & {command}", SOON, timeoutSeconds=1)
    record = await first_record(cluster, "slow")
    await cluster.post("/job/delete", name="slow")
    assert (record["status"], record["err"]) == ("timeout", "timed out after 1 s")
    await wait_until(lambda: not processes_with(command), description="nothing is left")


async def test_environment_is_the_documented_one(cluster: Cluster) -> None:
    await cluster.save("environment", "env | sort", SOON, env={"LEVEL": "debug"})
    record = await first_record(cluster, "environment")
    await cluster.post("/job/delete", name="environment")
    variables = dict(line.split("=", 1) for line in record["output"].splitlines())
    assert variables.pop("LEVEL") == "debug"
    assert variables["ETCRON_RUN_ID"] == record["_id"]
    assert variables["ETCRON_FENCE"] == str(record["fence"])
    assert {name for name in variables if not name.startswith("ETCRON_")} <= {
        "HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "SHLVL", "USER", "_", "OLDPWD",
    }  # fmt: skip


async def test_thousand_jobs_due_in_one_second_all_run_once(cluster: Cluster) -> None:
    moment = cluster.second_from_now(5)
    names = [f"burst-{number}" for number in range(1000)]
    expr = f"{moment.second} {moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.year}"
    command = cluster.evidence_command()
    specs = [JobSpec(name=name, command=command, cron_exprs=(expr,)) for name in names]
    await save_directly(cluster.etcd.endpoint, specs)

    def burst() -> list[str]:
        return [start.job for start in cluster.starts() if start.job.startswith("burst-")]

    await wait_until(lambda: len(burst()) >= 1000, description="a thousand starts")
    records: list[dict[str, Any]] = []

    async def recorded() -> bool:
        records[:] = [r for r in await cluster.runs() if r["jobName"].startswith("burst-")]
        return len(records) >= 1000

    await wait_until(recorded, description="a thousand records")
    assert sorted(burst()) == sorted(names)
    assert sorted(r["jobName"] for r in records) == sorted(names)
    assert {r["status"] for r in records} == {"success"}
    starts = sorted(r["startTime"] - r["planTime"] for r in records)
    print(f"1,000 due at once: the last started after {starts[-1]} ms, the middle one after {starts[500]} ms")
