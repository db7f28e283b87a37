"""Which users commands may run as on a worker, and what is said where they may not."""

from __future__ import annotations

import os
import pwd

import pytest

from worker.launcher.accounts import (
    Account,
    Accounts,
    Credentials,
    RefusedUserError,
    is_undecided,
    isolates,
    lacking_capabilities,
)
from worker.launcher.unstartable import Attempt

OWN = pwd.getpwuid(os.geteuid()).pw_name
NOBODY = pwd.getpwnam("nobody")


def accounts(*allowed: str, default: str | None = None) -> Accounts:
    return Accounts(worker="w1", allowed=allowed, default=default)


def test_account_of_an_unknown_user_id_lives_in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 987_654_321)
    assert Account.own() == Account(user="987654321", home="/")


def test_nothing_is_changed_for_the_workers_own_user() -> None:
    assert accounts().of(None) == accounts().of(OWN) == Account.own()
    assert Account.own().other is None


def test_another_user_comes_with_its_groups_and_home() -> None:
    home = NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/"
    groups = tuple(os.getgrouplist("nobody", NOBODY.pw_gid))
    other = Credentials(uid=NOBODY.pw_uid, gid=NOBODY.pw_gid, groups=groups)
    assert Account.of(NOBODY) == Account(user="nobody", home=home, other=other)


@pytest.mark.parametrize(
    ("euid", "allowed", "user", "words"),
    [
        pytest.param(0, (), "nobody", "is not allowed on worker w1: add it to allowedUsers", id="nobody is allowed"),
        pytest.param(0, ("backup",), "nobody", "is not allowed on worker w1", id="somebody else is"),
        pytest.param(0, ("NOBODY",), "nobody", "is not allowed on worker w1", id="another case"),
        pytest.param(0, (), "no-such-user", "is not allowed on worker w1", id="not allowed and unknown"),
        pytest.param(0, ("no-such-user",), "no-such-user", "does not exist on the machine of worker w1", id="unknown"),
        pytest.param(0, ("0",), "0", "does not exist on the machine of worker w1", id="a number is no name"),
        pytest.param(NOBODY.pw_uid, ("root",), "root", 'worker w1 runs as "nobody"', id="the worker is not root"),
    ],
)
def test_other_users_are_refused_with_what_to_change(
    monkeypatch: pytest.MonkeyPatch, euid: int, allowed: tuple[str, ...], user: str, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    if user == pwd.getpwuid(euid).pw_name:
        pytest.skip("this is the worker's own user")
    with pytest.raises(RefusedUserError) as refused:
        accounts(*allowed).of(user)
    assert f'user "{user}"' in str(refused.value)
    assert words in str(refused.value)


AS_ROOT = [
    # allowed, default, the job's user, who runs it (None: it is refused)
    ((), None, None, "root"),
    ((), None, "root", "root"),
    (("nobody",), None, None, None),
    (("nobody",), None, "root", None),
    (("nobody",), None, "nobody", "nobody"),
    (("nobody", "root"), None, None, "root"),
    (("nobody", "root"), None, "root", "root"),
    (("root",), "nobody", None, "nobody"),
    (("daemon",), "nobody", None, "nobody"),
    (("daemon",), "nobody", "nobody", "nobody"),
    (("daemon",), "nobody", "root", None),
    (("daemon",), "root", None, "root"),
    ((), "nobody", None, "nobody"),
    ((), "nobody", "root", None),
    ((), "root", "root", "root"),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize(("allowed", "default", "user", "runs_as"), AS_ROOT)
def test_root_runs_a_job_only_where_nothing_is_listed_or_it_is(
    allowed: tuple[str, ...], default: str | None, user: str | None, runs_as: str | None
) -> None:
    if runs_as is not None:
        assert accounts(*allowed, default=default).of(user).user == runs_as
        return
    with pytest.raises(RefusedUserError, match=r"would run as root on worker w1, .* set defaultUser"):
        accounts(*allowed, default=default).of(user)


def test_default_user_of_a_worker_that_is_not_root_is_its_own_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY.pw_uid)
    assert accounts("root", default="nobody").of(None) == Account.own()
    with pytest.raises(RefusedUserError, match="cannot become anybody else"):
        accounts(default="daemon").of(None)


@pytest.mark.parametrize(
    ("euid", "allowed", "default", "undecided", "isolated"),
    [
        (0, (), None, True, False), (0, (), "nobody", False, True), (0, ("nobody",), None, False, True),
        (0, ("root",), "nobody", False, False), (0, (), "root", False, False), (1000, (), None, False, False),
    ],
)  # fmt: skip
def test_a_worker_of_root_asks_as_whom_commands_run_unless_somebody_has_decided_it(
    monkeypatch: pytest.MonkeyPatch, euid: int, allowed: tuple[str, ...], default: str | None, undecided: bool,
    isolated: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    assert (is_undecided(allowed, default), isolates(allowed, default)) == (undecided, isolated)


@pytest.mark.parametrize(
    ("euid", "allowed", "default", "held", "lacking"),
    [
        (0, ("nobody",), None, "000001ffffffffff", []),
        (0, ("nobody",), None, "00000000a80425fb", ["CAP_SYS_PTRACE"]),  # as Docker gives them
        (0, (), "nobody", "00000000000000c0", ["CAP_KILL", "CAP_SYS_PTRACE"]),
        (0, ("root",), None, "0000000000000000", []),
        (0, (), None, "0000000000000000", []),
        (1000, ("nobody",), None, "0000000000000000", []),
    ],
)
def test_capabilities_are_missed_only_where_commands_may_run_as_other_users(
    monkeypatch: pytest.MonkeyPatch, euid: int, allowed: tuple[str, ...], default: str | None, held: str,
    lacking: list[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    status = f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{held}\nCapBnd:\t000001ffffffffff\n"
    assert lacking_capabilities(allowed, default, status, has_secrets=False) == lacking


@pytest.mark.parametrize(("allowed", "lacking"), [(("nobody",), ["CAP_CHOWN"]), (("root",), [])])
def test_a_worker_with_secrets_misses_what_gives_files_to_other_users(
    monkeypatch: pytest.MonkeyPatch, allowed: tuple[str, ...], lacking: list[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    status = "Name:\tpython\nCapEff:\t000001fffffffffe\n"
    assert lacking_capabilities(allowed, None, status, has_secrets=True) == lacking


def test_who_cannot_become_a_user_is_told_every_capability_that_this_takes() -> None:
    attempt = Attempt(
        arguments=("true",), is_shell=False, worker="w1", user="nobody", is_other_user=True, directory="/",
        named_by=None, path="/usr/bin",
    )  # fmt: skip
    assert str(attempt.why_not(PermissionError(1, "Operation not permitted"), "user")) == (
        'worker w1 cannot become user "nobody": [Errno 1] Operation not permitted: it needs the capabilities '
        "CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE"
    )
