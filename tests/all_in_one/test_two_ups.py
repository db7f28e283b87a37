"""Two `etcron up` on one etcd, as two users of one machine start them: each with workers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.running_up import running_up

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.logstore]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(usual_etcd(), tmp_path / "etcd")
    yield server
    server.destroy()


async def test_each_waits_for_its_own_worker_and_none_restarts(tmp_path: Path, etcd: EtcdServer) -> None:
    for user in ("one", "two"):
        (tmp_path / user).mkdir()
    async with etcd:
        options = ("--etcd-endpoints", etcd.endpoint)
        async with running_up(tmp_path / "one", *options) as one, running_up(tmp_path / "two", *options) as two:

            async def seen() -> dict[str, str]:
                async with one.http.get(f"{one.url}/api/v1/workers") as answer:
                    return {item["name"]: item["instance"] for item in (await answer.json())["items"]}

            assert len(await seen()) == 2
            assert len(set((await seen()).values())) == 2
            assert len(await two.get("/worker/list")) == 2
            said = [line for line in (one.out + two.out).splitlines() if "action=config.note" not in line]
            assert not any("worker-1" in line for line in said), "neither worker has complained or ended"
