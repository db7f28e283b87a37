"""In which order a worker begins: what a former life left running first. It can be stopped meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import worker.__main__ as program
from common.clock import SystemClock
from common.configuration.config import WorkerConfig
from common.errors import ConfigError, Problem
from common.etcd import EtcdClient
from common.process.lifecycle import Stop, run
from tests.support.waiting import wait_until
from worker.agent import Agent
from worker.data_directory import open_data_directory
from worker.machine.processes import children_of


@pytest.mark.usefixtures("signals")
def test_what_a_former_life_left_is_ended_before_etcd_is_asked_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where etcd is away that takes long, and after a kill together with the guardian nobody else ends it."""
    config = replace(WorkerConfig(), data_dir=tmp_path, worker_name="w1", etcd_endpoints=("127.0.0.1:1",))
    clock = SystemClock()
    data = open_data_directory(config)
    marks = {"ETCRON_INSTANCE": data.identity.instance, "ETCRON_RUN_ID": "no run of now"}
    ended = list[int | None]()

    async def asked(_client: EtcdClient, _prefix: str) -> None:
        ended.append(left.poll())
        raise ConfigError([Problem(field="etcdUser", message="is unknown", remedy="none")])

    monkeypatch.setattr(program, "check_access", asked)
    with subprocess.Popen(["/bin/sleep", "300"], env=marks, start_new_session=True) as left:
        try:
            with pytest.raises(ConfigError):
                run(lambda stop: program._work(config, data, clock, stop), passed_on=(ConfigError,))
        finally:
            left.kill()
    assert ended == [-15]


@pytest.mark.usefixtures("signals")
def test_stop_does_not_wait_for_the_guardian_of_a_former_life(tmp_path: Path) -> None:
    config = replace(WorkerConfig(), data_dir=tmp_path, worker_name="w1", etcd_endpoints=("127.0.0.1:1",))
    data, before = open_data_directory(config), set(children_of(os.getpid()))

    async def stopped_while_it_waits(stop: Stop) -> None:
        work = asyncio.create_task(program._work(config, data, SystemClock(), stop))
        await wait_until(lambda: set(children_of(os.getpid())) > before, description="its own guardian waits")
        stop.request("test")
        await work

    with (tmp_path / "guardian.lock").open("w") as of_a_former_life:
        fcntl.flock(of_a_former_life, fcntl.LOCK_EX)
        assert run(stopped_while_it_waits) == 0
    assert set(children_of(os.getpid())) == before, "none of them waits for the lock any more"


@pytest.mark.usefixtures("signals")
def test_stop_that_hurries_does_not_wait_for_what_a_former_life_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(WorkerConfig(), data_dir=tmp_path, worker_name="w1", etcd_endpoints=("127.0.0.1:1",))
    data = open_data_directory(config)

    async def hurried(stop: Stop) -> None:
        async def without_end(_agent: Agent) -> None:
            stop.request("test")
            stop.request("test")
            await asyncio.Event().wait()

        monkeypatch.setattr(Agent, "prepare", without_end)
        await program._work(config, data, SystemClock(), stop)

    assert run(hurried) == 0
