"""The manager's own port with TLS: its certificate, read again when the files change; a renewal needs no stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from common.configuration.config import ManagerConfig
from common.process.threads import HungError, beside
from common.tls import pair_problems, server_context

_log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 30.0
_HSTS = "max-age=2592000"
"""Thirty days, for this very name alone: a browser then comes to *every* port of it with HTTPS only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewed:
    """A certificate and its key, in PEM, and the stamps of their files."""

    stamps: list[tuple[int, int] | None]
    cert: bytes
    key: bytes


class Certificate:
    """The context that the port is served with; renewed in place, connections that are open go on with the old one."""

    def __init__(self, cert: Path, key: Path, *, client_ca: Path | None = None) -> None:
        """``client_ca``: who signs the certificates that clients may show."""
        self._cert = cert
        self._key = key
        self._stamps = self._look()
        self.context = server_context(cert, key, client_ca=client_ca)

    async def run(self) -> None:
        """Look for a renewal now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.renew_if_changed()

    async def renew_if_changed(self) -> None:
        """Take the files as they are now, where they have changed and are good; else the old ones stay."""
        try:
            renewed = await beside(self._renewed, what="the files of tlsCert and tlsKey")
        except HungError as error:
            _log.warning("the certificate is not looked at: %s", error, extra={"action": "tls.hung"})
        else:
            self._take(renewed)

    def _renewed(self) -> _Renewed | None:
        """The files, where they have changed and are good. Blocks."""
        stamps = self._look()
        if stamps == self._stamps:
            return None
        if problems := pair_problems("tlsCert", self._cert, "tlsKey", self._key, server_side=True):
            # Perhaps one of the two was written and the other not yet: looked at again.
            extra = {"action": "tls.not_renewed", "problem": "; ".join(map(str, problems))}
            _log.warning("the changed certificate is not used", extra=extra)
            return None
        try:
            return _Renewed(stamps=stamps, cert=self._cert.read_bytes(), key=self._key.read_bytes())
        except OSError as error:
            extra = {"action": "tls.not_renewed", "problem": str(error)}
            _log.warning("the changed certificate is not used", extra=extra)
            return None

    def _take(self, renewed: _Renewed | None) -> None:
        """Into the context that connections are made with: by the thread that makes them, and from memory."""
        if renewed is None:
            return
        try:
            with _in_memory(renewed.cert) as cert, _in_memory(renewed.key) as key:
                self.context.load_cert_chain(cert, key, password="")
        except OSError as error:  # an ssl.SSLError is one: they were written between the two looks
            extra = {"action": "tls.not_renewed", "problem": str(error)}
            _log.warning("the changed certificate is not used", extra=extra)
            return
        self._stamps = renewed.stamps
        _log.info("the certificate was read again", extra={"action": "tls.renewed", "file": str(self._cert)})

    def _look(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in (self._cert, self._key)]


def certificate_of(config: ManagerConfig) -> Certificate | None:
    """The configured certificate, or None: plain HTTP."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return Certificate(config.tls_cert, config.tls_key, client_ca=config.proxy_ca)


async def add_hsts(request: web.Request, response: web.StreamResponse) -> None:
    """Tell browsers to come with HTTPS only; not on names that mean something else on each machine."""
    name = request.url.host or "localhost"
    if name == "localhost":
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        response.headers["Strict-Transport-Security"] = _HSTS


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path for what takes nothing else."""
    descriptor = os.memfd_create("etcron-tls")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
