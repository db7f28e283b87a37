"""E-mail, by SMTP: TLS that is verified, a login, and each recipient's answer counts for itself."""

from __future__ import annotations

import asyncio
import email.policy
import re
import socket
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final

import aiosmtplib

from common.errors import UnavailableError
from common.instants import from_ms
from common.notices.channels import Channel, MailTls
from common.notices.joining import Message
from manager.http.outgoing import Names
from manager.notices.plain import line
from manager.notices.ways import WITHIN_S, ChannelSecrets, PutOffError, RefusedError, Result, Tls

_STEP_S: Final = 30.0
"""One answer of the server."""
_TAKEN_S: Final = 240.0
"""The answer to the mail itself: a server may look into it for minutes, and who leaves meanwhile sends it twice."""
_ASKED_S: Final = WITHIN_S - _TAKEN_S - 3 * _STEP_S
"""After so long no further recipient is asked for, so that the message's time is not over while the server has the mail
and has not said so: behind the last one's answer come those to DATA, to the mail and to QUIT."""
_PORTS: Final = {MailTls.STARTTLS: 587, MailTls.TLS: 465, MailTls.NONE: 25}
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9.-]+")


class Email:
    """A channel with a mail server and recipients."""

    def __init__(
        self, secrets: ChannelSecrets, tls: Tls, *, step_s: float = _STEP_S, asked_s: float = _ASKED_S
    ) -> None:
        self._secrets = secrets
        self._tls = tls
        self._step_s = step_s
        self._asked_s = asked_s
        self._names = Names()

    async def send(self, name: str, channel: Channel, message: Message) -> Result:
        """As `Way`. A recipient who has it, or never will, is not asked again."""
        ask_until_s = asyncio.get_running_loop().time() + self._asked_s
        done = {*message.accepted, *(recipient for recipient, _ in message.refused)}
        recipients = [one for one in channel.to if one not in done]
        if not recipients:
            return Result()
        password = await self._secrets.text(channel.password_secret) if channel.password_secret else None
        host, port = channel.host or "localhost", channel.port or _PORTS[channel.tls]
        where = f"{host}:{port}"
        try:
            mail = as_mail(name, channel, message)
        except ValueError as error:  # an address that is none
            raise RefusedError(f"the mail cannot be written: {line(str(error))}") from None
        try:
            trusted = await self._tls.context()
            opened = await _connected(await self._names.addresses(host, port))
            async with aiosmtplib.SMTP(
                hostname=host, sock=opened, use_tls=channel.tls is MailTls.TLS,
                start_tls=channel.tls is MailTls.STARTTLS, tls_context=trusted, timeout=self._step_s,
                username=channel.user if password else None, password=password, local_hostname=_own_name(),
            ) as server:  # fmt: skip
                return await _given(server, channel, recipients, mail, ask_until_s)
        except (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPDataError) as error:
            answer = line(f"{where}: {error.code} {error.message}", 500)
            raise (RefusedError if 500 <= error.code < 600 else PutOffError)(answer) from None
        except aiosmtplib.SMTPResponseException as error:  # before the mail was its business: a login, say
            raise PutOffError(line(f"{where}: {error.code} {error.message}", 500)) from None
        except (aiosmtplib.SMTPException, OSError, TimeoutError, UnavailableError) as error:
            cause = error.__cause__ or error
            raise PutOffError(f"{where}: {line(str(cause) or type(cause).__name__)}") from None


async def _given(
    server: aiosmtplib.SMTP, channel: Channel, recipients: Sequence[str], mail: EmailMessage, ask_until_s: float
) -> Result:
    """The server's word for each recipient, then the mail to those whom it takes; the others have to wait."""
    loop = asyncio.get_running_loop()
    await server.mail(channel.sender or "")
    taken, refused, later = list[str](), dict[str, str](), list[str]()
    for recipient in recipients:
        if taken and loop.time() >= ask_until_s:
            later.append(f"{recipient}: the server took too long over those before")
            continue
        try:
            await server.rcpt(recipient)
            taken.append(recipient)
        except aiosmtplib.SMTPRecipientRefused as error:
            answer = line(f"{error.code} {error.message}")
            if 500 <= error.code < 600:
                refused[recipient] = answer
            else:
                later.append(f"{recipient}: {answer}")
    if taken:
        await server.data(as_sent(mail), timeout=_TAKEN_S)
    return Result(accepted=tuple(taken), refused=refused, put_off="; ".join(later)[:500])


def as_mail(name: str, channel: Channel, message: Message) -> EmailMessage:
    """The same message for each time that it is sent. No text of a job's can become a header of it."""
    content, channel_id = message.content, _NOT_IN_AN_ID.sub("-", name).strip(".-") or "channel"
    mail = EmailMessage(policy=email.policy.SMTP)
    mail["From"] = channel.sender or ""
    mail["To"] = ", ".join(channel.to)
    mail["Subject"] = line(content.subject)
    mail["Date"] = format_datetime(from_ms(content.created_ms))
    mail["Message-ID"] = f"<{message.id}@etcron>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["List-Id"] = f"<{channel_id}.notices.etcron>"
    if content.thread:
        mail["References"] = f"<{content.thread}@etcron>"
    mail.set_content(content.text)
    mail.add_alternative(content.html, subtype="html")
    mail.set_boundary(f"=_{message.id}")
    return mail


def as_sent(mail: EmailMessage) -> bytes:
    """Its bytes. A subject that fills a line would be put below its name, and so begin with a space."""
    return mail.as_bytes().replace(b"\nSubject:\r\n ", b"\nSubject: ", 1)


async def _connected(addresses: Sequence[tuple[Any, ...]]) -> socket.socket:
    """To the first of them that takes it. OSError."""
    loop, failed = asyncio.get_running_loop(), OSError("its name has no address")
    for family, kind, protocol, _, address in addresses[:4]:
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            async with asyncio.timeout(_STEP_S / 3):
                await loop.sock_connect(opened, address)
            return opened
        except (OSError, TimeoutError) as error:
            opened.close()
            failed = OSError("no answer") if isinstance(error, TimeoutError) else error
        except BaseException:
            opened.close()
            raise
    raise failed


def _own_name() -> str:
    """What it calls itself: never looked up, which could hang."""
    return _NOT_IN_AN_ID.sub("-", socket.gethostname()).strip(".-") or "localhost"
