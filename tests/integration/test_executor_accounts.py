"""Commands as another user: everything of that user and nothing of root, and still within reach of the worker."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.verdicts import Verdict
from tests.support.descriptors import descriptors, no_descriptor_left
from tests.support.executing import executing
from worker.launch import StopOrder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user")

NOBODY = pwd.getpwnam("nobody")
HOME = NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/"


async def test_has_ids_groups_and_variables_of_that_user() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        outcome = await runs.outcome_of(
            "id -u; id -ru; id -g; id -G; echo $USER $LOGNAME $HOME; pwd; grep ^Cap /proc/self/status", user="nobody"
        )
        groups = " ".join(map(str, sorted(set(os.getgrouplist("nobody", NOBODY.pw_gid)))))
        ids = [str(NOBODY.pw_uid), str(NOBODY.pw_uid), str(NOBODY.pw_gid), groups]
        *lines, inheritable, permitted, effective, _bounding, ambient = outcome.output.splitlines()
    assert lines == [*ids, f"nobody nobody {HOME}", HOME]
    assert {line.split()[1] for line in (inheritable, permitted, effective, ambient)} == {"0" * 16}
    assert outcome.verdict is Verdict.SUCCESS


async def test_naming_the_workers_own_user_needs_no_permission() -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    async with executing() as runs:
        assert (await runs.outcome_of("id -un", user=own)).output == f"{own}\n"


async def test_may_write_to_its_own_output_by_name() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        outcome = await runs.outcome_of("echo out > /dev/stdout; echo err > /dev/stderr", user="nobody")
    assert (outcome.verdict, outcome.output) == (Verdict.SUCCESS, "out\nerr\n")


async def test_may_not_read_its_own_output_for_a_reader_may_hold_it_up() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        outcome = await runs.outcome_of("chmod 666 /dev/stdout; exec 3</dev/stdout; echo read", user="nobody")
    assert (outcome.verdict, outcome.output.count("enied"), "read\n" in outcome.output) == (Verdict.FAILED, 1, False)


async def test_environment_of_the_job_is_never_roots() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        outcome = await runs.outcome_of(
            ("/bin/sh", "-c", "echo $SECRET"), user="nobody",
            env={"LD_PRELOAD": "/no/such/library.so", "PYTHONHOME": "/no/such/place", "SECRET": "x\udc80y"},
        )  # fmt: skip
    complaint, *lines = outcome.output.splitlines()
    assert "/no/such/library.so" in complaint
    assert lines == ["x\ufffdy"], "one complaint: of the shell that runs as nobody, none of root's"


async def test_signals_are_as_for_any_other_command() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        look = "grep ^Sig[BIC] /proc/self/status; cat /proc/$$/oom_score_adj; ls /proc/self/fd; ulimit -a"
        assert (await runs.outcome_of(look, user="nobody")).output == (await runs.outcome_of(look)).output


async def test_killed_before_it_has_become_that_user() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        run_id = runs.start("sleep 300", user="nobody")
        runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
    assert (outcome.verdict, outcome.err) == (Verdict.KILLED, "killed by test")


async def test_leaks_no_descriptor() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        await runs.outcome_of("true")
        before = descriptors()
        for settings in ({}, {"workdir": "/no"}, {"shell": "/no"}, {"env": {"A": "\0"}}, {"env": {"A=B": ""}}):
            runs.start("true", user="nobody", **settings)
        for spare in range(8):
            with no_descriptor_left(spare):
                runs.start("true", user="nobody", start_until=SystemClock().boottime() + 0.04)
        await runs.executor.drained()
        assert descriptors() == before
        ends = [outcome.err for outcome in runs.outcomes.values()]
    assert sum("embedded null byte" in err for err in ends) == 1
    assert sum("illegal environment variable name" in err for err in ends) == 1
    assert sum("out of open files" in err for err in ends) >= 5


async def test_list_of_arguments_and_exit_status() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        outcome = await runs.outcome_of(("sh", "-c", "id -un; exit 4"), user="nobody")
        missing = await runs.outcome_of(("no-such-program",), user="nobody")
    assert (outcome.verdict, outcome.exit_code, outcome.output) == (Verdict.FAILED, 4, "nobody\n")
    assert (missing.verdict, missing.start_ms) == (Verdict.FAILED, None)
    assert "the program no-such-program is nowhere in its PATH" in missing.err


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("nobody", "is not allowed on worker w1: add it to allowedUsers in the configuration of that worker"),
        ("no-such-user", "does not exist on the machine of worker w1"),
    ],
)
async def test_user_that_is_not_to_be_had_fails_the_run(user: str, words: str) -> None:
    async with executing(allowed_users=["no-such-user"]) as runs:
        outcome = await runs.outcome_of("echo", user=user)
    assert (outcome.verdict, outcome.start_ms, outcome.exit_code) == (Verdict.FAILED, None, None)
    assert outcome.err.startswith(f'could not be started: user "{user}" ')
    assert words in outcome.err


async def test_directory_is_entered_as_that_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    async with executing(allowed_users=["nobody", "root"]) as runs:
        for closed in (tmp_path, tmp_path / "below"):
            closed.mkdir(exist_ok=True)
            outcome = await runs.outcome_of("echo", user="nobody", workdir=str(closed))
            assert (outcome.verdict, outcome.start_ms) == (Verdict.FAILED, None)
            assert f'its directory {closed} may not be entered by user "nobody" on worker w1' in outcome.err
        outcome = await runs.outcome_of("echo", user="nobody", workdir="/no/such/place")
        assert "its directory /no/such/place does not exist on worker w1" in outcome.err
        assert (await runs.outcome_of("pwd", user="nobody", workdir="/usr")).output == "/usr\n"


@pytest.mark.parametrize("command", ["sleep 300 & sleep 300", "setsid sleep 300 & trap '' TERM; echo up; sleep 300"])
async def test_kill_reaches_all_of_it(command: str) -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        run_id = runs.start(f"echo up; {command}", user="nobody", kill_grace_s=0.2)
        await runs.printed(run_id, "up")
        assert {os.stat(f"/proc/{process.pid}").st_uid for process in runs.alive(run_id)} == {NOBODY.pw_uid}
        runs.executor.end(run_id, StopOrder(by="test"))
        assert (await runs.ended(run_id)).verdict is Verdict.KILLED
        assert runs.alive(run_id) == []


async def test_what_it_leaves_in_its_group_is_ended() -> None:
    async with executing(allowed_users=["nobody", "root"]) as runs:
        run_id = runs.start("sleep 300 & echo done", user="nobody")
        assert (await runs.ended(run_id)).output == "done\n"
        assert runs.alive(run_id) == []
