"""How often somebody may try to log in; memory is bounded, and nobody is locked out for good."""

from __future__ import annotations

import pytest

from manager.access.backoff import MOST_KNOWN, Backoff, Tries
from manager.http.errors import RequestError
from tests.support.fake_clock import FakeClock


def fail(backoff: Backoff, times: int, *, account: str | None = "alice", address: str = "10.0.0.{}") -> None:
    for number in range(times):
        backoff.begin(account=account, address=address.format(number))


def refused(backoff: Backoff, *, address: str = "10.1.1.1", account: str = "alice", device: str | None = None) -> int:
    """After how many seconds it may be tried again; 0: now."""
    try:
        backoff.begin(account=account, address=address, device=device)
    except RequestError as error:
        return (error.retry_s or 0) if error.status == 429 else -1
    return 0


def test_account_has_ten_tries_and_then_one_each_half_minute() -> None:
    clock = FakeClock()
    backoff = Backoff(clock=clock)
    fail(backoff, 10)
    assert refused(backoff) == 30
    clock.advance(30_000)
    assert refused(backoff) == 0
    assert refused(backoff) == 30
    assert refused(backoff, account="bob") == 0


def test_all_tries_are_there_again_after_a_while() -> None:
    clock = FakeClock()
    backoff = Backoff(clock=clock)
    fail(backoff, 10)
    clock.advance(300_000)
    fail(backoff, 10)
    assert refused(backoff) == 30


def test_attack_failing_at_an_account_from_one_address_locks_its_user_out_elsewhere() -> None:
    clock = FakeClock()
    backoff = Backoff(clock=clock)
    tried = 0
    for _ in range(3_600):  # an hour, and each second as often as it is let
        clock.advance(1_000)
        tried += refused(backoff, address="10.0.0.1") == 0
        backoff.begin(account="alice", address="10.1.1.1").give_back()
    assert 8 + 3_600 // 40 - 1 <= tried <= 8 + 3_600 // 40


def test_tries_that_succeed_are_not_counted() -> None:
    backoff = Backoff(clock=FakeClock())
    for _ in range(100):
        backoff.begin(account="alice", address="10.0.0.1").give_back()
    assert refused(backoff) == 0


def test_device_that_is_known_is_not_locked_out_by_others_but_has_an_end_of_its_own() -> None:
    backoff = Backoff(clock=FakeClock())
    fail(backoff, 10)
    assert [refused(backoff, device="d") for _ in range(11)] == [0] * 10 + [30]


def test_device_whose_tries_somebody_has_used_up_counts_as_any_other() -> None:
    backoff = Backoff(clock=FakeClock())
    assert [refused(backoff, device="d") for _ in range(19)] == [0] * 18 + [40]


def test_addresses_of_one_ipv6_network_count_together() -> None:
    backoff = Backoff(clock=FakeClock())
    for number in range(30):
        backoff.begin(account=f"user{number}", address=f"2001:db8:0:1::{number:x}")
    assert refused(backoff, address="2001:db8:0:1:ffff::1", account="another") == 2
    assert refused(backoff, address="2001:db8:0:2::1", account="another") == 0


def test_attack_invented_names_from_the_networks_of_one_ipv6_site_have_no_account_forgotten() -> None:
    """A /48 has 65,536 networks with 30 tries each: names enough for an account to lose its count of failures."""
    backoff = Backoff(clock=FakeClock())
    fail(backoff, 10)
    for number in range(MOST_KNOWN):
        refused(backoff, address=f"2001:db8:0:{number // 30:x}::1", account=f"name{number}")
    assert refused(backoff) == 30
    assert refused(backoff, address="2001:db8:1::1", account="bob") == 0, "another site is none of theirs"


def test_attack_names_without_end_fill_the_memory() -> None:
    tries = Tries(at_once=1, each_s=30, clock=FakeClock(), room=100)
    for number in range(1_000):
        tries.take(f"name{number}")
    assert len(tries) == 100
    assert tries.wait_s("name999") == 30


def test_refusal_says_when_to_try_again() -> None:
    backoff = Backoff(clock=FakeClock())
    fail(backoff, 10)
    with pytest.raises(RequestError, match="too many failed logins"):
        backoff.begin(account="alice", address="10.1.1.1")
