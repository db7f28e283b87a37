"""The log store behind TLS: a real handshake, with the certificate believed and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UnavailableError
from common.runlog import RunLog
from common.tls import server_context
from tests.support.certificates import Authority
from tests.support.log_store import LogStoreServer
from tests.support.tls_proxy import TlsProxy

pytestmark = pytest.mark.logstore


async def test_the_log_store_is_reached_with_tls(own_store: LogStoreServer, database: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("store", "127.0.0.1")
    async with TlsProxy(f"127.0.0.1:{own_store.port}", server_context(pair.cert, pair.key)) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?tls=true&tlsCAFile={authority.ca}"
        async with RunLog(uri, database=database) as log:
            await log.prepare()
            assert await log.ping()
        assert proxy.handshakes > 0


async def test_a_certificate_of_somebody_else_is_not_believed(own_store: LogStoreServer, tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path / "ours"), Authority(tmp_path / "foreign")
    pair = foreign.pair("store", "127.0.0.1")
    async with TlsProxy(f"127.0.0.1:{own_store.port}", server_context(pair.cert, pair.key)) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?tls=true&tlsCAFile={ours.ca}"
        async with RunLog(uri, connect_timeout_ms=500) as log:
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                await log.ping()
        assert proxy.handshakes == 0
