"""`etcron admin`: on a manager's host, with its configuration; no manager has to run, and no login is needed."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
import syslog
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from cli.arguments import Parser, add_command, add_group
from cli.errors import CommandError, ExitStatus
from cli.printing import tell, warn

_T = TypeVar("_T")
_LONGEST_LINE: Final = 4096


def parser() -> Parser:
    """The command line of the group."""
    from common.configuration.flags import add_config_arguments

    group, verbs = add_group(
        "etcron admin", "The first administrator, and the last resort: on a manager's host, with its configuration."
    )
    create = add_command(
        verbs, "create", _create, does="make a user who may do everything; asks for the password",
        examples=(
            "etcron admin create alice --config /etc/etcron/manager.json",
            "etcron admin create alice < password-file",
        ),
    )  # fmt: skip
    create.add_argument("name", metavar="NAME", help="what the user is called")
    create.add_argument("--another", action="store_true", help="even if there is an administrator already")
    recover = add_command(
        verbs, "recover", _recover,
        does="print a link by which a browser may do everything for a quarter of an hour, once; it is recorded",
        examples=("etcron admin recover --config /etc/etcron/manager.json",),
    )  # fmt: skip
    for one in (create, recover):
        add_config_arguments(one, "manager")
    return group


def _create(arguments: argparse.Namespace) -> int:
    from manager.access.recovery import create_administrator

    config = _config(arguments)
    password = _password()
    _carried_out(create_administrator(config, arguments.name, password, another=arguments.another))
    _record(f"{arguments.name} was made an administrator")
    tell(f"{arguments.name} may do everything; they log in with their name and this password")
    return ExitStatus.OK


def _recover(arguments: argparse.Namespace) -> int:
    from manager.access.recovery import RECOVERY_S, recover

    config = _config(arguments)
    secret = _carried_out(recover(config))
    _record("a link was made by which a browser may do everything for a quarter of an hour")
    tell(f"open this within {RECOVERY_S // 60} minutes; it works once, for {RECOVERY_S // 60} minutes:")
    tell(f"  {link_url(config, secret)}")
    return ExitStatus.OK


def link_url(config: Any, secret: str) -> str:
    """Where a one-time link leads; its secret is in the fragment, which browsers do not send."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host.strip("[]"), config.host.strip("[]"))
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if config.tls_cert else 'http'}://{shown}:{config.api_port}/login#link={secret}"


def _config(arguments: argparse.Namespace) -> Any:
    from common.configuration.flags import explain, manager_config_from
    from common.errors import ConfigError

    try:
        return manager_config_from(arguments)
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus.USAGE) from error


def _password() -> str:
    """From the terminal, twice; else the first line that is read. Never an argument: these are for all to read."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(_LONGEST_LINE).removesuffix("\n")
    password = getpass.getpass("password: ")
    if getpass.getpass("again:    ") != password:
        raise CommandError("these are two different passwords; nothing was done", ExitStatus.USAGE)
    return password


def _carried_out(work: Coroutine[Any, Any, _T]) -> _T:
    """What it returns; its errors as those of commands."""
    from common.errors import ConflictError, EtcronError, UnavailableError

    try:
        return asyncio.run(work)
    except ConflictError as error:
        raise CommandError(str(error), ExitStatus.CONFLICT) from error
    except UnavailableError as error:
        raise CommandError(f"etcd: {error}", ExitStatus.UNAVAILABLE) from error
    except (EtcronError, ValueError) as error:
        raise CommandError(str(error), ExitStatus.REFUSED) from error


def _record(what: str) -> None:
    """In the system's log, where etcron's own audit cannot be changed by it."""
    import os

    try:
        syslog.openlog("etcron", syslog.LOG_PID, syslog.LOG_AUTH)
        syslog.syslog(syslog.LOG_NOTICE, f"etcron admin: {what}, by uid {os.getuid()}")
    except OSError as error:
        warn([f"the system's log was not told: {error}"])
