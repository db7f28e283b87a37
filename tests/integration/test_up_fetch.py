"""An etcd that is fetched from Debian: what `etcron up` says where it cannot be had, and how long it waits for it."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.processes.embedded import fetch, fetched_etcd, place_of
from tests.support.etcd_server import VERSIONS, etcd_of

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get here")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A network that takes what is sent, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


async def test_without_a_network_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    place = tmp_path / "place"

    why = await fetch(place, asyncio.Event())

    assert why.startswith("etcd 3.5: Debian's cannot be had: E: ")
    assert "; etcd 3.4: Debian's cannot be had: E: " in why
    assert fetched_etcd(place) is None


@pytest.mark.usefixtures("silent")
async def test_it_is_given_up_after_its_limit(tmp_path: Path) -> None:
    assert await fetch(tmp_path, asyncio.Event(), limit_s=0.5) == "it took more than 0.5 s"


@pytest.mark.usefixtures("silent")
async def test_a_stop_ends_it(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    fetching = asyncio.ensure_future(fetch(tmp_path, stopping, limit_s=600))
    stopping.set()
    async with asyncio.timeout(60):
        assert await fetching == "it was stopped"


async def test_one_that_is_there_is_taken_as_it_is(tmp_path: Path) -> None:
    for series in ("3.4", "3.5"):
        program = tmp_path / f"etcd-{series}" / "etcd"
        program.parent.mkdir()
        program.touch(mode=0o755)
        assert await fetch(tmp_path, asyncio.Event()) == ""
        assert fetched_etcd(tmp_path) == str(program)


def test_of_a_checkout_it_lies_beside_the_tools() -> None:
    assert place_of({}) == Path(__file__).parents[2] / ".tools" / "up"


def test_what_the_tests_have_fetched_is_not_taken() -> None:
    ours = place_of({})
    assert [series for series in VERSIONS if (binary := etcd_of(series)) and binary.is_relative_to(ours)] == []
