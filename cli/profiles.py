"""What `etcron login` keeps: a token for each cluster, in ``~/.config/etcron/config.json``; its owner alone reads it.

    {"profiles": {"default": {"server": "https://etcron.example:8070", "ca": null, "token": "etcron_...", "user": "a"}}}

A token goes to the server of its profile and to no other, and never over plain HTTP beyond this machine.
``ETCRON_TOKEN`` comes before any profile, and goes to whichever server is named. Where nothing names a server and no
token is given, a Unix socket of a manager of this machine is asked first: it needs no login.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import re
import stat
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult

from cli.errors import CommandError, ExitStatus
from cli.places import refuse_others_place

TOKEN_VARIABLE: Final = "ETCRON_TOKEN"
PROFILE_VARIABLE: Final = "ETCRON_PROFILE"
SERVER_VARIABLE: Final = "ETCRON_SERVER"
CA_VARIABLE: Final = "ETCRON_CA"
DEFAULT_SERVER: Final = "http://127.0.0.1:8070"
SOCKETS: Final = ("/run/etcron/manager.sock", "~/.local/share/etcron/run/manager.sock")
"""Of a manager that the system runs, and of an `etcron up` of this user."""
DEFAULT_PROFILE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN: Final = re.compile(r"etcron_([0-9a-f]{12})_[0-9a-f]{64}")
_PORTS: Final = {"http": 80, "https": 443}
_MOST_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One cluster, and the token that its managers take."""

    name: str
    server: str
    ca: str | None = None
    token: str | None = field(default=None, repr=False)
    user: str | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        """Each of them."""
        return tuple(text.strip() for text in self.server.split(",") if text.strip())

    @property
    def token_id(self) -> str | None:
        """By which it is revoked."""
        match = _TOKEN.fullmatch(self.token or "")
        return match[1] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token, and where it may go."""

    token: str = field(repr=False)
    origin: str
    """Where it comes from, in words."""
    servers: frozenset[tuple[str, str, int, str]] | None
    """None: to whichever server is named."""

    def headers_for(self, base: SplitResult, shown: str) -> dict[str, str]:
        """What is sent to this server, if anything. CommandError: others could read it on the way."""
        if self.servers is not None and place_of(base) not in self.servers:
            return {}
        refuse_open_way(base, shown, self.origin)
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which servers a command asks, and as whom."""

    servers: tuple[str, ...]
    ca: str | None
    profile: Profile | None
    """The one that counts; None: there is none of this name."""
    name: str
    """Of the profile."""
    is_default: bool
    """Nothing names a server."""


def target(arguments: Namespace, *, may_be_new: bool = False) -> Target:
    """What the options, the variables and the profile say; the command line counts first.

    CommandError: a profile is named that is not there (``may_be_new``: that is no mistake), or the file cannot be read.
    """
    asked = getattr(arguments, "profile", None) or os.environ.get(PROFILE_VARIABLE) or None
    name = asked or DEFAULT_PROFILE
    if not _NAME.fullmatch(name):
        message = f"--profile: {name[:80]!r} is no name of a profile; take letters, digits, dots, dashes, underscores"
        raise CommandError(message, ExitStatus.USAGE)
    profile = read_profiles().get(name)
    if asked and profile is None and not may_be_new:
        message = f"there is no profile {name}; `etcron login --profile {name} --server URL` makes it"
        raise CommandError(message, ExitStatus.USAGE)
    of_profile = None if profile is None else profile.server
    variable = os.environ.get(SERVER_VARIABLE)
    named = arguments.server or (of_profile if asked else None) or variable or of_profile
    texts = named or DEFAULT_SERVER
    ca = arguments.ca or os.environ.get(CA_VARIABLE) or (profile.ca if profile and texts == profile.server else None)
    servers = tuple(text.strip() for text in texts.split(",") if text.strip())
    return Target(servers=servers or (DEFAULT_SERVER,), ca=ca or None, profile=profile, name=name, is_default=not named)


def local_socket() -> str | None:
    """A manager's Unix socket on this machine, as `--server` takes it; None: there is none that can be trusted.

    Only its owner can have put it there: it is of the same user as its directory, where no other user may write,
    and that stands in a directory of root's, or of this user's, where no other user may write either.
    """
    for text in SOCKETS:
        path = Path(os.path.expanduser(text))
        try:
            itself, directory, above = path.lstat(), path.parent.lstat(), path.parent.parent.stat()
        except OSError:
            continue
        is_closed = not (directory.st_mode | above.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
        is_placed = itself.st_uid == directory.st_uid and above.st_uid in (0, os.geteuid())
        if stat.S_ISSOCK(itself.st_mode) and stat.S_ISDIR(directory.st_mode) and is_closed and is_placed:
            return f"unix:{path}"
    return None


def token_given() -> str | None:
    """The token in the environment. CommandError: what is there is none; its text is not repeated."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return checked(token, TOKEN_VARIABLE) if token else None


def checked(token: str, where: str) -> str:
    """The token. CommandError: it is none; its text is not repeated."""
    if not _TOKEN.fullmatch(token):
        message = (
            f"{where} holds no token; one looks like etcron_<12 digits>_<64 digits>, as `etcron token add` prints it"
        )
        raise CommandError(message, ExitStatus.USAGE)
    return token


def place_of(base: SplitResult) -> tuple[str, str, int, str]:
    """A server, so that two spellings of it are equal."""
    return base.scheme, (base.hostname or "").lower(), base.port or _PORTS.get(base.scheme, 0), base.path.rstrip("/")


def refuse_open_way(base: SplitResult, shown: str, what: str) -> None:
    """CommandError where a secret would go over plain HTTP beyond this machine."""
    if base.scheme not in ("https", "unix") and not _is_loopback(base.hostname or ""):
        message = (
            f"{what} is not sent to {shown}: over plain HTTP everybody on the way can read it; name the server with "
            "https://, or go through a tunnel to 127.0.0.1"
        )
        raise CommandError(message, ExitStatus.USAGE)


# The file


def path_of_profiles() -> Path:
    """Where they are kept."""
    return Path(os.path.expanduser("~")) / ".config" / "etcron" / "config.json"


def read_profiles() -> dict[str, Profile]:
    """All of them, by name; none where there is no file. CommandError: it cannot be read, or others can read it."""
    path = path_of_profiles()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", ExitStatus.USAGE) from error
    if stat.S_IMODE(mode) & 0o077:
        message = f"{path} holds tokens, and others may read it: chmod 600 {path}, and log in again if they may have"
        raise CommandError(message, ExitStatus.USAGE)
    try:
        found = json.loads(text)["profiles"]
        return {name: _profile(name, one) for name, one in found.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"{path} cannot be read as what `etcron login` keeps; mend it, or remove it and log in again"
        raise CommandError(message, ExitStatus.USAGE) from error


def keep(profile: Profile) -> None:
    """In place of the one of this name. CommandError: the file cannot be written."""
    with _changed() as profiles:
        profiles[profile.name] = profile


def forget(profile: Profile) -> None:
    """It is kept no more; another one that has come in its place is. CommandError: the file cannot be written."""
    with _changed() as profiles:
        if profiles.get(profile.name) == profile:
            del profiles[profile.name]


def check_writable() -> None:
    """CommandError where nothing can be kept: before a user types a password for nothing."""
    with _changed():
        pass


@contextlib.contextmanager
def _changed() -> Iterator[dict[str, Profile]]:
    """The profiles, which are written at the end. A lock keeps out other logins and logouts, whose changes would be
    lost.
    """
    path = path_of_profiles()
    refuse_others_place(path.parent, "name another HOME (sudo -H)")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        lock = os.open(path.with_name(".config.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with contextlib.suppress(OSError):  # not every file system of a home has locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        profiles = read_profiles()
        yield profiles
        _write(path, profiles)
    finally:
        os.close(lock)


def _profile(name: str, one: dict[str, Any]) -> Profile:
    texts = (one["server"], one.get("ca"), one.get("token"), one.get("user"))
    if not isinstance(one["server"], str) or not all(text is None or isinstance(text, str) for text in texts):
        raise TypeError("a profile is not of this form")
    server, ca, token, user = texts
    return Profile(name=name, server=server, ca=ca, token=token, user=user)


def _write(path: Path, profiles: dict[str, Profile]) -> None:
    """Whole or not at all, readable by its owner alone from the first byte on."""
    document = {
        name: {"server": one.server, "ca": one.ca, "token": one.token, "user": one.user}
        for name, one in profiles.items()
    }
    fresh = path.with_name(f".config.{os.getpid()}.json")
    try:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"profiles": document}, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> CommandError:
    return CommandError(f"{path} cannot be written: {error.strerror}", ExitStatus.NO)


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
