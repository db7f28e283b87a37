"""Root writes nothing where another user decides what stands there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.errors import CommandError, ExitStatus
from cli.places import refuse_others_place
from cli.profiles import Profile, keep

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="of root alone")


def test_a_home_of_another_user_and_a_way_through_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    home.mkdir()
    os.chown(home, 1, 1)
    (home / ".config").symlink_to(elsewhere)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(CommandError, match=r"is not root's alone \(of daemon\).*sudo -H") as refused:
        keep(Profile(name="default", server="http://127.0.0.1:1", token="t"))
    assert refused.value.status == ExitStatus.REFUSED
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_mode & 0o777 == 0o755, "it had been closed to others through the link"


def test_a_folder_that_others_may_write_is_refused_but_for_one_where_each_has_his_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    refuse_others_place(tmp_path / "not" / "there", "go")
    tmp_path.chmod(0o777)
    with pytest.raises(CommandError, match="others may write"):
        refuse_others_place(tmp_path / "not" / "there", "go")
