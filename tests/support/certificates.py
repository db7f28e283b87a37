"""Certificates made in the test: an authority, and what it signs for servers and for clients."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from common.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (with its chain) and its key."""

    cert: Path
    key: Path


class Authority:
    """One that nobody else trusts; its files lie in the directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self._directory = directory
        self.ca = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def pair(self, name: str, *identities: str, expired: bool = False, early: bool = False) -> Pair:
        """Signed for these names and addresses, for servers and clients; it overwrites one of the same name."""
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        until = now - day if expired else None
        since = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) if expired else now + day if early else None
        leaf = self._ca.issue_cert(*(identities or ("client@test",)), not_after=until, not_before=since)
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        pair.cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(pair.key)
        return pair

    def files(self, pair: Pair | None = None, *, server_name: str | None = None) -> TlsFiles:
        """What a client that believes this authority is configured with."""
        cert, key = (pair.cert, pair.key) if pair else (None, None)
        return TlsFiles(ca=self.ca, cert=cert, key=key, server_name=server_name)

    def context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """For an HTTP client that believes this authority."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context
