"""What a command can reach of its worker: run as another user, nothing of it. Seen from inside of a job."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.support.cluster import Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user"),
]

PASSWORD = "of-the-log-store"
LOOKS = {
    "its environment": "grep -qa {password} /proc/{pid}/environ",
    "the environment of its guardian": "head -c 1 /proc/{guardian}/environ",
    "its memory": "head -c 1 /proc/{pid}/maps",
    "its open files": "ls -l /proc/{pid}/fd/1",
    "its data directory": "ls {home}/worker-1/data",
    "its spool": "ls {home}/worker-1/data/spool",
    "its log": "cat {home}/worker-1/log",
    "its password file": "grep -q {password} {home}/private/password",
    "its secrets": "cat {home}/private/secret",
    "a signal to it": "kill -0 {pid}",
    "its group": "id -G | grep -qw 0",
}
"""What a job tries; each is a command that succeeds where it can."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One worker, in a directory into which other users may go."""
    home = Path(tempfile.mkdtemp(prefix="etcron-isolation-"))
    home.chmod(0o755)
    private = home / "private"
    private.mkdir()
    for name in ("password", "secret"):
        (private / name).write_text(PASSWORD)
        (private / name).chmod(0o600)
    (home / "secrets.json").write_text(json.dumps({
        "directory": str(private), "allow": [{"secrets": ["*"], "labels": {"team": ["a"]}, "users": "all"}],
    }))  # fmt: skip
    flags = ("--allowed-users", "nobody,root", "--secrets-file", str(home / "secrets.json"))
    try:
        async with running_cluster(home, workers=0, managers=1) as cluster:
            worker = cluster.add_worker("worker-1", *flags)
            worker.is_cold = True
            worker.environ["MONGODB_PASSWORD"] = PASSWORD
            worker.start()
            await cluster.ready()
            (home / "worker-1" / "log").chmod(0o600)  # the journal's, on a machine with systemd
            yield cluster
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def reached(cluster: Cluster, user: str) -> set[str]:
    """What a job that runs as this user can reach."""
    worker = cluster.workers[0].popen
    assert worker is not None
    guardian = next(
        child.pid for child in psutil.Process(worker.pid).children(recursive=True) if "guardian" in str(child.cmdline())
    )
    known = {"pid": worker.pid, "guardian": guardian, "home": cluster.directory, "password": PASSWORD}
    looks = [f"{{ {look.format(**known)}; }} >/dev/null 2>&1 && echo '{name}'" for name, look in LOOKS.items()]
    job = f"looks-{user}"
    await cluster.call("PUT", f"/api/v1/jobs/{job}", {
        "command": "; ".join([*looks, "true"]), "cronExpr": "0 0 0 1 1 * 2199", "user": user, "workdir": "/",
    })  # fmt: skip
    run = (await cluster.call("POST", f"/api/v1/jobs/{job}/run", {}))["runId"]
    found: list[dict[str, object]] = []

    async def is_over() -> bool:
        found[:] = [one for one in await cluster.runs(job=job) if one["id"] == run and one["status"] == "success"]
        return bool(found)

    await wait_until(is_over, description=f"{run} is over")
    output = (await cluster.get(f"/api/v1/runs/{run.replace('#', '%23').replace('@', '%40')}"))["output"]
    return set(str(output).split("\n")) - {""}


async def test_command_of_another_user_reaches_nothing_of_its_worker(cluster: Cluster) -> None:
    assert await reached(cluster, "nobody") == set()
    assert await reached(cluster, "root") == set(LOOKS), "a look that root cannot take shows nothing"
