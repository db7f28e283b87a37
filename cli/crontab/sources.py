"""Where a crontab lies, and how it is read and replaced: a user's own, /etc/crontab, /etc/cron.d, or any file.

A crontab that cron runs is replaced as a whole, after a copy of it was kept, and only while it still is what was read.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from cli.errors import CommandError, ExitStatus
from cli.places import refuse_others_place
from common.crontab.lines import MAX_BYTES, MAX_LINES

STDIN: Final = "-"
_SYSTEM_FILES: Final = (Path("/etc/crontab"), Path("/etc/cron.d"))
_COMMAND_S: Final = 30.0
_LONGEST_LABEL: Final = 63
_NONE_YET: Final = "no crontab for"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One crontab."""

    path: Path | None = None
    """A file; None: a user's own, which the program `crontab` has."""
    user: str | None = None
    """Whose it is; None: each entry names its user."""
    is_live: bool
    """cron runs it here."""

    @property
    def title(self) -> str:
        """For people."""
        return str(self.path) if self.path is not None else f"the crontab of {self.user}"

    @property
    def is_of_another(self) -> bool:
        """Whether it is the crontab of another user than this command's, who so decides what is in it."""
        return self.user not in (None, _own_name())

    @property
    def owner(self) -> str:
        """The label of its jobs: which crontab of which machine they are."""
        what = self.user if self.path is None else str(self.path).strip("/")
        text = f"crontab-{socket.gethostname()}-{what}"
        if len(text) > _LONGEST_LABEL:  # cut, another crontab would have the same one, and each pause the other's jobs
            text = f"{text[: _LONGEST_LABEL - 9]}-{sha256(text.encode()).hexdigest()[:8]}"
        return _NOT_IN_NAMES.sub("-", text).strip("-._")

    def read(self) -> str:
        """Its text; empty where the user has none. CommandError."""
        if self.path is not None:
            return decoded(_read_file(self.path), shown=str(self.path))
        done = _run(["crontab", *self._whose, "-l"])
        if done.returncode != 0:
            complaint = done.stderr.decode(errors="replace").strip()
            if _NONE_YET in complaint:
                return ""
            raise CommandError(f"{self.title} cannot be read: {complaint or 'crontab -l failed'}", ExitStatus.REFUSED)
        return decoded(done.stdout, shown=self.title)

    def replace(self, before: str, after: str) -> Path:
        """Make it ``after``; the path of the copy of what it was.

        CommandError: it is not ``before`` any more, or cannot be written; then it is as it was.
        """
        self.refuse_change(before)
        copy = self._keep_copy(before)
        if self.path is None:
            done = _run(["crontab", *self._whose, "-"], stdin=after.encode())
            if done.returncode != 0:
                complaint = done.stderr.decode(errors="replace").strip()
                raise CommandError(f"{self.title} cannot be written: {complaint}", ExitStatus.REFUSED)
        else:
            # A link stays one: what it leads to is replaced.
            target = Path(os.path.realpath(self.path))
            if self.path.is_symlink():
                refuse_others_place(target.parent, f"{self.path} leads there: have the file itself in its place")
            _replace_file(target, after.encode())
        if self.read() != after:
            raise CommandError(
                f"{self.title} is not what was written; look at it (it was: {copy})", ExitStatus.CONFLICT
            )
        return copy

    def refuse_change(self, before: str) -> None:
        """CommandError: it is not ``before`` any more."""
        if self.read() != before:
            raise CommandError(f"{self.title} was changed meanwhile; nothing was done, try again", ExitStatus.CONFLICT)

    @property
    def _whose(self) -> list[str]:
        return [] if self.user == _own_name() else ["-u", str(self.user)]

    def _keep_copy(self, text: str) -> Path:
        directory = state_directory() / "crontabs"
        copy = directory / f"{self.owner}.{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        try:
            refuse_others_place(directory, "name another HOME (sudo -H) or XDG_STATE_HOME")
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            message = f"no copy of {self.title} can be kept in {directory} ({error.strerror}), so it is not changed"
            raise CommandError(message, ExitStatus.UNAVAILABLE) from error
        return copy


def source_of(path: str | None, user: str | None, *, system: bool | None) -> Source:
    """The crontab that is meant. ``system``: whether it has a user column; None: its place says it."""
    if path is None:
        return Source(user=user or _own_name(), is_live=True)
    if path == STDIN:
        return Source(path=Path("/dev/stdin"), user=None if system else user or _own_name(), is_live=False)
    file = Path(path).absolute()
    is_live = file == _SYSTEM_FILES[0] or file.parent == _SYSTEM_FILES[1]
    is_system = is_live if system is None else system
    return Source(path=file, user=None if is_system else user or _own_name(), is_live=is_live)


def state_directory() -> Path:
    """Where copies of crontabs, and what a takeover is in the middle of, are kept. CommandError: nowhere."""
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "etcron"
    except RuntimeError as error:  # neither HOME nor the list of users says where
        message = "there is no home directory to keep copies of crontabs in; set HOME or XDG_STATE_HOME"
        raise CommandError(message, ExitStatus.REFUSED) from error


def decoded(raw: bytes, *, shown: str) -> str:
    """A crontab's bytes as text; CommandError where they are none."""
    if len(raw) > MAX_BYTES or raw.count(b"\n") > MAX_LINES:
        message = f"{shown}: has more than {MAX_BYTES:,} bytes or {MAX_LINES:,} lines; split it"
        raise CommandError(message, ExitStatus.REFUSED)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{shown}: is not UTF-8 (byte {error.start}); save it as UTF-8"
        raise CommandError(message, ExitStatus.REFUSED) from error
    if "\0" in text:
        raise CommandError(f"{shown}: has a NUL character; it is no crontab", ExitStatus.REFUSED)
    return text


def read_given(path: str) -> str:
    """The text of a file, or of stdin (``-``)."""
    if path == STDIN:
        return decoded(sys.stdin.buffer.read(MAX_BYTES + 1), shown="stdin")
    return decoded(_read_file(Path(path)), shown=path)


def is_user(name: str) -> bool:
    """Whether this machine has a user of that name."""
    with suppress(KeyError, ValueError):
        pwd.getpwnam(name)
        return True
    return False


def name_of(uid: int) -> str | None:
    """The user's name on this machine."""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return None


def _own_name() -> str:
    return name_of(os.geteuid()) or str(os.geteuid())


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror})", ExitStatus.REFUSED) from error


def _replace_file(path: Path, content: bytes) -> None:
    """Whole or not at all, with the owner and the mode that it had; cron passes over the name of the new file."""
    fresh: str | None = None
    try:
        about = path.stat()
        descriptor, fresh = tempfile.mkstemp(dir=path.parent, prefix=".etcron-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchown(descriptor, about.st_uid, about.st_gid)
            os.fchmod(descriptor, about.st_mode & 0o7777)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the jobs are switched by what is in it: no power cut may bring the old one back
        finally:
            os.close(folder)
    except OSError as error:
        if fresh is not None:
            with suppress(OSError):
                os.unlink(fresh)
        raise CommandError(
            f"{path} cannot be written ({error.strerror}); it is as it was", ExitStatus.REFUSED
        ) from error


def _run(command: list[str], *, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        environ = {**os.environ, "LC_ALL": "C"}  # its message is read
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=_COMMAND_S, check=False, env=environ
        )  # fmt: skip
    except FileNotFoundError as error:
        message = "there is no program `crontab` here: name the crontab's file"
        raise CommandError(message, ExitStatus.REFUSED) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"`{' '.join(command)}` failed: {error}", ExitStatus.UNAVAILABLE) from error
