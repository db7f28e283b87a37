"""What a worker writes is for its user alone, whatever the umask that it was started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_worker_uses_no_directory_of_another_user(tmp_path: Path) -> None:
    """Else a link of theirs in it has the worker empty any file of its own."""
    data, victim = tmp_path / "data", tmp_path / "victim"
    data.mkdir()
    victim.write_text("precious")
    (data / "lock").symlink_to(victim)
    os.chown(data, 65534, 65534)
    stores = ("--etcd-endpoints", "127.0.0.1:1", "--mongodb-uri", "mongodb://127.0.0.1:1")
    told = subprocess.run(
        [sys.executable, "-P", "-m", "worker", *stores, "--data-dir", str(data)], check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert told.returncode == 2
    assert "belongs to another user" in told.stderr
    assert victim.read_text() == "precious"


async def test_files_of_a_worker_are_private_with_any_umask(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    stores = ("--etcd-endpoints", "127.0.0.1:1", "--mongodb-uri", "mongodb://127.0.0.1:1")
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "worker", *stores, "--data-dir", str(data)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, umask=0, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def written() -> set[str]:
            return {str(path.relative_to(data)) for path in data.rglob("*")}

        wanted = {"lock", "name", "instance", "guardian.lock", "spool", "spool/cursor"}
        await wait_until(lambda: wanted <= written(), description="the worker has its files")
        assert {path.name for path in data.rglob("*") if path.stat().st_mode & 0o077} == set()
    finally:
        worker.kill()
        worker.wait()
