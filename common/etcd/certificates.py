"""The certificates of this side as grpc takes them, read again when their files have changed; and why TLS fails.

grpc's own words do not say which key to mend. So where a member cannot be connected to, there is one handshake beside
grpc's, that carries nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final

from common.errors import ConfigError, Problem, UnavailableError
from common.etcd import _rpc
from common.tls import TlsFiles, client_context, client_problems

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 10.0
"""When files that are no good are looked at again: a certificate becomes valid, a key readable, and neither changes."""


class Certificates:
    """What every channel is made with. ConfigError where a file is no good at the beginning."""

    def __init__(self, files: TlsFiles) -> None:
        if problems := client_problems("etcdTls", files):
            raise ConfigError(problems)
        self.files = files
        self._stamps = self._look()
        self._bad: list[tuple[int, int]] | None = None
        self._again_s = 0.0
        self.credentials: Any = _credentials(files)

    def renewed(self, now_s: float) -> bool:
        """Whether the files have changed since they were read, and are good; they count from now on.

        Asked as often as one likes, by the monotonic clock.
        """
        stamps = self._look()
        if stamps == self._stamps or (stamps == self._bad and now_s < self._again_s):
            return False
        if problems := client_problems("etcdTls", self.files):
            if stamps != self._bad:  # logged once
                extra = {"action": "etcd.certificates_bad"}
                _log.warning("changed certificates are not used: %s", "; ".join(map(str, problems)), extra=extra)
            self._bad, self._again_s = stamps, now_s + _AGAIN_S
            return False
        self.credentials = _credentials(self.files)
        self._stamps, self._bad = stamps, None
        _log.info("certificates for etcd were read again", extra={"action": "etcd.certificates_renewed"})
        return True

    def _look(self) -> list[tuple[int, int]]:
        stamps = []
        for path in (self.files.ca, self.files.cert, self.files.key):
            if path is not None:
                try:
                    found = path.stat()
                except OSError:
                    stamps.append((0, 0))
                else:
                    stamps.append((found.st_mtime_ns, found.st_ino))
        return stamps


def _credentials(files: TlsFiles) -> Any:
    try:
        pem = [path.read_bytes() if path else None for path in (files.ca, files.key, files.cert)]
    except OSError as error:
        raise UnavailableError(f"etcdTls: {error.filename} cannot be read ({error.strerror})") from None
    return _rpc.tls_credentials(*pem)


_CONNECT_S = 0.5
_ALERT_S = 0.3
"""In TLS 1.3 a server looks at the client's certificate after the client's part is over."""
_EXPIRED = {9, 10}
_WRONG_NAME = {62, 64}


async def tls_problem(address: str, files: TlsFiles | None) -> Problem | None:
    """What the member's TLS and ours do not agree on; None: nothing, or it could not be asked."""
    host, _, port = address.rpartition(":")
    name = (files.server_name if files else None) or host.strip("[]")
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, plain = await asyncio.open_connection(host.strip("[]"), int(port))
            plain.close()
    except (OSError, TimeoutError):
        return None
    try:
        spoke_tls = await _shake_hands(host.strip("[]"), int(port), client_context(files), name)
    except ssl.SSLError as error:
        spoke_tls = "ALERT" in (error.reason or "") or isinstance(error, ssl.SSLCertVerificationError)
        if files is not None and spoke_tls:
            return _mistrust(address, files, name, error)
    except TimeoutError:
        return None
    except OSError:
        spoke_tls = False
    if spoke_tls == (files is not None):
        return None
    if files is None:
        remedy = f"write https://{address} and give etcdTls"
        return Problem(field="etcdEndpoints", message=f"etcd at {address} speaks TLS", remedy=remedy)
    remedy = f"write http://{address} and take etcdTls out, or have etcd listen with TLS"
    return Problem(field="etcdEndpoints", message=f"what listens at {address} does not speak TLS", remedy=remedy)


async def _shake_hands(host: str, port: int, context: ssl.SSLContext, name: str) -> bool:
    """True once the member has taken part in it to the end."""
    async with asyncio.timeout(_CONNECT_S + _ALERT_S):
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ALERT_S):
                await reader.read(1)
    finally:
        writer.transport.abort()
    return True


def _mistrust(address: str, files: TlsFiles, name: str, error: ssl.SSLError) -> Problem:
    if not isinstance(error, ssl.SSLCertVerificationError):
        if files.cert is None:
            message = f"etcd at {address} asks for a client certificate"
            return Problem(field="etcdTls.cert", message=message, remedy="give cert and key")
        message = f"etcd at {address} does not accept the client certificate {files.cert}"
        remedy = "give one that its --trusted-ca-file has signed for clients"
        return Problem(field="etcdTls.cert", message=message, remedy=remedy)
    if error.verify_code in _WRONG_NAME:
        message = f"the certificate of etcd at {address} is not made out for {name}"
        remedy = "give a name that stands in it as serverName, or the endpoint by that name"
        return Problem(field="etcdTls.serverName", message=message, remedy=remedy)
    if error.verify_code in _EXPIRED:
        message = f"the certificate of etcd at {address} is not valid now: {error.verify_message}"
        return Problem(field="etcdTls", message=message, remedy="renew it there, and look at the clocks")
    message = f"the certificate of etcd at {address} is not signed by {files.ca}: {error.verify_message}"
    return Problem(field="etcdTls.ca", message=message, remedy="give the certificate of the authority that signed it")
