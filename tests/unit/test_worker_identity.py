"""Who a worker is, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import ConfigError
from worker.identity import (
    CopiedDirectoryError,
    DirectoryTakenError,
    alone_on_this_machine,
    load_identity,
    locked_directory,
    name_held_for,
)


def test_name_and_instance_are_written_once(tmp_path: Path) -> None:
    first = load_identity(tmp_path, name=None)
    assert load_identity(tmp_path, name=None) == first
    assert (tmp_path / "name").read_text().strip() == first.worker
    assert len(first.instance) == 16


def test_a_name_that_is_given_goes_first_and_keeps_the_instance(tmp_path: Path) -> None:
    first = load_identity(tmp_path, name=None)
    renamed = load_identity(tmp_path, name="another")
    assert (renamed.worker, renamed.instance) == ("another", first.instance)


def test_two_directories_are_two_workers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = load_identity(tmp_path / "a", name=None), load_identity(tmp_path / "b", name=None)
    assert one.worker != other.worker
    assert one.instance != other.instance


def test_an_empty_file_as_a_power_cut_leaves_it_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "instance").touch()
    assert load_identity(tmp_path, name="w").instance == (tmp_path / "instance").read_text().strip()


@pytest.mark.parametrize("content", [b"a b", b"\xff\xfe", b"a\0b", b"x" * 100])
def test_an_instance_that_no_worker_has_written_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "instance").write_bytes(content)
    with pytest.raises(ConfigError, match="instance"):
        load_identity(tmp_path, name="w")


@pytest.mark.parametrize("name", ["a/b", "-a", "ä", "a" * 65])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="workerName"):
        load_identity(tmp_path, name=name)


def test_the_longest_name_that_the_configuration_takes_is_taken(tmp_path: Path) -> None:
    assert load_identity(tmp_path, name="a" * 64).worker == "a" * 64


def test_two_workers_on_one_directory_are_refused(tmp_path: Path) -> None:
    taken = pytest.raises(DirectoryTakenError, match=str(os.getpid()))
    with locked_directory(tmp_path / "data"), taken, locked_directory(tmp_path / "data"):
        pass
    with locked_directory(tmp_path / "data"):
        assert (tmp_path / "data" / "lock").read_text().strip() == str(os.getpid())


def test_what_another_umask_has_left_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    for name in ("name", "instance", "ending.json", "spool/1.segment", "somebody-elses"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o644)
    (tmp_path / "spool").chmod(0o755)
    with locked_directory(tmp_path):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    private = dict.fromkeys(("lock", "name", "instance", "ending.json"), 0o600)
    assert modes == {**private, "spool": 0o700, "somebody-elses": 0o644}


def test_two_workers_of_one_machine_with_a_copied_directory_are_refused(tmp_path: Path) -> None:
    instance = load_identity(tmp_path, name="w").instance
    copied = pytest.raises(CopiedDirectoryError, match=f"the instance {instance} of this dataDir")
    with alone_on_this_machine(instance), copied, alone_on_this_machine(instance):
        pass
    with alone_on_this_machine(instance):
        pass


def test_the_name_that_is_held_does_not_tell_the_instance(tmp_path: Path) -> None:
    instance = load_identity(tmp_path, name="w").instance
    with alone_on_this_machine(instance):
        assert instance not in Path("/proc/net/unix").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
@pytest.mark.parametrize("listens", [True, False])
def test_another_user_who_holds_the_name_keeps_nobody_from_starting(tmp_path: Path, listens: bool) -> None:
    instance = load_identity(tmp_path, name="w").instance
    name = name_held_for(instance)
    take = f"import os,socket,sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.bind({name!r});"
    wait = " s.listen();" if listens else ""
    with subprocess.Popen(
        [sys.executable, "-c", f"{take}{wait} print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        assert name[1:] in Path("/proc/net/unix").read_text()
        with alone_on_this_machine(instance):
            pass
        other.terminate()
