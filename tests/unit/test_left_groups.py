"""Who lives in the process groups that runs have left."""

from __future__ import annotations

import subprocess

from worker.machine.left_groups import LeftGroup, living_in
from worker.machine.processes import read_process


def test_two_runs_that_share_a_group_both_wait_for_it() -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        try:
            leader = read_process(process.pid)
            assert leader is not None
            groups = [
                LeftGroup(run=run, leader=process.pid, since_ms=0, leader_started=leader.started)
                for run in ("a@1#1", "b@1#1")
            ]
            assert living_in(groups) == {group: [process.pid] for group in groups}
        finally:
            process.kill()
    assert living_in(groups) == {group: [] for group in groups}


def test_number_that_was_given_to_another_process_names_nobody_of_the_run() -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        try:
            group = LeftGroup(run="a@1#1", leader=process.pid, since_ms=0, leader_started=None)
            assert living_in([group]) == {group: []}
        finally:
            process.kill()
