"""The command line: statuses, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.__main__ import main
from cli.processes.up import JOBS


def _status(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as leaving:
        return int(str(leaving.code))


def test_each_program_that_starts_and_each_command_that_asks_has_a_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("start", "worker", "--help") == 0
    assert "Runs the commands of jobs." in capsys.readouterr().out
    assert _status("worker", "--help") == 0
    assert "`etcron start worker` starts one." in capsys.readouterr().out
    assert _status("worker", "list", "--help") == 0
    assert "list the workers" in capsys.readouterr().out
    assert _status("manager", "--help") == 0


def test_shows_the_configuration_of_both_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert _status("config", "show") == 0

    out = capsys.readouterr().out
    assert "manager:" in out
    assert "worker:" in out


def test_shows_where_a_value_comes_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"mongodbUri": "mongodb://u:hunter2@h"}')

    assert _status("config", "show", "manager", "-config", str(path), "--api-port", "9", "-o", "json") == 0

    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert json.loads(out)["apiPort"] == {"value": 9, "origin": "flag --api-port"}
    assert json.loads(out)["mongodbUri"] == {"value": "mongodb://u:***@h", "origin": f"file {path}"}


def test_the_examples_are_jobs_that_a_manager_takes() -> None:
    from common.jobs.reader import parse_job

    for job in JOBS:
        parse_job(dict(job))
