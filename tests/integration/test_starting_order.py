"""In which order a worker begins: what a former life left running first."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import worker.__main__ as program
from common.clock import SystemClock
from common.configuration.config import WorkerConfig
from common.errors import ConfigError, Problem
from common.etcd import EtcdClient
from common.process.lifecycle import run
from worker.data_directory import open_data_directory


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
