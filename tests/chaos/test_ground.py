"""Two chaos runs on one machine do not meet, and nothing of a run is left behind."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import end_processes_of, ground, sweep_fake_clocks


@pytest.fixture(autouse=True)
def own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process as a run may leave it behind."""
    with subprocess.Popen(
        ["sh", "-c", "echo up; read -r forever"], env={"CHAOS_GROUND": f"{tmp_path}/"}, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"  # in the midst of its exec it has no environment yet
        yield process
        process.kill()


def test_two_at_once_share_neither_files_nor_ports_nor_users() -> None:
    with ground(with_disks=False) as one, ground(with_disks=False) as other:
        assert one.directory != other.directory
        assert one.uid != other.uid
        assert {one.port() for _ in range(20)}.isdisjoint(other.port() for _ in range(20))


def test_afterwards_its_files_are_gone() -> None:
    with ground(with_disks=False) as one:
        (one.directory / "data").mkdir()
    assert not one.directory.exists()


def test_what_a_killed_run_left_is_cleared_away_by_the_next() -> None:
    left = {block: Path(tempfile.gettempdir()) / f"etcron-chaos-{block}-left" for block in range(100)}
    for directory in left.values():
        directory.mkdir()
    with ground(with_disks=False) as here:  # which block it has is also up to other runs on this machine
        assert [block for block, directory in left.items() if not directory.exists()] == [here.block]


def test_its_processes_are_ended_by_their_mark(tmp_path: Path, lasting: subprocess.Popen[bytes]) -> None:
    end_processes_of(tmp_path / "another")
    assert lasting.poll() is None
    end_processes_of(tmp_path)
    assert lasting.wait(60) == -9


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no memory to share")
def test_what_libfaketime_left_of_the_dead_is_removed(lasting: subprocess.Popen[bytes]) -> None:
    living = Path(f"/dev/shm/faketime_shm_{lasting.pid}")
    dead = Path("/dev/shm/sem.faketime_sem_4194305")  # no process can have that id
    try:
        for path in (living, dead):
            path.touch()
        sweep_fake_clocks()
        assert (living.exists(), dead.exists()) == (True, False)
    finally:
        living.unlink(missing_ok=True)
