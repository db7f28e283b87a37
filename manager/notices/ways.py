"""What the ways of sending have in common: what came of a message, and the secrets of channels."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from common.errors import EtcronError, UnavailableError
from common.notices.channels import Channel
from common.notices.joining import Message
from common.process.secret_files import SecretError, credentials_directory, secret_in
from common.process.threads import Places, beside

WITHIN_S: Final = 600.0
"""One message, whatever its server does."""


class RefusedError(EtcronError):
    """The message is refused for good: mend the channel, and send it again."""


class PutOffError(EtcronError):
    """The message could not be sent now; it is tried again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a message that was sent."""

    accepted: tuple[str, ...] = ()
    """Who has it now."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Who never will, and why."""
    put_off: str = ""
    """Why it has to be sent again, to the others."""


class Way(Protocol):
    """How the messages of one kind of channel are sent."""

    async def send(self, name: str, channel: Channel, message: Message) -> Result:
        """What came of it. RefusedError, PutOffError: nobody has it."""


class ChannelSecrets:
    """The secrets that channels name: files in ``secretsDirectory``, or systemd's credentials. Read each time."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._places = Places()

    async def text(self, name: str) -> str:
        """Without the line end that editors leave. PutOffError: it cannot be read; the text holds no value."""
        try:
            return await self._places.beside(lambda: self._read(name), what="secretsDirectory")
        except (SecretError, UnavailableError) as error:
            raise PutOffError(str(error)) from None

    async def fault(self, name: str) -> str | None:
        """Why it cannot be read, without its value; None: it can."""
        try:
            await self.text(name)
        except PutOffError as error:
            return str(error)
        return None

    def _read(self, name: str) -> str:
        """Blocks."""
        credentials = credentials_directory()
        for directory in (self._directory, credentials):
            if directory is None or ".." in name.split("/") or name.startswith("/"):
                continue
            try:
                return secret_in(directory / name).decode().rstrip("\r\n")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except UnicodeDecodeError:
                raise SecretError(f"secret {name} is no text") from None
        where = "no secretsDirectory is configured" if self._directory is None else f"it is not in {self._directory}"
        raise SecretError(f"secret {name} is not on this manager: {where}")


class Tls:
    """Whom this machine trusts; read once, in a thread."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await beside(_context, what="the certificates that this machine trusts")
        return self._context


def _context() -> ssl.SSLContext:
    """Blocks."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
