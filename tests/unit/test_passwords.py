"""Which passwords are taken, and what becomes of them."""

from __future__ import annotations

import asyncio

import pytest

from manager.access.passwords import LONGEST, Passwords, TooManyLoginsError

GOOD = "correct horse battery"


async def test_password_is_right_against_its_own_hash_alone() -> None:
    passwords = Passwords()
    kept = await passwords.hash(GOOD)
    assert await passwords.is_right(kept, GOOD)
    assert not await passwords.is_right(kept, GOOD + "x")
    assert not await passwords.is_right(await passwords.hash("another"), GOOD)


async def test_hash_does_not_hold_the_password_and_is_another_each_time() -> None:
    passwords = Passwords()
    first, second = await passwords.hash(GOOD), await passwords.hash(GOOD)
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert first != second
    assert GOOD not in first


async def test_password_that_another_keyboard_spells_differently_is_the_same() -> None:
    passwords = Passwords()
    assert await passwords.is_right(await passwords.hash("pa\u0308sswort"), "p\xe4sswort")


@pytest.mark.parametrize("kept", [None, "", "plain", "$argon2id$v=19$m=1$", "$2b$12$abc"])
async def test_nothing_is_right_where_there_is_no_hash(kept: str | None) -> None:
    """An attacker who tries the empty password, the hash itself, or a name that there is not."""
    passwords = Passwords()
    for tried in ("", kept or "", GOOD, "\ud800"):
        assert not await passwords.is_right(kept, tried)


async def test_name_that_there_is_not_costs_a_comparison_too() -> None:
    """Else the time of an answer says which names there are."""
    passwords = Passwords(most_waiting=0)
    with pytest.raises(TooManyLoginsError):
        await passwords.is_right(None, GOOD)


@pytest.mark.parametrize(("password", "why"), [
    ("", "0 characters"), ("seven77", "7 characters"), ("x" * (LONGEST + 1), "257 characters"),
    ("password1", "most used"), ("PassWord1", "most used"), ("12345678", "most used"),
])  # fmt: skip
async def test_password_that_is_guessed_first_is_refused(password: str, why: str) -> None:
    problem = await Passwords().problem(password, field="password")
    assert problem is not None
    assert why in problem.message
    assert problem.field == "password"
    assert not password or password not in str(problem).replace("passwords", "")


@pytest.mark.parametrize("password", [GOOD, "x" * LONGEST, "ÄÖÜäöü€§", "パスワードパスワード", "        x       "])
async def test_any_other_password_is_taken(password: str) -> None:
    assert await Passwords().problem(password, field="password") is None


async def test_password_that_was_right_before_seems_right_and_others_hardly_ever() -> None:
    passwords = Passwords()
    kept = await Passwords().hash(GOOD)
    assert not passwords.seems_right(kept, GOOD)  # of another process
    assert await passwords.is_right(kept, GOOD)
    assert passwords.seems_right(kept, GOOD)
    assert passwords.seems_right(await passwords.hash(GOOD), GOOD)
    assert not passwords.seems_right(None, GOOD)
    seeming = sum(passwords.seems_right(kept, f"{GOOD} {number}") for number in range(40_960))
    assert 0 < seeming < 50  # of each 4,096 one: what is in memory does not tell the password


async def test_more_than_can_be_checked_are_sent_away() -> None:
    """An attacker who has thousands of passwords checked at once holds up nothing but other logins."""
    passwords = Passwords(most_waiting=3)
    tried = await asyncio.gather(*(passwords.is_right(None, GOOD) for _ in range(10)), return_exceptions=True)
    assert [isinstance(one, TooManyLoginsError) for one in tried] == [False] * 3 + [True] * 7
    assert not await passwords.is_right(None, GOOD)


async def test_hash_of_other_parameters_is_made_anew() -> None:
    passwords = Passwords()
    assert not passwords.is_dated(await passwords.hash(GOOD))
    assert passwords.is_dated("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$FcnBzVPYJ0a3ZuqZJFrcHw")
    assert passwords.is_dated("plain")
