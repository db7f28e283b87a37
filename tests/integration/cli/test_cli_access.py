"""Who may do what, from the command line: logging in, profiles, users, tokens, bindings."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from cli.errors import CommandError
from cli.profiles import Credential, Profile
from common.access.rights import Role
from manager.http.unix_socket import UnixSocketSite, unix_socket
from tests.integration.cli.conftest import Etcron
from tests.support.access import Accessing, kept_of
from tests.support.managing import Managed, Place, managing

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

PASSWORD: Final = "three words in a row"


@pytest.fixture
async def manager(place: Place) -> AsyncIterator[Managed]:
    """One that asks everybody who they are, with the administrator root."""
    async with managing(place, auth="required") as managed:
        kept = await kept_of(PASSWORD)
        await Accessing(managed).user("root", Role.ADMIN, password=kept)
        yield managed


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of somebody who has not logged in anywhere; its path is short enough for a socket."""
    for variable in ("ETCRON_TOKEN", "ETCRON_PROFILE", "ETCRON_CA"):
        monkeypatch.delenv(variable, raising=False)
    with tempfile.TemporaryDirectory(prefix="etcron-", dir="/tmp") as path:
        monkeypatch.setenv("HOME", path)
        yield Path(path)


@pytest.fixture
async def in_(etcron: Etcron, home: Path) -> Etcron:
    """The command, of somebody who has logged in as root."""
    await etcron.ok("login", "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")
    return etcron


def kept(home: Path) -> dict[str, Any]:
    profiles: dict[str, Any] = json.loads((home / ".config/etcron/config.json").read_text())["profiles"]
    return profiles


# Logging in


async def test_who_has_not_logged_in_is_told_to(etcron: Etcron, home: Path) -> None:
    for line in (("job", "list"), ("user", "list"), ("token", "list"), ("whoami",)):
        result = await etcron(*line)
        assert result.status == 7, line
        assert "etcron login" in result.err
        assert result.out == ""


async def test_login_lets_further_commands_in_until_logout(etcron: Etcron, home: Path) -> None:
    said = await etcron.ok("login", "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert "you are root (token etcron login" in said.out
    assert (await etcron.ok("whoami", "-o", "json")).json["user"] == "user:root"
    await etcron.ok("job", "list")
    token = kept(home)["default"]["token"]
    assert (await etcron.ok("logout")).out.startswith("logged out of http")
    assert kept(home) == {}
    assert (await etcron("job", "list")).status == 7
    etcron.monkeypatch.setenv("ETCRON_TOKEN", token)
    assert (await etcron("job", "list")).status == 7, "the token is revoked, not only forgotten"


async def test_login_leaves_no_session_and_no_second_token_behind(etcron: Etcron, home: Path) -> None:
    for _ in range(3):
        await etcron.ok("login", "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")
    names = [token["name"] for token in (await etcron.ok("token", "list", "-o", "json")).json]
    assert len([name for name in names if name.startswith("etcron login")]) == 1
    assert (await etcron.ok("session", "list", "-o", "json")).json == []


async def test_login_whose_token_cannot_be_kept_leaves_the_former_one(
    in_: Etcron, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(profile: Profile) -> None:
        raise CommandError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("cli.login.keep", full)
        assert (await in_("login", "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")).status != 0
    names = [token["name"] for token in (await in_.ok("token", "list", "-o", "json")).json]
    assert len([name for name in names if name.startswith("etcron login")]) == 1


async def test_login_over_the_token_of_another_server_says_that_it_stays_good(in_: Etcron, home: Path) -> None:
    far = kept(home)["default"] | {"server": "https://far.example:8070"}
    (home / ".config/etcron/config.json").write_text(json.dumps({"profiles": {"default": far}}))
    said = await in_.ok("login", "--server", in_.server, "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert f"etcron token revoke {far['token'].split('_')[1]}" in said.err
    assert "https://far.example:8070" in said.err


async def test_logout_of_a_user_who_is_disabled_just_now_does_not_say_that_the_token_is_gone(
    in_: Etcron, manager: Managed, home: Path
) -> None:
    token_id = kept(home)["default"]["token"].split("_")[1]
    await Accessing(manager).change_user("root", disabled=True)
    said = await in_("logout")
    assert (said.status, kept(home)) == (7, {})
    assert f"token {token_id} is forgotten here, and may still be good: the token is not valid: user:root" in said.err


async def test_token_is_kept_where_its_owner_alone_reads_it(in_: Etcron, home: Path) -> None:
    folder = home / ".config/etcron"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


async def test_token_that_others_may_read_is_not_used(in_: Etcron, home: Path) -> None:
    (home / ".config/etcron/config.json").chmod(0o644)
    result = await in_("job", "list")
    assert (result.status, "chmod 600" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("user", "password", "status"), [("root", "wrong one", 7), ("nobody", PASSWORD, 7), ("root", "", 2)]
)
async def test_wrong_password_keeps_nothing(etcron: Etcron, home: Path, user: str, password: str, status: int) -> None:
    result = await etcron("login", "--user", user, "--password-stdin", stdin=f"{password}\n")
    assert result.status == status
    assert PASSWORD not in result.err
    assert not password or password not in result.err
    assert kept(home) == {} if (home / ".config/etcron/config.json").exists() else True


async def test_token_of_the_console_is_kept_with_token_stdin(etcron: Etcron, manager: Managed, home: Path) -> None:
    header = await Accessing(manager).user("alice", Role.VIEWER)
    token = header["Authorization"].removeprefix("Bearer ")
    await etcron.ok("login", "--profile", "web", "--server", etcron.server, "--token-stdin", stdin=f"{token}\n")
    assert (await etcron.ok("whoami", "--profile", "web", "-o", "json")).json["user"] == "user:alice"
    refused = await etcron("login", "--token-stdin", stdin="etcron_nonsense\n")
    assert (refused.status, "nonsense" in refused.err) == (2, False)


async def test_token_in_the_environment_comes_before_the_profile(
    in_: Etcron, manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await Accessing(manager).user("alice", Role.VIEWER)
    monkeypatch.setenv("ETCRON_TOKEN", header["Authorization"].removeprefix("Bearer "))
    assert (await in_.ok("whoami", "-o", "json")).json["user"] == "user:alice"
    monkeypatch.setenv("ETCRON_TOKEN", "etcron_nonsense")
    result = await in_("whoami")
    assert (result.status, "nonsense" in result.err) == (2, False)


async def test_profile_names_its_server(in_: Etcron, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".config/etcron/config.json").write_text(json.dumps({"profiles": {"far": kept(home)["default"]}}))
    monkeypatch.setenv("ETCRON_PROFILE", "far")
    assert (await in_("whoami", server="http://127.0.0.1:1")).status == 0
    assert (await in_("whoami", "--profile", "none")).status == 2
    assert (await in_("whoami", "--profile", "../x")).status == 2


async def test_token_of_a_profile_goes_to_no_other_server(in_: Etcron, place: Place) -> None:
    """Attack: `--server`, or a variable that somebody else has set, draws the token to a server of theirs."""
    async with managing(place, auth="required") as other:  # the same cluster: it would let the token in
        result = await in_("whoami", "--server", str(other.http.make_url("/")))
    assert result.status == 7


async def test_no_secret_goes_over_plain_http_beyond_this_machine(
    in_: Etcron, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: somebody on the way reads what goes by."""
    far = "http://192.0.2.1:8070"
    result = await in_("login", "--server", far, "--user", "root", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert (result.status, "https://" in result.err) == (2, True)
    given = Credential(token=kept(home)["default"]["token"], origin="the token", servers=None)
    with pytest.raises(CommandError, match="https://"):
        given.headers_for(urlsplit(far), far)


# Users, service accounts, tokens, bindings


async def test_team_is_set_up_from_the_command_line(in_: Etcron) -> None:
    await in_.ok("user", "add", "alice", "--group", "dba", "--password-stdin", stdin="another three words\n")
    await in_.ok("user", "add", "bob", "--no-password")
    made = await in_.ok("binding", "add", "group:dba", "editor", "--labels", "team=db", "--labels", "team=web",
                        "--run-as", "postgres", "--workers", "all")  # fmt: skip
    assert "group:dba may see, run, kill, save and delete jobs with team=db|web" in made.out
    assert "run as postgres, on any worker" in made.out
    shown = (await in_.ok("user", "show", "alice")).out
    assert "enabled" in shown
    assert "jobs with team=db|web" in shown
    assert "alice" in (await in_.ok("user", "list")).out
    said = await in_.ok("access", "explain", "--subject", "user:alice", "-o", "json")
    assert said.json["roles"] == ["viewer", "operator", "editor"]
    await in_.ok("job", "save", "backup", "--command", "true", "--cron", "@daily", "--label", "team=db")
    assert "postgres" in (await in_.ok("access", "explain", "--job", "backup")).out
    await in_.ok("user", "set", "alice", "--no-groups", "--disable")
    assert (await in_.ok("user", "show", "alice", "-o", "json")).json["disabled"]
    await in_.ok("user", "set", "alice", "--enable")
    await in_.ok("user", "password", "alice", "--password-stdin", stdin="yet another password\n")
    [binding] = (await in_.ok("binding", "list", "group:dba", "-o", "json")).json
    await in_.ok("binding", "remove", binding["id"])
    assert "alice is removed" in (await in_.ok("user", "remove", "alice", "bob")).out


async def test_service_account_gets_a_token_that_works_until_it_is_revoked(in_: Etcron) -> None:
    await in_.ok("service", "add", "ci", "--description", "deploys")
    assert "deploys" in (await in_.ok("service", "list")).out
    await in_.ok("binding", "add", "service:ci", "viewer", "--labels", "all")
    made = await in_.ok("token", "add", "pipeline", "--owner", "service:ci", "--days", "7")
    token = made.out.strip()
    assert token.startswith("etcron_")
    assert token not in made.err
    assert "ci is disabled" in (await in_.ok("service", "set", "ci", "--disable")).out
    assert "disabled" in (await in_.ok("service", "list")).out
    assert "ci is enabled" in (await in_.ok("service", "set", "ci", "--enable")).out
    [listed] = (await in_.ok("token", "list", "--owner", "service:ci", "-o", "json")).json
    assert token.split("_")[2] not in json.dumps(listed)
    in_.monkeypatch.setenv("ETCRON_TOKEN", token)
    await in_.ok("job", "list")
    assert (await in_("job", "save", "x", "--command", "true", "--cron", "@daily")).status == 7
    in_.monkeypatch.delenv("ETCRON_TOKEN")
    await in_.ok("token", "revoke", listed["id"])
    in_.monkeypatch.setenv("ETCRON_TOKEN", token)
    assert (await in_("job", "list")).status == 7
    in_.monkeypatch.delenv("ETCRON_TOKEN")
    assert "ci is removed, with 1 binding" in (await in_.ok("service", "remove", "ci")).out


async def test_token_of_ones_own_takes_the_password(in_: Etcron) -> None:
    """Attack: whoever has a token for a minute makes another one that lasts."""
    made = await in_.ok("token", "add", "script", "--role", "viewer", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert made.out.startswith("etcron_")
    assert (await in_("token", "add", "script", "--password-stdin", stdin="a wrong one\n")).status == 7


@pytest.mark.parametrize(("line", "status"), [
    ("user remove root", 4), ("user set root --disable", 4), ("user show none", 3), ("user add a/b --no-password", 5),
    ("user set root", 2), ("user add x --no-password --password-stdin", 2), ("binding remove none", 3),
    ("binding add alice viewer --labels all", 5), ("binding add user:alice owner --labels all", 2),
    ("binding add user:alice viewer --labels team", 2), ("binding add user:alice viewer --labels all --labels a=b", 2),
    ("binding add user:alice editor --labels all", 5), ("access explain", 2), ("access explain --job none", 3),
    ("user remove ..", 3), ("token revoke none", 3), ("user add root --no-password", 4),
])  # fmt: skip
async def test_refusal_has_the_status_that_scripts_know(in_: Etcron, line: str, status: int) -> None:
    assert (await in_(*line.split())).status == status


async def test_binding_that_opens_the_unix_socket_warns(in_: Etcron) -> None:
    result = await in_.ok("binding", "add", "uid:1000", "viewer", "--labels", "all")
    assert "each job that runs as uid:1000" in result.err


async def test_password_without_a_terminal_is_asked_of_stdin(in_: Etcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.open", _no_terminal(os.open))
    result = await in_("user", "add", "alice")
    assert (result.status, "--password-stdin" in result.err) == (2, True)


def _no_terminal(really: Any) -> Any:
    def open_(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "/dev/tty":
            raise OSError(6, "no such device")
        return int(really(path, *arguments, **options))

    return open_


# A manager of this machine


@pytest.fixture
def no_server(etcron: Etcron, home: Path, monkeypatch: pytest.MonkeyPatch) -> Etcron:
    """The command, of somebody who names no server; nothing listens where it would be looked for."""
    monkeypatch.setattr("cli.profiles.DEFAULT_SERVER", "http://127.0.0.1:1")
    return Etcron(server="", monkeypatch=monkeypatch)


@asynccontextmanager
async def own_socket(manager: Managed, home: Path) -> AsyncIterator[Path]:
    """Of a manager that was started by `etcron up`."""
    path = home / ".local/share/etcron/run/manager.sock"
    with unix_socket(path) as bound:
        runner = manager.http.server.runner
        assert runner is not None
        site = UnixSocketSite(runner, bound)
        await site.start()
        try:
            yield path
        finally:
            await site.stop()


async def test_socket_of_this_machine_is_asked_where_no_server_is_named(
    no_server: Etcron, manager: Managed, home: Path
) -> None:
    assert (await no_server("whoami")).status == 6
    async with own_socket(manager, home):
        assert (await no_server.ok("whoami", "-o", "json")).json["user"] == f"uid:{os.geteuid()}"
        assert (await no_server("whoami", "--server", "http://127.0.0.1:1")).status == 6
        no_server.monkeypatch.setenv("ETCRON_TOKEN", f"etcron_{'0' * 12}_{'0' * 64}")
        assert (await no_server("whoami")).status == 6, "who gives a token is meant to be known by it"


async def test_server_of_a_login_comes_before_the_socket(
    no_server: Etcron, in_: Etcron, manager: Managed, home: Path
) -> None:
    async with own_socket(manager, home):
        assert (await no_server.ok("whoami", "-o", "json")).json["user"] == "user:root"


async def test_socket_that_a_dead_manager_has_left_is_passed_over(no_server: Etcron, in_: Etcron, home: Path) -> None:
    left = home / ".local/share/etcron/run/manager.sock"
    left.parent.mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(left))
    (home / ".config/etcron/config.json").unlink()
    no_server.monkeypatch.setattr("cli.profiles.DEFAULT_SERVER", in_.server)
    assert (await no_server("whoami")).status == 7, "the manager itself has answered, and asks who this is"


@pytest.mark.parametrize("above", ["run", "."])
async def test_socket_that_others_may_have_put_there_is_not_asked(
    no_server: Etcron, manager: Managed, home: Path, above: str
) -> None:
    """Attack: a socket of another user's, where a manager's would be, learns what jobs are saved."""
    async with own_socket(manager, home) as path:
        (path.parent.parent / above).chmod(0o777)
        assert (await no_server("whoami")).status == 6
