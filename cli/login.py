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
from cli.client import Client, Document, ProblemError, access_path
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
    old, revoked = chosen.profile, False
    if arguments.token_stdin:
        token = checked(from_stdin("--token-stdin"), "stdin")
        profile = Profile(name=chosen.name, server=server, ca=chosen.ca, token=token, user=None)
        who = _kept(profile)
    else:
        user = arguments.user or (old.user if old else None) or getpass.getuser()
        with Client(chosen.servers, ca=chosen.ca) as client:
            client.refuse_open_way("your password")
            _refuse_where_no_password(client)
            password = _password(arguments, user)
            with opened(client, user, password) as session:
                wish = {"name": _token_name(), "days": arguments.days}
                token = checked(str(client.post("/api/v1/tokens", wish, session)["token"]), "the answer")
                profile = Profile(name=chosen.name, server=server, ca=chosen.ca, token=token, user=user)
                try:
                    who = _kept(profile)
                except BaseException:
                    _revoke(client, profile, user, session)  # it was not stored, so the user could not revoke it
                    raise
                if old is not None and sorted(old.servers) == sorted(profile.servers):
                    revoked = _revoke(client, old, user, session)
    if old is not None and old.token_id not in (None, profile.token_id) and not revoked:
        warn([_still_good(old, f"profile {old.name} held it, for {old.server}")])
    tell(f"you are {who['name']} at {server} ({', '.join(who['roles']) or 'without any role'})")
    say(f"profile {chosen.name}, in {path_of_profiles()}")
    if token_given() is not None:
        warn([f"{TOKEN_VARIABLE} is set, and comes before any profile"])
    return ExitStatus.OK


def _kept(profile: Profile) -> Document:
    """Who its token says one is: it is good, and is kept from now on."""
    with Client.by_profile(profile) as client:
        who: Document = client.get("/api/v1/whoami")
    keep(profile)
    return who


def _revoke(client: Client, profile: Profile, user: str, session: dict[str, str]) -> bool:
    """Whether its token is good no more. The session is this user's, and sees no other's tokens."""
    if profile.token_id is None:
        return True
    try:
        client.call("DELETE", access_path("tokens", profile.token_id), headers=session)
    except CommandError as error:
        return _is_gone(error) and profile.user == user
    return True


def _is_gone(error: CommandError) -> bool:
    """Whether a manager has said that there is no such token: a proxy, or a refusal of the caller, does not say so."""
    document = error.document if isinstance(error, ProblemError) else {}
    return document.get("code") == "not-found" or document.get("detailCode") == "token-invalid"


def _still_good(profile: Profile, why: object) -> str:
    revoke = f"revoke it in the console, or with `etcron token revoke {profile.token_id}`"
    return f"token {profile.token_id} is forgotten here, and may still be good: {why}; {revoke}"


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
        if not _is_gone(error):
            forget(profile)
            answered = error.document.get("detail") if isinstance(error, ProblemError) else None
            warn([_still_good(profile, answered or error)])
            return error.status
    forget(profile)
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
