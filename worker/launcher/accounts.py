"""Who commands run as: the worker's own user, or another one that the worker's configuration allows.

A user who may save jobs may run commands as every user in ``allowedUsers``: so the list belongs to the machine, is
empty unless an administrator fills it, and no job can get around it: where there is a list, or a ``defaultUser``, root
runs a job only if one of them names root. The user database is asked at each start as another user, as cron does it:
one that was removed, or put into another group, is so from the next run on. For the worker's own it is asked once.

The process that asks waits for the name service, however long that takes: so only children of the launcher ask (and
what the worker itself needs to know of its own user, it asks one of these). Standard library only.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

NEEDED_CAPABILITIES: Final = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SYS_PTRACE": 19}
"""Of a worker whose commands run as other users: to give them their output, to end them, to become them, to find what
they started (by its environment). By number, as Linux has it.
"""
_FOR_SECRET_FILES: Final = {"CAP_CHOWN": 0}
"""To give them those."""


class RefusedUserError(Exception):
    """A command cannot run as this user here; the text says what to change, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the kernel knows a user by."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    """All groups, the primary one included, as initgroups(3) sets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user that a command runs as."""

    user: str
    home: str
    other: Credentials | None = None
    """None: the worker's own user, so there is nothing to change."""

    @classmethod
    def own(cls) -> Self:
        """The account of this process; a user id that the machine does not know goes by its number and lives in /."""
        uid = os.geteuid()
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            return cls(user=str(uid), home="/")
        return cls(user=entry.pw_name, home=_home(entry))

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> Self:
        """The account of another user."""
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        credentials = Credentials(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups)
        return cls(user=entry.pw_name, home=_home(entry), other=credentials)


class Accounts:
    """The accounts that one worker gives to its commands."""

    def __init__(self, *, worker: str, allowed: Collection[str], default: str | None = None) -> None:
        """``default``: whom a job without a user runs as, None: the worker's own; it is allowed like those listed."""
        self.worker = worker
        self._restricts_root = bool(allowed) or default is not None
        self._allowed = frozenset(allowed) | ({default} if default else set())
        self._default = default

    def of(self, user: str | None) -> Account:
        """The account for a job's ``user``, None: the default one. RefusedUserError; OSError without descriptors."""
        own = Account.own()
        wanted = user or self._default or own.user
        if wanted == own.user:
            if os.geteuid() == 0 and self._restricts_root and own.user not in self._allowed:
                whose = f'user "{user}"' if user else "a job without a user"
                raise RefusedUserError(
                    f"{whose} would run as {own.user} on worker {self.worker}, which its allowedUsers does not "
                    "name: give the job one of those users, or set defaultUser in the configuration of that worker"
                )
            return own
        user = wanted
        if os.geteuid() != 0:
            raise RefusedUserError(
                f'user "{user}": worker {self.worker} runs as "{own.user}" and cannot become anybody else: '
                f'run that worker as root, with "{user}" in its allowedUsers, or leave out the job\'s user'
            )
        if user not in self._allowed:
            raise RefusedUserError(
                f'user "{user}" is not allowed on worker {self.worker}: add it to allowedUsers in the configuration '
                "of that worker, or change the job's user"
            )
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            # Who cannot open the user database finds no user in it: then this fails too, with the true reason.
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            raise RefusedUserError(
                f'user "{user}" does not exist on the machine of worker {self.worker}: create it there, or change '
                "the job's user"
            ) from None
        return Account.of(entry)


def isolates(allowed: Collection[str], default: str | None) -> bool:
    """Whether no command runs as this process's own user: else a command can read all that the worker can.

    Where it is not root it can become no other user.
    """
    return os.geteuid() == 0 and bool(allowed or default) and "root" not in (*allowed, default)


def is_undecided(allowed: Collection[str], default: str | None) -> bool:
    """Whether commands run as root for want of a configured user; root that is named there is a decision."""
    return os.geteuid() == 0 and not (allowed or default)


def lacking_capabilities(
    allowed: Collection[str], default: str | None, status: str, *, has_secrets: bool
) -> list[str]:  # fmt: skip
    """Those without which commands of other users cannot all be started and ended, where there may be such commands.

    ``status``: /proc/self/status of this process. ``has_secrets``: some may ask for secretFiles.
    """
    if os.geteuid() != 0 or not {*allowed, default} - {"root", None}:
        return []
    held = int(status.partition("\nCapEff:")[2].split(maxsplit=1)[0], 16)
    needed = NEEDED_CAPABILITIES | (_FOR_SECRET_FILES if has_secrets else {})
    return [name for name, bit in needed.items() if not held >> bit & 1]


def _home(entry: pwd.struct_passwd) -> str:
    return entry.pw_dir if os.path.isdir(entry.pw_dir) else "/"
