"""Servers that take messages, as long as a test lets them: a mail server, and a receiver of webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import ssl
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from aiohttp import web
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.etcd_server import free_port


@dataclass(slots=True)
class Mail:
    """One that was taken."""

    recipients: list[str]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        made = email.message_from_bytes(self.content, policy=email.policy.default)
        assert isinstance(made, EmailMessage)
        return made

    @property
    def id(self) -> str:
        return str(self.message["Message-ID"]).strip("<>").removesuffix("@etcron")

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body is not None
        return str(body.get_content())


@dataclass
class MailServer:
    """Takes mails on a port of its own, also after it was away.

    Without slots: aiosmtpd reads every attribute, and Python 3.11.2 gives such a class a ``__weakref__`` that raises.
    """

    port: int = field(default_factory=free_port)
    mails: list[Mail] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """By recipient, or ``DATA``: what is answered in place of a yes."""
    dies_in_data: int = 0
    """So many times, the connection breaks where half of a mail has come."""
    on_mail: Callable[[], None] | None = None
    """Called when one has come, before that is said."""
    takes_s: float = 0
    """So long it looks into a mail before it says that it has it."""
    hangs: bool = False
    """It takes connections, and says nothing."""
    login: tuple[str, str] | None = None
    """Who may send; without ``tls`` it is asked for in the open."""
    logins: int = 0
    """How often somebody said who they are."""
    tls: ssl.SSLContext | None = None
    """STARTTLS has to be asked for; or, ``tls_at_once``, it is there from the beginning."""
    tls_at_once: bool = False
    tries: int = 0
    """Connections."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.Transport] = field(default_factory=set)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._protocol, "127.0.0.1", self.port, ssl=self.tls if self.tls_at_once else None
        )

    async def stop(self) -> None:
        """Nobody listens, and every connection is broken."""
        if self._server is not None:
            self._server.close()
            for transport in list(self._open):
                if not transport.is_closing():  # aborted again, one of TLS raises in Python 3.11.2
                    transport.abort()
            self._server = None

    async def __aenter__(self) -> MailServer:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _protocol(self) -> asyncio.Protocol:
        self.tries += 1
        if self.hangs:
            return _Silent(self)
        return _Smtp(self)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        if "DATA" in self.answers:
            return self.answers["DATA"]
        assert isinstance(envelope.content, bytes)
        self.mails.append(Mail(recipients=list(envelope.rcpt_tos), content=envelope.content))
        await asyncio.sleep(self.takes_s)
        if self.on_mail is not None:
            self.on_mail()
        return "250 OK"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: LoginPassword
    ) -> AuthResult:
        self.logins += 1
        is_right = self.login == (given.login.decode(), given.password.decode())
        return AuthResult(success=is_right, handled=False)


class _Smtp(SMTP):
    def __init__(self, server: MailServer) -> None:
        starttls = None if server.tls_at_once else server.tls
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not know that there is TLS below it
            super().__init__(
                server, hostname="mail.test", tls_context=starttls, require_starttls=starttls is not None,
                auth_require_tls=starttls is not None, auth_required=server.login is not None,
                authenticator=server.authenticate, enable_SMTPUTF8=False,
            )  # fmt: skip
        self._of = server
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._of._open.add(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._of.dies_in_data and self._bytes > 1000:
            self._of.dies_in_data -= 1
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.abort()
            return
        super().data_received(data)


class _Silent(asyncio.Protocol):
    def __init__(self, server: MailServer) -> None:
        self._of = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._of._open.add(transport)


@dataclass(slots=True)
class Got:
    """One request that came."""

    headers: dict[str, str]
    body: Any
    raw: bytes


@dataclass(slots=True)
class Receiver:
    """A server of webhooks."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    status: int = 200
    answer: Callable[[web.Request], web.StreamResponse] | None = None

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.got]

    async def _take(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(headers=headers, body=await request.json(), raw=raw))
        if self.answer is not None:
            return self.answer(request)
        return web.Response(status=self.status, text="said no", headers={"Location": "/elsewhere"})


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that listens."""
    receiver, app, port = Receiver(), web.Application(), free_port()
    app.router.add_route("*", "/{tail:.*}", receiver._take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    receiver.url = f"http://127.0.0.1:{port}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
