"""Where a webhook may go: public addresses, and the networks that the administrator has named."""

from __future__ import annotations

import pytest

from manager.http.outgoing import Reach, refusal_of

INNER = [
    "127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:7f00:1::",
    "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INNER)
def test_an_inner_address_is_refused(address: str) -> None:
    assert Reach().refusal(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "example.org"])
def test_public_addresses_and_names_are_not(address: str) -> None:
    assert Reach().refusal(address) is None


def test_a_network_that_is_named_is_reached_and_its_neighbours_are_not() -> None:
    reach = Reach.of(["10.20.0.0/16", "fd00:1::/32"])
    assert reach.refusal("10.20.3.4") is None
    assert reach.refusal("fd00:1::7") is None
    assert reach.refusal("10.21.0.1")
    assert reach.refusal("::ffff:10.20.3.4")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "http://", "http:///x", "https://user:pw@example.org/",
        "http://127.0.0.1:8070/x", "http://[::1]/", "http://localhost/", "http://a.localhost/", "http://exa mple.org/",
        "http://example.org:99999/", "gopher://8.8.8.8", "//example.org", "http://example.org\\@127.0.0.1/",
    ],
)  # fmt: skip
def test_a_url_that_is_none_or_leads_inside_is_refused_before_anything_is_looked_up(url: str) -> None:
    assert refusal_of(url, Reach())


def test_other_urls_are_not() -> None:
    assert refusal_of("https://hooks.example.org/a?b=c", Reach()) is None
    assert refusal_of("http://127.0.0.1:9/", Reach.of(["127.0.0.0/8"])) is None
