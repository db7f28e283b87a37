"""A mail server that delivers no further than its own page: SMTP on one port, what came on the other.

    GET /            the newest mails
    GET /mails.json  the same for programs

Each mail is a file in a folder, on the disk before the server says that it is taken, and named after its Message-ID: a
mail that comes a second time takes the place of the first.
"""

from __future__ import annotations

import asyncio
import email
import hashlib
import html
import os
from collections.abc import AsyncIterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session

SHOWN: Final = 50
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mails</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5"><style>
body {{ font: 16px/1.5 system-ui; max-width: 45rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }}
article {{ border-top: 1px solid #8888; margin-top: 1rem }} pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
</style></head><body><h1>{count} mails</h1>{mails}</body></html>"""


class MailServer:
    """Takes every mail."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """A mail has come."""
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        key = str(email.message_from_bytes(content, policy=default)["Message-ID"])
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.eml"
        with path.with_suffix(".part").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".part").replace(path)
        return "250 taken"

    def app(self, smtp_port: int) -> web.Application:
        """The page, with the SMTP server beside it."""
        app = web.Application()
        app.router.add_get("/", self._page)
        app.router.add_get("/mails.json", self._json)

        async def smtp(_: web.Application) -> AsyncIterator[None]:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: SMTP(self, loop=loop), "127.0.0.1", smtp_port)
            async with server:
                yield

        app.cleanup_ctx.append(smtp)
        return app

    def _documents(self, paths: list[Path]) -> list[dict[str, Any]]:
        mails = [email.message_from_bytes(path.read_bytes(), policy=default) for path in paths]
        return [
            {"id": mail["Message-ID"], "to": mail["To"], "subject": mail["Subject"], "text": _text(mail)}
            for mail in mails
        ]

    def _paths(self) -> list[Path]:
        """The newest first."""
        return sorted(self._folder.glob("*.eml"), key=lambda path: path.stat().st_mtime_ns, reverse=True)

    async def _json(self, _: web.Request) -> web.Response:
        return web.json_response(self._documents(self._paths()))

    async def _page(self, _: web.Request) -> web.Response:
        paths = self._paths()
        mails = "".join(
            f"<article><h2>{html.escape(one['subject'])}</h2><p>to {html.escape(one['to'])}</p>"
            f"<pre>{html.escape(one['text'])}</pre></article>"
            for one in self._documents(paths[:SHOWN])
        )
        return web.Response(
            text=_PAGE.format(count=len(paths), mails=mails or "<p>None yet.</p>"), content_type="text/html"
        )


def _text(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    return str(body.get_content()) if isinstance(body, EmailMessage) else ""


if __name__ == "__main__":
    web.run_app(
        MailServer(Path(os.environ.get("MAILS", "mails"))).app(int(os.environ.get("SMTP_PORT", "8025"))),
        host="127.0.0.1", port=int(os.environ.get("PORT", "8092")), print=None,
    )  # fmt: skip
