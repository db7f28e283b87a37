"""Secrets by name: whose they are, how a run gets them, and where their values never are."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import stat
import subprocess
import sys
import threading
from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import worker.secrets
from common.clock import SystemClock
from common.jobs.job import JobSpec
from common.process.secret_files import SecretError
from common.protocol.keys import RunId
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.secrets import Lookup, Secrets

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

PASSWORD = "correct horse battery staple"
BILLING = {"team": "billing"}
REPOSITORY = Path(__file__).resolve().parents[3]
ME = pwd.getpwuid(os.geteuid()).pw_name


def vault(tmp_path: Path, *, mode: int = 0o600, **settings: Any) -> Path:
    """A worker's secretsFile, and the secret ``pg/prod``, given to billing's jobs."""
    (tmp_path / "vault" / "pg").mkdir(parents=True)
    secret = tmp_path / "vault" / "pg" / "prod"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(mode)
    allow = [{"secrets": ["pg/*"], "labels": {"team": ["billing"]}, "users": "all"}]
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"directory": str(tmp_path / "vault"), "allow": allow} | settings))
    path.chmod(0o644)
    return path


async def outcome(world: World, command: str, name: str = "job", **fields: Any) -> dict[str, Any]:
    """The record of one run of such a job."""
    job = await world.save(name, command, **fields)
    return await world.record(await world.ask(job, plan_ms=1_790_000_000_000, name=name))


async def test_run_gets_its_secret_and_no_other_place_does(world: World, place: Place, tmp_path: Path) -> None:
    async with working(place, secrets_file=vault(tmp_path)) as worker:
        await worker.deciding()
        evidence = tmp_path / "evidence"
        record = await outcome(
            world, f'printf %s "$PW" > {evidence}; echo "it is $PW, $LEVEL"; env | sort',
            labels=BILLING, secrets={"PW": "pg/prod"}, env={"LEVEL": "debug", "PW": "not this"},
        )  # fmt: skip
    assert evidence.read_text() == PASSWORD
    assert record["status"] == "success"
    assert "it is ***, debug" in record["output"]
    assert PASSWORD not in json.dumps(record)
    async for page in world.etcd.read_prefix(place.prefix):
        assert not any(PASSWORD.encode() in kv.value for kv in page.kvs)
    spool = b"".join(path.read_bytes() for path in (place.directory / "w1").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in spool


async def test_secret_in_a_file_is_private_and_goes_with_its_run(world: World, place: Place, tmp_path: Path) -> None:
    async with working(place, secrets_file=vault(tmp_path)) as worker:
        await worker.deciding()
        record = await outcome(
            world, 'stat -c "%a %U" "$PGPASSFILE" "$(dirname "$PGPASSFILE")"; cat "$PGPASSFILE"; echo "$PGPASSFILE"',
            labels=BILLING, secretFiles={"PGPASSFILE": "pg/prod"},
        )  # fmt: skip
        *modes, masked, path = record["output"].split("\n")[:4]
        assert modes == [f"400 {ME}", f"700 {ME}"]
        assert masked == "***"
        await wait_until(lambda: not Path(path).parent.exists(), description="the run's files are gone")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    fields: Mapping[str, Any] = field(default_factory=lambda: {"labels": BILLING, "secrets": {"PW": "pg/prod"}})
    settings: Mapping[str, Any] = field(default_factory=dict)
    mode: int = 0o600
    says: str


REFUSALS = {
    "another team's job": Refusal(
        fields={"labels": {"team": "sales"}, "secrets": {"PW": "pg/prod"}}, says="is not given to jobs with these"),
    "a job without labels": Refusal(fields={"secrets": {"PW": "pg/prod"}}, says="is not given to jobs"),
    "another user": Refusal(
        settings={"allow": [{"secrets": ["*"], "labels": "all", "users": ["somebody-else"]}]}, says="and the user"),
    "no rule": Refusal(settings={"allow": []}, says="is not given to jobs"),
    "no such secret": Refusal(
        fields={"labels": BILLING, "secrets": {"PW": "pg/test"}}, says="secret pg/test is not on this worker"),
    "a file that others can read": Refusal(mode=0o644, says="is open to other users"),
    "a file that others can write": Refusal(mode=0o620, says="is open to other users"),
    "a program that fails": Refusal(
        fields={"labels": BILLING, "secrets": {"PW": "pg/none"}}, settings={"program": ["/bin/false"]},
        says="it ended with status 1"),
    "a program that is not there": Refusal(
        fields={"labels": BILLING, "secrets": {"PW": "pg/none"}}, settings={"program": ["/no/such/program"]},
        says="cannot be looked up"),
    "a mistake in the settings": Refusal(settings={"alow": []}, says="cannot be read as the documentation says"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
async def test_run_that_may_not_have_its_secret_fails_and_says_why(
    world: World, place: Place, tmp_path: Path, name: str
) -> None:
    case = REFUSALS[name]
    path = vault(tmp_path, mode=case.mode, **case.settings)
    async with working(place, secrets_file=path) as worker:
        await worker.deciding()
        record = await outcome(world, f"touch {tmp_path}/ran", **case.fields)
    assert record["status"] == "failed"
    assert case.says in record["err"]
    assert PASSWORD not in json.dumps(record)
    assert not (tmp_path / "ran").exists()


async def test_worker_without_secrets_says_so(world: World, place: Place) -> None:
    async with working(place) as worker:
        await worker.deciding()
        record = await outcome(world, "true", secrets={"PW": "pg/prod"})
    assert (record["status"], "no secretsFile" in record["err"]) == ("failed", True)


async def test_program_gives_what_no_file_has_and_a_new_value_counts_at_once(
    world: World, place: Place, tmp_path: Path
) -> None:
    program, value = tmp_path / "read-secret", tmp_path / "value"
    program.write_text(f'#!/bin/sh\n[ "$1" = pg/vault ] && cat {value}\n')
    program.chmod(0o755)
    async with working(place, secrets_file=vault(tmp_path, program=[str(program)])) as worker:
        await worker.deciding()
        for number, secret in enumerate(["first-value", "second-value"]):
            value.write_text(secret)
            record = await outcome(
                world, f'printf %s "$PW" > {tmp_path}/{number}; echo $PW', f"job{number}", labels=BILLING,
                secrets={"PW": "pg/vault"},
            )  # fmt: skip
            assert (record["output"], (tmp_path / str(number)).read_text()) == ("***\n", secret)


@pytest.mark.parametrize(
    ("hangs", "says"),
    [
        ("exec sleep 60", "it did not end in time"),
        ("sleep 60", "it did not end in time"),
        ("sleep 60 & echo value", "it did not end in time"),
        ("yes no end", "it printed more than 65,536 bytes"),
    ],
)
async def test_source_that_hangs_fails_its_own_runs_alone(
    world: World, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str, says: str
) -> None:
    monkeypatch.setattr("worker.secrets._WITHIN_S", 1.5)
    program = tmp_path / "hangs"
    program.write_text(f"#!/bin/sh\n{hangs}\n")
    program.chmod(0o755)
    async with working(place, secrets_file=vault(tmp_path, program=[str(program)])) as worker:
        await worker.deciding()
        job = await world.save("waits", "true", labels=BILLING, secrets={"PW": "pg/slow"})
        waiting = await world.ask(job, plan_ms=1_790_000_000_000, name="waits")
        await wait_until(lambda: _is_claimed(worker, waiting), description="it is claimed")
        assert (await outcome(world, "true", "plain"))["status"] == "success"
        record = await world.record(waiting)
        assert (record["status"], says in record["err"]) == ("failed", True), record["err"]
        await wait_until(lambda: not _secret_threads(), description="no thread waits for what it has started")


def _hanging_vault(tmp_path: Path) -> Path:
    """Its program has not answered when the test is over."""
    (program := tmp_path / "hangs").write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    return vault(tmp_path, program=[str(program)])


async def test_kill_reaches_runs_that_wait_for_a_source_and_for_their_turn_at_it(
    world: World, place: Place, tmp_path: Path
) -> None:
    async with working(place, secrets_file=_hanging_vault(tmp_path), slots=16) as worker:
        await worker.deciding()
        runs = [await _asked(world, f"job{number}") for number in range(5)]  # four are looked up at a time
        await wait_until(lambda: all(_is_claimed(worker, run) for run in runs), description="all are claimed")
        await wait_until(lambda: len(_secret_threads()) == 4, description="four are looked up")
        for run in runs:
            await world.kill(run)
        records = [await world.record(run) for run in runs]
        assert {(one["status"], one["err"]) for one in records} == {("killed", "killed by me before start: enough")}
        assert len(_secret_threads()) == 4, "the source hangs still"


async def test_run_that_waits_for_a_source_is_missed_once_it_is_too_late(
    world: World, place: Place, tmp_path: Path
) -> None:
    async with working(place, secrets_file=_hanging_vault(tmp_path)) as worker:
        await worker.deciding()
        late = await _asked(world, expires_ms=SystemClock().wall_ms() + 1_500)
        record = await world.record(late)
        assert (record["status"], record["reason"]) == ("missed", "claimed, not started")
        assert _secret_threads(), "the source hangs still"


async def test_run_that_waits_for_a_source_is_handed_on_at_a_stop(world: World, place: Place, tmp_path: Path) -> None:
    async with working(place, secrets_file=_hanging_vault(tmp_path)) as worker:
        await worker.deciding()
        run = await _asked(world)
        await wait_until(lambda: _is_claimed(worker, run), description="it is claimed")
    assert [one.run_id for one in await world.requests()] == [run]
    assert await world.entries() == {}


async def _asked(world: World, name: str = "job", expires_ms: int | None = None) -> RunId:
    """A run of a job that asks the source."""
    job = await world.save(name, "true", labels=BILLING, secrets={"PW": "pg/slow"})
    return await world.ask(job, plan_ms=1_790_000_000_000, name=name, expires_ms=expires_ms)


def _secret_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "beside: secrets"]


def _is_claimed(worker: Working, run: RunId) -> bool:
    return worker.parts.table.get(run) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user")
async def test_file_belongs_to_the_runs_user_and_the_value_is_not_in_reach_of_another(
    world: World, place: Place, tmp_path: Path
) -> None:
    async with working(place, secrets_file=vault(tmp_path), allowed_users=("nobody", "root")) as worker:
        await worker.deciding()
        look = f'stat -c "%a %U" "$F"; cat "$F"; cat {tmp_path}/vault/pg/prod || echo refused'
        record = await outcome(
            world, look, labels=BILLING, user="nobody", workdir="/", secretFiles={"F": "pg/prod"}
        )  # fmt: skip
    assert record["output"].split("\n")[:2] == ["400 nobody", "***"]
    assert "refused" in record["output"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user")
@pytest.mark.parametrize("mode", [None, 0o711, 0o750])
async def test_file_of_another_user_is_in_its_reach_whatever_the_umask_and_the_runtime_directory(
    world: World, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None
) -> None:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        if mode is not None:
            (Path(directory) / "etcron").mkdir()
            (Path(directory) / "etcron").chmod(mode)
        monkeypatch.setenv("RUNTIME_DIRECTORY", f"{directory}/etcron")
        async with working(place, secrets_file=vault(tmp_path), allowed_users=("nobody", "root")) as worker:
            await worker.deciding()
            before = os.umask(0o077)
            try:
                record = await outcome(
                    world, 'cat "$F"; ls "$(dirname "$(dirname "$F")")"', labels=BILLING, user="nobody", workdir="/",
                    secretFiles={"F": "pg/prod"},
                )  # fmt: skip
            finally:
                os.umask(before)
    assert record["output"].split("\n")[0] == "***"
    assert "cannot open directory" in record["output"]


A_RUN = """
import asyncio, sys, threading
from pathlib import Path
from common.jobs.job import JobSpec
from worker.secrets import Lookup, Secrets
job = JobSpec(name="job", command="true", user="nobody", labels={"team": "billing"}, secret_files={"F": "pg/prod"})
secrets = Secrets(Path(sys.argv[1]), runtime=Path(sys.argv[2]), default_user=None)
secrets.clear()
given = asyncio.run(secrets.of(job, Lookup()))
for path in (Path(given.env["F"]), given.directory):
    print(path.owner(), oct(path.stat().st_mode & 0o777))
given.close()
for thread in threading.enumerate():
    if thread.name == "secrets":
        thread.join()
print(given.directory.exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_worker_needs_no_capability_but_chown_for_files_of_other_users_and_says_what_it_leaves(tmp_path: Path) -> None:
    (left := tmp_path / "runtime" / "secrets" / "0123").mkdir(parents=True, mode=0o700)
    (left / "F").write_text(PASSWORD)
    os.chown(left, 65534, 65534)
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all,+chown", sys.executable, "-c", A_RUN, vault(tmp_path), left.parent],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["nobody 0o400", "root 0o711", "False"], done.stderr
    assert f"{left.parent} is not removed, and may hold secrets: [Errno 13] Permission denied" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("closed", ["etcron-worker", "etcron-worker/secrets-1"])
async def test_no_file_is_put_where_the_runs_user_does_not_come(tmp_path: Path, closed: str) -> None:
    runtime = tmp_path / "etcron-worker" / "secrets-1"
    runtime.mkdir(parents=True)
    (tmp_path / closed).chmod(0o750)
    secrets = Secrets(vault(tmp_path), runtime=runtime, default_user=None)
    job = JobSpec(name="job", command="true", user="nobody", labels=BILLING, secret_files={"F": "pg/prod"})
    with pytest.raises(SecretError, match=rf"{closed} \(mode 750\) is closed to nobody"):
        await secrets.of(job, Lookup())
    assert not list(runtime.iterdir())
    given = await secrets.of(replace(job, user="root"), Lookup())
    assert Path(given.env["F"]).read_text() == f"{PASSWORD}\n"


async def test_no_file_is_put_where_another_user_could_put_a_directory_of_their_own(
    world: World, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etcron").mkdir()
    (tmp_path / "etcron").chmod(0o777)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "etcron"))
    async with working(place, secrets_file=vault(tmp_path)) as worker:
        await worker.deciding()
        record = await outcome(world, 'cat "$F"', labels=BILLING, secretFiles={"F": "pg/prod"})
    assert (record["status"], "can be changed by other users" in record["err"]) == ("failed", True)


async def test_directory_that_a_command_has_nested_without_end_keeps_no_worker_from_starting(
    world: World, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "etcron"))
    nest = "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    async with working(place, secrets_file=vault(tmp_path)) as worker:
        await worker.deciding()
        command = f'{shlex.quote(sys.executable)} -c {shlex.quote(nest)} "$(dirname "$F")"'
        record = await outcome(world, command, labels=BILLING, secretFiles={"F": "pg/prod"})
        assert record["status"] == "success"
    async with working(place, secrets_file=tmp_path / "secrets.json") as worker:
        await worker.deciding()
    await to_thread(subprocess.run, ["rm", "-rf", str(tmp_path / "etcron")], check=True)


async def test_files_of_a_former_life_are_removed_at_the_start(place: Place, tmp_path: Path) -> None:
    async with working(place, secrets_file=vault(tmp_path)) as worker:
        await worker.deciding()
        runtime = worker.parts.secrets.runtime
    left = runtime / "0123"
    left.mkdir(parents=True)
    (left / "PGPASSFILE").write_text(PASSWORD)
    async with working(place, secrets_file=tmp_path / "secrets.json") as worker:
        await worker.deciding()
        assert not left.exists()
    assert stat.S_ISDIR(runtime.parent.stat().st_mode)


async def test_what_is_found_too_late_is_removed(
    world: World, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.secrets._WITHIN_S", 1.0)
    gate, written = threading.Event(), threading.Event()
    write = worker.secrets._write

    def slow_write(*arguments: Any) -> None:
        write(*arguments)
        written.set()
        gate.wait(60)

    monkeypatch.setattr("worker.secrets._write", slow_write)
    async with working(place, secrets_file=vault(tmp_path)) as one:
        await one.deciding()
        record = await outcome(world, "true", labels=BILLING, secretFiles={"F": "pg/prod"})
        assert (record["status"], "does not answer" in record["err"]) == ("failed", True)
        assert written.is_set()
        gate.set()
        runtime = one.parts.secrets.runtime
        await wait_until(lambda: not list(runtime.iterdir()), description="the files of the look-up are gone")
