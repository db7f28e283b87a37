"""`etcron backup` of an `etcron up` that runs, and `etcron restore` into another directory: the drill."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from random import Random

import pytest

from tests.support.running_up import ROOT, RunningUp, running_up
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.logstore]


async def etcron(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, from the checkout."""
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "PYTHONPATH": str(ROOT)}
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ)


async def log_of(up: RunningUp, job: str) -> list[dict[str, object]]:
    return await up.get(f"/job/log?name={job}")


async def save(up: RunningUp, name: str, **spec: object) -> None:
    async with up.http.put(
        f"{up.url}/api/v1/jobs/{name}", json={"name": name, "command": "echo here", **spec}
    ) as answer:
        assert answer.status in (200, 201), await answer.text()


async def test_everything_comes_back_from_a_backup_that_was_made_while_it_ran(tmp_path: Path) -> None:
    first, second, file = tmp_path / "first", tmp_path / "second", tmp_path / "etcron.tar.gz"
    first.mkdir()
    second.mkdir()
    async with running_up(first) as up:
        await save(up, "often", cronExpr="* * * * * * *")
        await save(up, "yearly", cronExpr="@yearly", description="first")
        await save(up, "yearly", cronExpr="@yearly", description="second")

        async def has_run() -> bool:
            return len(await log_of(up, "often")) >= 3

        await wait_until(has_run, description="it has fired three times", timeout=30)
        before = [one["planTime"] for one in await log_of(up, "often")]
        made = await etcron("backup", str(file), "--data-dir", str(first / "data"))
        assert made.returncode == 0, made.stderr
        again = await etcron("backup", str(file), "--data-dir", str(first / "data"))
        assert (again.returncode, "is there already" in again.stderr) == (4, True)
        await save(up, "later", cronExpr="@yearly")
        up.process.send_signal(signal.SIGINT)
        assert await up.ends() == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it holds passwords"
    restored = await etcron("restore", str(file), "--data-dir", str(second / "data"))
    assert restored.returncode == 0, restored.stderr
    assert f"etcron up --data-dir {second / 'data'}" in restored.stdout
    async with running_up(second) as up:
        assert sorted(str(job["name"]) for job in await up.get("/job/list")) == ["often", "yearly"]
        async with up.http.get(f"{up.url}/api/v1/jobs/yearly/versions") as answer:
            assert len((await answer.json())["items"]) == 2
        async with up.http.get(f"{up.url}/api/v1/audit?action=job.save") as answer:
            assert len((await answer.json())["items"]) == 3
        plans = [one["planTime"] for one in await log_of(up, "often")]
        assert set(before) <= set(plans)

        async def goes_on() -> bool:
            return max(map(str, [one["planTime"] for one in await log_of(up, "often")])) > max(map(str, plans))

        await wait_until(goes_on, description="it fires again", timeout=30)
        up.process.send_signal(signal.SIGINT)
        assert await up.ends() == 0
    refused = await etcron("restore", str(file), "--data-dir", str(second / "data"))
    assert (refused.returncode, "is not empty" in refused.stderr) == (4, True)
    # And once more, of what does not run: as it lies.
    cold, third = tmp_path / "cold.tar.gz", tmp_path / "third"
    assert (await etcron("backup", str(cold), "--data-dir", str(second / "data"))).returncode == 0
    assert (await etcron("restore", str(cold), "--data-dir", str(third))).returncode == 0
    assert {path for path in files(second / "data") if path.parts[0] not in ("log", "run", "lock", "log-store")} == {
        path for path in files(third) if path.parts[0] != "log-store"
    }
    assert (third / "etcd" / "member" / "snap" / "db").read_bytes() == (
        second / "data" / "etcd" / "member" / "snap" / "db"
    ).read_bytes()


def files(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["../out", "/out", "data/link"])
async def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    file, target = tmp_path / "odd.tar.gz", tmp_path / "data"
    with tarfile.open(file, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        if name.endswith("link"):
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    refused = await etcron("restore", str(file), "--data-dir", str(target))
    assert (refused.returncode, "has no place in a backup" in refused.stderr) == (5, True)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


async def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        tar.add(__file__, "data/x")
    file.write_bytes(file.read_bytes()[:-200])
    refused = await etcron("restore", str(file), "--data-dir", str(tmp_path / "data"))
    assert (refused.returncode, "nothing was made" in refused.stderr) == (5, True)
    assert not (tmp_path / "data").exists()


async def test_a_file_that_is_damaged_is_refused_wherever_that_is(tmp_path: Path) -> None:
    whole, file, random = tmp_path / "whole", tmp_path / "damaged.tar.gz", Random(1)
    content = tmp_path / "x"
    content.write_text("".join(f"{random.random()}\n" for _ in range(20_000)))
    with tarfile.open(whole, "w:gz") as tar:
        tar.add(content, "data/x")
    raw = whole.read_bytes()
    for place in (len(raw) // 2, len(raw) - 8):  # what is compressed, and its checksum
        file.write_bytes(raw[:place] + bytes(255 - byte for byte in raw[place : place + 4]) + raw[place + 4 :])
        refused = await etcron("restore", str(file), "--data-dir", str(tmp_path / "data"))
        assert (refused.returncode, "nothing was made" in refused.stderr) == (5, True), refused.stderr
        assert "None" not in refused.stderr
        assert not (tmp_path / "data").exists()
