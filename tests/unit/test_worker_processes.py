"""How one machine's configuration is shared out among several worker processes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.processes.worker import left_behind, plan_workers
from cli.programs import run_worker
from common.configuration.config import WorkerConfig, load_worker_config
from common.errors import ConfigError
from tests.support.records import record
from worker.identity import locked_directory
from worker.record.spool import Spool


def configured(tmp_path: Path, **flags: Any) -> WorkerConfig:
    return load_worker_config(None, {}, {"dataDir": str(tmp_path), **flags})


def test_each_has_a_directory_and_a_name_of_its_own_and_the_first_goes_on_as_the_only_one_did(tmp_path: Path) -> None:
    workers = plan_workers(configured(tmp_path, processes=3, workerName="big"))
    assert [worker.worker_name for worker in workers] == ["big", "big-2", "big-3"]
    assert [worker.data_dir for worker in workers] == [
        tmp_path, tmp_path / "processes" / "2", tmp_path / "processes" / "3",
    ]  # fmt: skip
    assert {worker.processes for worker in workers} == {1}


def test_without_a_name_each_makes_its_own(tmp_path: Path) -> None:
    assert [worker.worker_name for worker in plan_workers(configured(tmp_path, processes=2))] == [None, None]


def test_slots_and_disk_stay_those_of_the_machine(tmp_path: Path) -> None:
    workers = plan_workers(configured(tmp_path, processes=3, slots=8, spoolLimitBytes=3 * 2**30))
    assert [worker.slots for worker in workers] == [3, 3, 2]
    assert {worker.spool_limit_bytes for worker in workers} == {2**30}


def test_little_disk_is_not_shared_below_what_one_needs(tmp_path: Path) -> None:
    workers = plan_workers(configured(tmp_path, processes=4, spoolLimitBytes=2**24))
    assert {worker.spool_limit_bytes for worker in workers} == {2**24}


def test_a_label_tells_them_apart_unless_there_is_one(tmp_path: Path) -> None:
    given = configured(tmp_path, processes=2, labels={"zone": "eu"})
    assert [dict(worker.labels) for worker in plan_workers(given)] == [
        {"process": "1", "zone": "eu"}, {"process": "2", "zone": "eu"},
    ]  # fmt: skip
    own = configured(tmp_path, processes=2, labels={"process": "batch"})
    assert [dict(worker.labels) for worker in plan_workers(own)] == [{"process": "batch"}] * 2


def test_what_cannot_be_shared_out_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_workers(configured(tmp_path, processes=9, slots=3, workerName="a" * 64))
    slots, name = refused.value.problems
    assert str(slots) == "slots: 3 cannot be shared by 9 processes; give at least as many slots as processes"
    assert name.field == "workerName"
    assert "longer than 64 characters" in name.message


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (4, 2), (7, 3), (64, 8)])
def test_auto_leaves_half_of_the_cores_to_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert configured(tmp_path, processes="auto").processes == processes


@pytest.mark.parametrize("value", [0, 65, "some", True, 1.5])
def test_a_number_of_processes_that_is_none_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(ConfigError, match='give a whole number from 1 to 64, or "auto"'):
        configured(tmp_path, processes=value)


def _with_records(directory: Path, count: int) -> None:
    async def fill() -> None:
        spool = Spool.open(directory / "spool")
        for number in range(count):
            await spool.append(record(number))
        await spool.close()

    asyncio.run(fill())


def test_a_worker_that_is_one_process_now_names_those_before_it_that_hold_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cli.processes.worker.configure_logging", lambda *_: None)
    monkeypatch.setattr("worker.__main__.main", lambda _: 7)
    home = tmp_path / "processes"
    _with_records(home / "2", 3)
    _with_records(home / "3", 0)
    config = tmp_path / "worker.json"
    config.write_text(json.dumps({"dataDir": str(tmp_path)}))
    with locked_directory(home):  # others run on it
        assert run_worker(["--config", str(config)]) == 7
    assert caplog.messages == []
    assert run_worker(["--config", str(config)]) == 7
    told = f"{home / '2'} holds 3 records that were not delivered: start once with processes 2"
    assert caplog.messages == [told]


def test_fewer_workers_of_a_machine_leave_nothing_behind_unsaid(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _with_records(tmp_path / f"worker-{number}", number)
    (tmp_path / "worker-x").mkdir()
    assert list(left_behind(tmp_path, prefix="worker-", count=2, remedy="start once with --workers")) == [
        (f"{tmp_path / 'worker-3'} holds 3 records that were not delivered: start once with --workers 3", 3)
    ]
