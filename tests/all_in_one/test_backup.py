"""`etcron backup` of an `etcron up` that runs, and `etcron restore` into another directory: the drill."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cli.processes import plan as planning
from cli.processes.data_dir import DataDir
from cli.processes.embedded import Found
from cli.processes.ports import PortClaims
from tests.support.etcd_server import free_port
from tests.support.running_up import ROOT, RunningUp, running_up
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.logstore]


async def etcron(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, from the checkout."""
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "PYTHONPATH": str(ROOT)}
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ)


async def log_of(up: RunningUp, job: str) -> list[dict[str, object]]:
    return await up.get(f"/job/log?name={job}&limit=1000")


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

        await wait_until(has_run, description="it has fired three times")
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

        await wait_until(goes_on, description="it fires again")
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


def stopped(data: Path) -> Path:
    """A data directory on which nothing runs."""
    for name, content in {"etcd/member/snap/db": "etcd", "audit/000001": "audit", "worker-1/spool/1": "spool"}.items():
        (data / name).parent.mkdir(parents=True)
        (data / name).write_text(content)
    (data / "log-store").mkdir()
    sqlite3.connect(data / "log-store" / "runs.db").execute("CREATE TABLE runs (id)").connection.close()
    return data


async def test_what_has_moved_to_another_disk_is_in_the_backup(tmp_path: Path) -> None:
    data, disk = stopped(tmp_path / "data"), tmp_path / "disk"
    disk.mkdir()
    for name in ("etcd", "audit", "worker-1", "log-store"):
        (data / name).rename(disk / name)
        (data / name).symlink_to(disk / name)
    made = await etcron("backup", str(tmp_path / "etcron.tar.gz"), "--data-dir", str(data))
    assert made.returncode == 0, made.stderr
    restored = await etcron("restore", str(tmp_path / "etcron.tar.gz"), "--data-dir", str(tmp_path / "again"))
    assert restored.returncode == 0, restored.stderr
    assert files(tmp_path / "again") == files(disk)


@pytest.mark.parametrize(
    ("link", "leads_to", "told"),
    [
        ("etcd", "disk", "is a link to what is not there"),
        ("log-store", "disk", "is a link to what is not there"),
        ("worker-1", "disk", "is a link to what is not there"),
        ("worker-1/spool/2", "1", "does not follow so deep"),
        ("log-store/more", "../audit", "does not follow so deep"),
        ("here", ".", "does not follow so deep"),
    ],
)  # fmt: skip
async def test_a_backup_leaves_nothing_out_in_silence(tmp_path: Path, link: str, leads_to: str, told: str) -> None:
    place = stopped(tmp_path / "data") / link
    if place.exists():
        place.rename(tmp_path / "gone")
    place.symlink_to(leads_to)
    refused = await etcron("backup", str(tmp_path / "etcron.tar.gz"), "--data-dir", str(tmp_path / "data"))
    assert (refused.returncode, str(place) in refused.stderr, told in refused.stderr) == (5, True, True), refused
    assert not (tmp_path / "etcron.tar.gz").exists()


ETCD, LOGS = {"etcd_endpoints": "etcd:2379"}, {"mongodb_uri": "mongodb://logs"}


@pytest.mark.parametrize(
    ("earlier", "now", "status", "told"),
    [
        ({}, ETCD | LOGS, 5, "etcd runs elsewhere"),
        ({}, ETCD, 5, "etcd runs elsewhere"),
        ({}, LOGS, 0, "the log store runs elsewhere, and its records are not in this file"),
        (ETCD | LOGS, {}, 0, ""),
    ],
    ids=["both", "etcd", "log store", "none"],
)
async def test_a_backup_tells_which_store_was_elsewhere_at_the_last_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: dict[str, Any], now: dict[str, Any], status: int,
    told: str,
) -> None:  # fmt: skip
    data = DataDir(stopped(tmp_path / "data"))
    monkeypatch.setattr(planning, "find_etcd", lambda *_, **__: Found(kind="etcd", program=["etcd"], version="3.5.16"))
    monkeypatch.setattr(planning, "find_log_store", lambda _: Found(kind="log store", program=["logs"]))
    for options in (earlier, now):
        with data.held(), PortClaims() as ports:
            planning.make_plan(planning.Options(data_dir=data.path, port=free_port(), **options), data, ports, {})
    made = await etcron("backup", str(tmp_path / "etcron.tar.gz"), "--data-dir", str(data.path))
    assert (made.returncode, told in made.stderr, "elsewhere" in made.stderr) == (status, True, bool(told)), made
    assert (tmp_path / "etcron.tar.gz").exists() is (status == 0)


async def test_no_secret_file_of_a_run_is_in_the_backup(tmp_path: Path) -> None:
    data, disk = stopped(tmp_path / "data"), tmp_path / "disk"
    (data / "worker-1").rename(disk)
    (data / "worker-1").symlink_to(disk)
    for place in ("worker-1/secrets/0123/PGPASSFILE", "worker-1/spool/secrets/1"):
        (data / place).parent.mkdir(parents=True)
        (data / place).write_text("hunter2")
    made = await etcron("backup", str(tmp_path / "etcron.tar.gz"), "--data-dir", str(data))
    assert made.returncode == 0, made.stderr
    with tarfile.open(tmp_path / "etcron.tar.gz") as tar:
        kept = [name for name in tar.getnames() if "secrets" in name]
    assert kept == ["data/worker-1/spool/secrets", "data/worker-1/spool/secrets/1"]


@pytest.mark.parametrize("place", ["data", "data/worker-1", "disk/deeper"])
async def test_a_backup_into_the_data_directory_is_refused(tmp_path: Path, place: str) -> None:
    data = stopped(tmp_path / "data")
    (tmp_path / "disk" / "deeper").mkdir(parents=True)
    (data / "moved").symlink_to(tmp_path / "disk")
    refused = await etcron("backup", str(tmp_path / place / "etcron.tar.gz"), "--data-dir", str(data))
    assert (refused.returncode, "is in the data directory" in refused.stderr) == (5, True), refused
    assert list((tmp_path / place).glob("*etcron*")) == []


def files(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*") if path.is_file()}


def archive(file: Path, *members: tuple[tarfile.TarInfo, bytes], **about: object) -> None:
    """A file as `backup` writes it, with these members behind what it says of itself."""
    told = json.dumps({"format": 1, **about}).encode()
    with tarfile.open(file, "w:gz") as tar:
        for member, content in ((tarfile.TarInfo("etcron.json"), told), *members):
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member, b""


async def refusal(file: Path) -> str:
    """What `restore` says, which leaves nothing."""
    target = file.parent / "data"
    refused = await etcron("restore", str(file), "--data-dir", str(target))
    assert refused.returncode == 5, refused
    assert "Traceback" not in refused.stderr
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    return refused.stderr


@pytest.mark.parametrize("name", ["../out", "/out", "data/../../out", "data/link", "etc/passwd", "data/null"])
async def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    if name.endswith("link"):
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    if name.endswith("null"):
        member.type = tarfile.CHRTYPE
    archive(tmp_path / "odd.tar.gz", folder("data"), (member, b""))
    assert "has no place in a backup" in await refusal(tmp_path / "odd.tar.gz")


async def test_a_restore_to_where_a_file_is_is_refused(tmp_path: Path) -> None:
    archive(tmp_path / "any.tar.gz", folder("data"))
    (tmp_path / "data").write_text("a file")
    refused = await etcron("restore", str(tmp_path / "any.tar.gz"), "--data-dir", str(tmp_path / "data"))
    assert (refused.returncode != 0, "Traceback" in refused.stderr) == (True, False)
    assert f"{tmp_path / 'data'}: Not a directory; nothing was made" in refused.stderr


@pytest.mark.parametrize(
    ("sums", "more"),
    [
        ({"data/x": sha256(b"other").hexdigest()}, []),
        ({"data/x": sha256(b"x").hexdigest(), "data/y": "0"}, []),
        ({}, []),
        (None, []),
        ({"data/x": sha256(b"x").hexdigest()}, ["data/z"]),
    ],
    ids=["another content", "a file is missing", "a file too many", "no checksums", "a file behind them"],
)
async def test_what_is_not_as_it_was_saved_is_refused(
    tmp_path: Path, sums: dict[str, str] | None, more: list[str]
) -> None:
    members = [folder("data"), (tarfile.TarInfo("data/x"), b"x")]
    if sums is not None:
        members.append((tarfile.TarInfo("checksums.json"), json.dumps(sums).encode()))
    members += [(tarfile.TarInfo(name), b"z") for name in more]
    archive(tmp_path / "odd.tar.gz", *members, format=2, bytes=1)
    assert "damaged" in await refusal(tmp_path / "odd.tar.gz")


async def test_a_file_that_unpacks_to_more_than_it_says_or_than_there_is_room_for_is_refused(tmp_path: Path) -> None:
    much = folder("data"), (tarfile.TarInfo("data/x"), bytes(80 * 1024 * 1024))
    archive(tmp_path / "odd.tar.gz", *much, format=2, bytes=1)
    assert "has more in it than it says" in await refusal(tmp_path / "odd.tar.gz")
    archive(tmp_path / "odd.tar.gz", *much, format=2, bytes=2**60)
    full = await etcron("restore", str(tmp_path / "odd.tar.gz"), "--data-dir", str(tmp_path / "data"))
    assert (full.returncode, "make room" in full.stderr) == (6, True)


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    archive(tmp_path / "odd.tar.gz", folder("data"), format=3)
    assert "is no backup that this version of etcron" in await refusal(tmp_path / "odd.tar.gz")


async def test_a_file_that_is_cut_short_or_damaged_is_refused_wherever_that_is(tmp_path: Path) -> None:
    file, random = tmp_path / "damaged.tar.gz", Random(1)
    content = "".join(f"{random.random()}\n" for _ in range(20_000)).encode()
    archive(file, folder("data"), (tarfile.TarInfo("data/x"), content))
    raw = file.read_bytes()
    file.write_bytes(raw[:-200])
    said = await refusal(file)
    assert (str(file) in said, "nothing was made" in said) == (True, True)
    for place in (len(raw) // 2, len(raw) - 8):  # what is compressed, and its checksum
        file.write_bytes(raw[:place] + bytes(255 - byte for byte in raw[place : place + 4]) + raw[place + 4 :])
        said = await refusal(file)
        assert "nothing was made" in said
        assert "None" not in said
