"""TLS to a real etcd, with certificates made here: what works, and what is said where it does not."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from common.clock import SystemClock
from common.errors import ConfigError, UnavailableError
from common.etcd import Change, EtcdClient, Mirror, Session, check_access
from common.protocol.permissions import of_worker
from common.tls import TlsFiles
from manager.cluster.gateways import Gateways, _lets_in
from tests.support.background import running
from tests.support.certificates import Authority, Pair
from tests.support.etcd_server import EtcdServer
from tests.support.stopping_member import stopping_member
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd


@dataclass(frozen=True, slots=True)
class Secured:
    """An etcd with TLS that asks for client certificates, and who has signed what."""

    server: EtcdServer
    ours: Authority
    foreign: Authority
    client: Pair

    @property
    def url(self) -> str:
        return f"https://{self.server.endpoint}"

    @property
    def files(self) -> TlsFiles:
        return self.ours.files(self.client)


@pytest.fixture(scope="module")
def secured(etcd_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    ours, foreign = Authority(directory / "ours"), Authority(directory / "foreign")
    own, client = ours.pair("etcd", "127.0.0.1", "etcd.test"), ours.pair("client")
    flags = ("--cert-file", own.cert, "--key-file", own.key, "--trusted-ca-file", ours.ca, "--client-cert-auth")
    server = EtcdServer(etcd_binary, directory / "data", arguments=tuple(map(str, flags)), tls=ours.context(client))
    asyncio.run(server.start())
    yield Secured(server, ours, foreign, client)
    server.destroy()


@pytest.fixture
async def tls_client(secured: Secured) -> AsyncIterator[EtcdClient]:
    async with EtcdClient([secured.url], tls=secured.files, clock=SystemClock()) as client:
        yield client


async def test_calls_leases_and_watches_work_with_tls(secured: Secured, tls_client: EtcdClient, prefix: str) -> None:
    await check_access(tls_client, of_worker(prefix))
    told: list[Change] = []
    mirror = Mirror(tls_client, prefix, told.extend, clock=SystemClock())
    async with running(mirror.run()):
        session = await Session.open(
            tls_client, key_of=lambda lease: f"{prefix}{lease}", value=b"", ttl=5, clock=SystemClock()
        )
        await wait_until(lambda: bool(told), description="the mirror has told of the session's key")
        assert await session._keep_alive()
        await session.close()
    assert (await tls_client.status()).endpoint == secured.server.endpoint
    assert await tls_client.get(session.key) is None


async def test_another_name_in_the_certificate_can_be_asked_for(secured: Secured) -> None:
    files = secured.ours.files(secured.client, server_name="etcd.test")
    async with EtcdClient([secured.url], tls=files, clock=SystemClock()) as client:
        assert await client.get("/nothing") is None


async def test_gateway_that_asks_for_a_certificate_is_closed_and_asked_once(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AsyncMock(side_effect=_lets_in)
    monkeypatch.setattr("manager.cluster.gateways._lets_in", asked)
    gateways = Gateways([secured.url])
    await gateways.look()
    await gateways.look()
    assert (gateways.open, asked.await_count) == ((), 1)


Wrong = Callable[[Secured], tuple[str, TlsFiles | None]]


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        pytest.param(
            lambda s: (s.url, TlsFiles(ca=s.foreign.ca, cert=s.client.cert, key=s.client.key)),
            "etcdTls.ca", "is not signed by", id="wrong-ca",
        ),
        pytest.param(
            lambda s: (s.url, s.ours.files(s.client, server_name="other.test")),
            "etcdTls.serverName", "not made out for other.test", id="wrong-name",
        ),
        pytest.param(
            lambda s: (s.url, s.ours.files()), "etcdTls.cert", "asks for a client certificate", id="no-certificate",
        ),
        pytest.param(
            lambda s: (s.url, s.ours.files(s.foreign.pair("client"))),
            "etcdTls.cert", "does not accept the client certificate", id="foreign-certificate",
        ),
        pytest.param(
            lambda s: (s.server.endpoint, None), "etcdEndpoints", "speaks TLS; write https://", id="plain-to-tls",
        ),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_with_the_key_to_mend(
    secured: Secured, wrong: Wrong, field: str, words: str
) -> None:
    endpoint, files = wrong(secured)
    async with EtcdClient([endpoint], timeout=3, tls=files, clock=SystemClock()) as client:
        with pytest.raises(UnavailableError, match=words):
            await client.put("a", b"")
        with pytest.raises(ConfigError, match=words) as refused:
            await check_access(client, of_worker("/etcron"))
    assert [problem.field for problem in refused.value.problems] == [field]


async def test_tls_to_an_etcd_without_is_said(secured: Secured, shared_etcd: EtcdServer) -> None:
    url = f"https://{shared_etcd.endpoint}"
    async with EtcdClient([url], timeout=3, tls=secured.files, clock=SystemClock()) as client:
        with pytest.raises(UnavailableError, match="does not speak TLS; write http://"):
            await client.get("a")
        with pytest.raises(ConfigError, match="etcdEndpoints"):
            await check_access(client, of_worker("/etcron"))


async def test_a_certificate_of_etcd_that_has_expired_is_said_and_waited_for(etcd_binary: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    old, good = authority.pair("old", "127.0.0.1", expired=True), authority.pair("good", "127.0.0.1")
    shutil.copy(old.cert, tmp_path / "etcd.pem")
    shutil.copy(old.key, tmp_path / "etcd.key")
    flags = ("--cert-file", tmp_path / "etcd.pem", "--key-file", tmp_path / "etcd.key")
    context = authority.context()
    context.check_hostname = False
    server = EtcdServer(etcd_binary, tmp_path / "data", arguments=tuple(map(str, flags)), tls=context)
    server.launch()
    try:
        async with EtcdClient(
            [f"https://{server.endpoint}"], timeout=2, tls=authority.files(), clock=SystemClock()
        ) as client:
            await wait_until(lambda: _says(client, "has expired"), description="etcd shows its old certificate")
            await check_access(client, of_worker("/etcron"))  # not this configuration's fault
            shutil.copy(good.cert, tmp_path / "etcd.pem")
            shutil.copy(good.key, tmp_path / "etcd.key")
            await server.wait_ready()  # etcd reads them anew for each connection
            await wait_until(lambda: _works(client), description="the renewed certificate is believed")
    finally:
        server.destroy()


async def test_renewed_certificates_of_ours_are_used_without_a_restart(secured: Secured, tmp_path: Path) -> None:
    bad = secured.foreign.pair("client")
    files = TlsFiles(ca=secured.ours.ca, cert=tmp_path / "c.pem", key=tmp_path / "c.key")
    _copy(bad, files)
    async with EtcdClient([secured.url], timeout=2, tls=files, clock=SystemClock()) as client:
        with pytest.raises(UnavailableError):
            await client.get("a")
        _copy(secured.client, files)
        await wait_until(lambda: _works(client), description="the new certificate is used")


async def test_calls_that_a_stopping_member_still_answers_outlive_the_renewal_of_certificates(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = TlsFiles(ca=secured.ours.ca, cert=tmp_path / "c.pem", key=tmp_path / "c.key")
    _copy(secured.client, files)
    async with stopping_member(secured.ours) as member, EtcdClient([member.url], tls=files, timeout=3) as client:
        asked = asyncio.create_task(client.get("slow"))
        stream = await client.watch_stream()
        watched = asyncio.create_task(stream.read())
        await wait_until(lambda: member.calls == 2, description="the member has both")
        member.stop()
        _copy(secured.client, files)  # their times are others now

        async def looks_at_the_files() -> bool:
            assert not await _works(client), "it takes no connection any more"
            return "certificates for etcd were read again" in caplog.text

        await wait_until(looks_at_the_files, description="the certificates are renewed")
        member.answer()
        assert await asked is None
        await watched


def _copy(pair: Pair, files: TlsFiles) -> None:
    assert files.cert is not None
    assert files.key is not None
    shutil.copy(pair.cert, files.cert)
    shutil.copy(pair.key, files.key)


async def _works(client: EtcdClient) -> bool:
    try:
        await client.get("a")
    except UnavailableError:
        return False
    return True


async def _says(client: EtcdClient, words: str) -> bool:
    try:
        await client.get("a")
    except UnavailableError as error:
        return words in str(error)
    return False


@pytest.mark.parametrize("endpoints", [["https://a:1", "b:1"], ["http://a:1"]])
def test_endpoints_without_tls_are_refused_where_tls_is_given(secured: Secured, endpoints: list[str]) -> None:
    with pytest.raises(ConfigError, match="without TLS"):
        EtcdClient(endpoints, tls=secured.files)
