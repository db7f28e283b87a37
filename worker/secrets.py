"""Secrets that jobs ask for by name: which job may have which, where values come from, and what becomes of them.

A job names a secret (``secrets``, ``secretFiles``); its value is nowhere but on the worker. The worker's
``secretsFile`` says where values lie, and which jobs may have them:

    {
      "directory": "/etc/etcron/secrets",              a file for each secret: pg/prod is /etc/etcron/secrets/pg/prod
      "credentials": true,                             systemd's (LoadCredential=), for names without a slash
      "program": ["/usr/local/bin/read-secret"],       is given the name, and prints the value
      "allow": [
        {"secrets": ["pg/*"], "labels": {"team": ["billing"]}, "users": ["postgres"]}
      ]
    }

The first of these sources that there are, and that has the name, gives the value. ``labels`` is ``"all"`` or labels
with lists of values; ``users`` is ``"all"`` or a list of the system users that the run may have.
Everything is read anew for each run, in a thread and with a deadline: a changed rule, or a changed value, counts from
the next run on. What goes wrong is the run's failure, in words that never hold a value.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import secrets
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

from common.access.selectors import ALL, Selector
from common.errors import UnavailableError
from common.jobs.job import JobSpec
from common.process.secret_files import (
    MOST_BYTES,
    OTHERS_WRITE,
    SecretError,
    bytes_of,
    credentials_directory,
    secret_in,
)
from common.process.threads import Places

_log = logging.getLogger(__name__)

_WITHIN_S: Final = 10.0
_SETTINGS: Final = frozenset({"directory", "credentials", "program", "allow"})
_RULE: Final = frozenset({"secrets", "labels", "users"})
_NOT_WAITED_FOR: Final = "its run has not waited for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecrets:
    """What one run was given; ``close`` when it is over."""

    env: Mapping[str, str] = field(repr=False)
    """Variables with values, and with the paths of files."""
    values: tuple[bytes, ...] = field(repr=False)
    """What must not stand in its output."""
    directory: Path | None = None
    """The run's own, where it has files."""

    def close(self) -> None:
        """Remove the files, beside the loop; it may be called again."""
        if self.directory is not None:
            with suppress(RuntimeError):  # out of threads: the next start of the worker removes them
                Thread(target=_remove, args=(self.directory,), name="secrets", daemon=True).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    secrets: tuple[str, ...]
    labels: Selector
    users: frozenset[str] | None

    def gives(self, secret: str, labels: Mapping[str, str], user: str) -> bool:
        return (
            any(fnmatchcase(secret, pattern) for pattern in self.secrets)
            and self.labels.matches(labels)
            and (self.users is None or user in self.users)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """What the file says."""

    directory: Path | None
    credentials: Path | None
    program: tuple[str, ...]
    allow: tuple[_Rule, ...]

    @classmethod
    def read(cls, path: Path) -> _Settings:
        """SecretError: it cannot be read, another user could have written it, or it does not say what it should."""
        try:
            document = json.loads(bytes_of(path, forbidden=OTHERS_WRITE))
            if unknown := sorted(set(document) - _SETTINGS):
                raise ValueError(f"unknown members: {unknown[:5]}")
            return cls(
                directory=Path(document["directory"]) if "directory" in document else None,
                credentials=credentials_directory() if document.get("credentials") is True else None,
                program=_texts(document.get("program", [])),
                allow=tuple(_rule(one) for one in document.get("allow", [])),
            )
        except FileNotFoundError:
            raise SecretError(f"secretsFile {path} is not there") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise SecretError(f"secretsFile {path} cannot be read as the documentation says: {error!s:.200}") from None

    def value(self, secret: str, until: float) -> bytes:
        """By this time of the monotonic clock. SecretError: no source has it, or the one that does cannot be read."""
        for directory in (self.directory, self.credentials):
            if directory is None or (directory is self.credentials and "/" in secret):
                continue
            try:
                return secret_in(directory / secret)
            except (FileNotFoundError, NotADirectoryError):
                continue
        if self.program:
            return _printed(self.program, secret, until)
        raise SecretError(f"secret {secret} is not on this worker: none of the sources in its secretsFile has it")


class Lookup:
    """One look-up, which its run may not wait for until it has ended: what it finds then is removed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given: RunSecrets | None = None
        self._is_abandoned = False

    def give(self, found: RunSecrets) -> RunSecrets:
        with self._lock:
            if not self._is_abandoned:
                self._given = found
                return found
        found.close()
        raise SecretError(_NOT_WAITED_FOR)

    def check(self) -> None:
        """SecretError: no caller waits for it."""
        if self._is_abandoned:
            raise SecretError(_NOT_WAITED_FOR)

    def abandon(self) -> None:
        """One that has not begun does not; one that hangs keeps its place until it has ended."""
        with self._lock:
            self._is_abandoned = True
        if self._given is not None:
            self._given.close()


class Secrets:
    """Gives runs what their jobs ask for."""

    def __init__(self, path: Path | None, *, runtime: Path, default_user: str | None) -> None:
        """``path``: the ``secretsFile``; ``runtime``: where files of runs may lie, on a disk of memory at best."""
        self._path = path
        self.runtime = runtime
        self._default_user = default_user
        self._places = Places(within_s=_WITHIN_S)
        """A source that hangs keeps those of secrets, and none of what the worker itself needs."""

    async def of(self, spec: JobSpec, lookup: Lookup) -> RunSecrets:
        """What a run of this job gets. SecretError, also where the look-up was abandoned."""
        try:
            return await self._places.beside(partial(self._gather, spec, lookup), what="secrets")
        except (SecretError, asyncio.CancelledError):
            lookup.abandon()
            raise
        except (UnavailableError, OSError) as error:
            lookup.abandon()
            raise SecretError(f"its secrets cannot be looked up: {error!s:.200}") from None
        except Exception as error:
            _log.exception("secrets of a run: a reason that was not foreseen", extra={"action": "secrets.failed"})
            raise SecretError(f"its secrets cannot be looked up: {type(error).__name__}") from None

    def clear(self) -> None:
        """Remove what a former process has left. Before any run starts; blocks."""
        _remove(self.runtime)

    def _gather(self, spec: JobSpec, lookup: Lookup) -> RunSecrets:
        lookup.check()
        until = time.monotonic() + _WITHIN_S - 1  # for all sources together
        if self._path is None:
            raise SecretError("this worker has no secrets: its configuration has no secretsFile")
        settings = _Settings.read(self._path)
        user = spec.user or self._default_user or pwd.getpwuid(os.geteuid()).pw_name
        found: dict[str, bytes] = {}
        for secret in dict.fromkeys([*spec.secrets.values(), *spec.secret_files.values()]):
            if not any(rule.gives(secret, spec.labels, user) for rule in settings.allow):
                raise SecretError(
                    f"secret {secret} is not given to jobs with these labels and the user {user}: "
                    "see `allow` in the secretsFile of this worker"
                )
            found[secret] = settings.value(secret, until)
        env = {name: _text(secret, found[secret]) for name, secret in spec.secrets.items()}
        directory = None
        if spec.secret_files:
            directory = self._directory_of_a_run()
            try:
                files = {name: (directory / name, found[secret]) for name, secret in spec.secret_files.items()}
                _write(directory, files.values(), user)
            except (OSError, KeyError) as error:
                _remove(directory)
                raise SecretError(f"its file cannot be written: {error!s:.200}") from None
            env |= {name: str(path) for name, (path, _) in files.items()}
        return lookup.give(RunSecrets(env=env, values=_to_mask(found.values()), directory=directory))

    def _directory_of_a_run(self) -> Path:
        """Others may pass, and see nothing: the name is random, and each file is its user's alone."""
        try:
            _make_passable(self.runtime.parent)
            _make_passable(self.runtime)
            directory = self.runtime / secrets.token_hex(16)
            directory.mkdir(mode=0o700)
        except OSError as error:
            raise SecretError(f"a directory for its files cannot be made: {error.strerror or error}") from None
        return directory


def _make_passable(directory: Path) -> None:
    """Where it is not there, whatever the umask. SecretError: another user could put a directory of their own there."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        about = directory.lstat()
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & stat.S_IWOTH:
            raise SecretError(f"{directory} can be changed by other users: chown and chmod 711 it") from None
    else:
        directory.chmod(0o711)


def _remove(directory: Path) -> None:
    """As far as that goes: a command may have nested in it what cannot be taken away."""
    try:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(directory)  # what is left says why
    except FileNotFoundError:
        pass
    except (OSError, RecursionError) as error:
        extra = {"action": "secrets.left"}
        _log.warning("%s is not removed, and may hold secrets: %s; remove it", directory, error, extra=extra)


def runtime_directory(data_dir: Path, instance: str, environ: Mapping[str, str]) -> Path:
    """Where the files of runs lie: below systemd's RuntimeDirectory, /run for root, the user's own, or the data's.

    Not below /run/etcron, which is the manager's: systemd gives that to its user, and removes it with it. Where root
    has a RuntimeDirectory that is closed to others, as that of `etcron up`, files there are out of their users' reach.
    """
    given = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if os.geteuid() == 0 and not (given and _lets_others_pass(Path(given))):
        given = "/run/etcron-worker"
    elif not given and (own := environ.get("XDG_RUNTIME_DIR", "")) and os.access(own, os.W_OK):
        given = f"{own}/etcron"
    return Path(given) / f"secrets-{instance}" if given else data_dir / "secrets"


def _lets_others_pass(directory: Path) -> bool:
    """Also where it is not there yet: it is made so."""
    try:
        return bool(directory.stat().st_mode & stat.S_IXOTH)
    except FileNotFoundError:
        return True


def _rule(document: Mapping[str, Any]) -> _Rule:
    if unknown := sorted(set(document) - _RULE):
        raise ValueError(f"a rule has unknown members: {unknown[:5]}")
    users = document["users"]
    return _Rule(
        secrets=_texts(document["secrets"]), labels=Selector.from_json(document["labels"]),
        users=None if users == ALL else frozenset(_texts(users)),
    )  # fmt: skip


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list of texts is needed")
    return tuple(value)


def _printed(program: tuple[str, ...], secret: str, until: float) -> bytes:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with subprocess.Popen(
        [*program, secret], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None, "it is a pipe"
        content = _read_until(process.stdout.fileno(), until)
        try:
            if content is None or len(content) > MOST_BYTES:
                raise subprocess.TimeoutExpired(program, _WITHIN_S)
            status = process.wait(until - time.monotonic())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it has started, too: a script waits for that
            process.wait()
            if content is not None and len(content) > MOST_BYTES:
                raise SecretError(
                    f"secret {secret} was not given by {program[0]}: it printed more than {MOST_BYTES:,} bytes"
                ) from None
            raise SecretError(f"secret {secret} was not given by {program[0]}: it did not end in time") from None
    if status != 0 or content is None:
        raise SecretError(f"secret {secret} was not given by {program[0]}: it ended with status {status}")
    return content


def _read_until(descriptor: int, until: float) -> bytes | None:
    """All that comes, or more than a secret may have; None: it has not ended by then."""
    content, poll = b"", select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(content) <= MOST_BYTES:
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            return None
        if not (piece := os.read(descriptor, MOST_BYTES + 1)):
            break
        content += piece
    return content


def _text(secret: str, value: bytes) -> str:
    """As a variable: without the line end that editors leave."""
    try:
        text = value.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretError(f"secret {secret} is not text: use secretFiles for it") from None
    if "\0" in text:
        raise SecretError(f"secret {secret} contains a NUL: use secretFiles for it")
    return text


def _write(directory: Path, files: Collection[tuple[Path, bytes]], user: str) -> None:
    for path, content in files:
        path.touch(mode=0o400)
        path.chmod(0o600)
        path.write_bytes(content)
        path.chmod(0o400)
    if os.geteuid() == 0 and (account := pwd.getpwnam(user)).pw_uid != 0:
        for above in directory.parents[:2]:  # an administrator may have made them, or the unit
            about = above.stat()
            is_in_group = about.st_gid in os.getgrouplist(user, account.pw_gid)
            if not about.st_mode & (stat.S_IXGRP if is_in_group else stat.S_IXOTH):
                mode = f"{stat.S_IMODE(about.st_mode):o}"
                raise PermissionError(f"{above} (mode {mode}) is closed to {user}: chmod 711 it (RuntimeDirectoryMode)")
        for path, _ in files:
            os.chown(path, account.pw_uid, account.pw_gid)
        directory.chmod(0o711)  # it stays root's, who can empty it without CAP_DAC_OVERRIDE


LEAST_MASKED: Final = 4
"""A shorter value stands in too much that is none."""


def _to_mask(values: Collection[bytes]) -> tuple[bytes, ...]:
    """Each as it is and without the line end after it; the longest first."""
    found = {value.rstrip(b"\r\n") for value in values}
    return tuple(sorted((value for value in found if len(value) >= LEAST_MASKED), key=len, reverse=True))
