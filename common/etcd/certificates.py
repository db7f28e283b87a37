"""The certificates of this side as grpc takes them, read again when their files have changed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError, UnavailableError
from common.etcd import _rpc
from common.tls import TlsFiles, client_problems

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
            if stamps != self._bad:  # said once
                extra = {"action": "etcd.certificates_bad"}
                _log.warning("changed certificates are not used: %s", "; ".join(map(str, problems)), extra=extra)
            self._bad, self._again_s = stamps, now_s + _AGAIN_S
            return False
        self.credentials = _credentials(self.files)
        self._stamps, self._bad = stamps, None
        _log.info("certificates for etcd were read again", extra={"action": "etcd.certificates_renewed"})
        return True

    def _look(self) -> list[tuple[int, int]]:
        paths = [path for path in (self.files.ca, self.files.cert, self.files.key) if path is not None]
        return [_stamp(path) for path in paths]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino


def _credentials(files: TlsFiles) -> Any:
    try:
        pem = [path.read_bytes() if path else None for path in (files.ca, files.key, files.cert)]
    except OSError as error:
        raise UnavailableError(f"etcdTls: {error.filename} cannot be read ({error.strerror})") from None
    return _rpc.tls_credentials(*pem)
