"""Whether etcd lets in whoever asks: its JSON gateway, without a password.

Any web page in a browser that reaches such an etcd can save jobs, and so run commands: the gateway takes what a page
may send to anybody, and answers what every page may read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

import aiohttp

_ANSWER_S: Final = 2.0
_ASKS: Final = '{"key":"AA==","limit":1,"keys_only":true}'
"""For the first key; what is in it is not read."""
REMEDY: Final = "start etcd with --enable-grpc-gateway=false, and give it users (docs/operate/cluster.md)"


class Gateways:
    """Those of etcd's members; asked as a stranger would, without certificate and password."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._unknown = list(urls)
        self.open: tuple[str, ...] = ()
        """The members whose gateway has answered the newest question."""

    @property
    def faults(self) -> list[str]:
        """What to tell of them."""
        return [
            f"etcd at {url.partition('://')[2]} answers without a password to whoever asks its JSON gateway, as any "
            f"web page may in a browser near it: {REMEDY}"
            for url in self.open
        ]

    async def look(self) -> None:
        """Ask each member once, and again only those that let us in or gave no answer. Ends within two seconds."""
        if not self._unknown:
            return
        asked = self._unknown
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S)) as http:
            answers = await asyncio.gather(*(_lets_in(http, url) for url in asked))
        self.open = tuple(url for url, lets_in in zip(asked, answers, strict=True) if lets_in)
        self._unknown = [url for url, lets_in in zip(asked, answers, strict=True) if lets_in is not False]


async def _lets_in(http: aiohttp.ClientSession, url: str) -> bool | None:
    """Whether it answers a stranger; None: it does not answer, or not now (it has no leader, or too much to do)."""
    try:
        # Nothing is sent to it, and nothing believed: so any server may answer.
        async with http.post(f"{url}/v3/kv/range", data=_ASKS, ssl=False, allow_redirects=False) as answer:
            return None if answer.status >= 500 or answer.status == 429 else answer.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        # It wants a certificate of ours, and says so during the handshake or, by TLS 1.3, after it.
        after = (isinstance(error.__cause__, ssl.SSLError) and error.__cause__.reason) or ""
        return False if isinstance(error, aiohttp.ClientSSLError) or "CERTIFICATE" in after else None
