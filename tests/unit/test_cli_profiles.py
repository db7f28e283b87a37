"""What `etcron login` keeps is changed by one command at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from cli.profiles import Profile, forget, keep, path_of_profiles, read_profiles

_AT_ONCE = 8


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def _profile(name: str, token: str = "t") -> Profile:
    return Profile(name=name, server="http://127.0.0.1:1", token=token)


def test_logins_and_logouts_at_the_same_time_lose_nothing_and_bring_nothing_back() -> None:
    old, new = ([_profile(f"{age}-{number}") for number in range(_AT_ONCE)] for age in ("old", "new"))
    for profile in old:
        keep(profile)
    begin = Barrier(2 * _AT_ONCE)

    def change(profile: Profile) -> None:
        begin.wait()
        (forget if profile in old else keep)(profile)

    with ThreadPoolExecutor(2 * _AT_ONCE) as threads:
        list(threads.map(change, [*old, *new]))
    assert read_profiles() == {profile.name: profile for profile in new}
    folder = path_of_profiles().parent
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "config.json": 0o600, ".config.lock": 0o600,
    }  # fmt: skip


def test_a_logout_leaves_the_login_that_came_in_its_place() -> None:
    keep(_profile("default", "another"))
    forget(_profile("default"))
    assert read_profiles() == {"default": _profile("default", "another")}
