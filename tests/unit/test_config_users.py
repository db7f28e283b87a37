"""The list of users in a worker's configuration."""

from __future__ import annotations

import pytest

from common.configuration.keys import UnfitError
from common.configuration.tables import SystemUsers

USERS = SystemUsers()


def test_reads_text() -> None:
    assert USERS.read("backup, www-data,Ann_1") == ("backup", "www-data", "Ann_1")
    assert USERS.read("") == ()


@pytest.mark.parametrize("value", ["backup", ["a b"], [""], [1], ["*"], ["-x"], ["a:b"], {"a": 1}, None])
def test_refuses_what_is_no_list_of_names(value: object) -> None:
    with pytest.raises(UnfitError, match="names of users"):
        USERS.accept(value)
