"""`etcron login`, `logout`, `whoami`: a password gets a token, which a profile keeps."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.client import Client, ProblemError, access_path
from cli.errors import CommandError, ExitStatus
from cli.printing import print_json, print_pairs, say, tell, value_text, warn
from cli.profiles import (
    TOKEN_VARIABLE,
    Profile,
    check_writable,
    checked,
    forget,
    keep,
    path_of_profiles,
    read_profiles,
    target,
    token_given,
)
from cli.secret_text import from_stdin, typed


def parser() -> Parser:
    """The command line of the three."""
    group, verbs = add_group("etcron", "Log in at a manager, log out, and see who you are to it.")
    login = add_command(
        verbs, "login", _login, does="log in with a password, and keep a token in a profile",
        examples=(
            "etcron login --user alice --server https://etcron.example:8070",
            "etcron login --profile production --server https://etcron.example:8070 --token-stdin < token",
        ),
    )  # fmt: skip
    login.add_argument("--user", metavar="NAME", help="who you are there (your name on this machine)")
    login.add_argument("--days", type=count(1, 365), default=30, metavar="N", help="how long the login is good (30)")
    secret = login.add_mutually_exclusive_group()
    secret.add_argument("--password-stdin", action="store_true", help="the password is the first line of stdin")
    secret.add_argument(
        "--token-stdin", action="store_true", help="keep the token in the first line of stdin, e.g. of the console"
    )
    logout = add_command(
        verbs, "logout", _logout, does="revoke the token of a profile, and forget it", examples=("etcron logout",)
    )  # fmt: skip
    whoami = add_command(
        verbs, "whoami", _whoami, does="show who you are, and what you may do", examples=("etcron whoami",)
    )  # fmt: skip
    add_output(whoami)
    for command in (login, logout, whoami):
        add_server(command)
    return group


def _login(arguments: argparse.Namespace) -> int:
    chosen = target(arguments, may_be_new=True)
    server = ",".join(chosen.servers)
    check_writable()
    if arguments.token_stdin:
        token, user = checked(from_stdin("--token-stdin"), "stdin"), None
    else:
        user = arguments.user or (chosen.profile.user if chosen.profile else None) or getpass.getuser()
        with Client(chosen.servers, ca=chosen.ca) as client:
            client.refuse_open_way("your password")
            _refuse_where_no_password(client)
            password = _password(arguments, user)
            with opened(client, user, password) as session:
                wish = {"name": _token_name(), "days": arguments.days}
                token = checked(str(client.post("/api/v1/tokens", wish, session)["token"]), "the answer")
                old = chosen.profile
                if old is not None and old.token_id is not None and old.server == server:
                    with contextlib.suppress(CommandError):
                        client.call("DELETE", access_path("tokens", old.token_id), headers=session)
    profile = Profile(name=chosen.name, server=server, ca=chosen.ca, token=token, user=user)
    with Client.by_profile(profile) as client:
        who = client.get("/api/v1/whoami")  # whether it is good
    keep(profile)
    tell(f"you are {who['name']} at {server} ({', '.join(who['roles']) or 'without any role'})")
    say(f"profile {chosen.name}, in {path_of_profiles()}")
    if token_given() is not None:
        warn([f"{TOKEN_VARIABLE} is set, and comes before any profile"])
    return ExitStatus.OK


@contextmanager
def opened(client: Client, user: str, password: str) -> Iterator[dict[str, str]]:
    """The headers of a session, which is over at the end. CommandError: the name or the password is wrong."""
    try:
        answer = client.post("/api/v1/login", {"name": user, "password": password}, {"X-Etcron": "1"})
    except ProblemError as error:
        raise CommandError(f"{user} was not let in: {error}", error.status) from error
    headers = {
        "Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items()),
        "X-Etcron": "1", "X-Etcron-Session": str(answer["csrf"]),
    }  # fmt: skip
    try:
        yield headers
    finally:
        with contextlib.suppress(CommandError):
            client.post("/api/v1/logout", {}, headers)


def _refuse_where_no_password(client: Client) -> None:
    offered = client.get("/api/v1/login")
    if not offered.get("password", True):
        message = "this manager takes no passwords: make a token in the console, and keep it with --token-stdin"
        raise CommandError(message, ExitStatus.NO)


def _password(arguments: argparse.Namespace, user: str) -> str:
    if arguments.password_stdin:
        return from_stdin("--password-stdin")
    return typed(f"password of {user}", option="--password-stdin")


def _token_name() -> str:
    """What its owner knows it by, in the list of tokens."""
    name = f"etcron login {getpass.getuser()}@{socket.gethostname()}"
    return re.sub(r"[^A-Za-z0-9 ._@+/-]", "-", name)[:80]


def _logout(arguments: argparse.Namespace) -> int:
    chosen = target(arguments)
    profile = read_profiles().get(chosen.name)
    if profile is None or profile.token_id is None:
        raise CommandError(f"profile {chosen.name} holds no login", ExitStatus.NOT_FOUND)
    try:
        with Client.by_profile(profile) as client:
            client.call("DELETE", access_path("tokens", profile.token_id))
    except CommandError as error:
        if error.status not in (ExitStatus.NOT_FOUND, ExitStatus.NOT_ALLOWED):
            forget(profile.name)
            warn([f"the token is forgotten here, and may still be good: {error}. Revoke it in the console"])
            return error.status
    forget(profile.name)
    tell(f"logged out of {profile.server}")
    return ExitStatus.OK


def _whoami(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        who = client.get("/api/v1/whoami")
    if arguments.output == "json":
        print_json(who)
        return ExitStatus.OK
    print_pairs(
        [
            ("name", str(who.get("name"))), ("via", str(who.get("via"))),
            ("roles", ", ".join(who.get("roles") or ()) or "-"),
            ("counts as", ", ".join(who.get("subjects") or ()) or "-"),
            ("auth", value_text(who.get("auth"))),
        ]
    )  # fmt: skip
    return ExitStatus.OK
