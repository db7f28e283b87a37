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

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._unknown = list(endpoints)
        self.open: tuple[str, ...] = ()
        """The members whose gateway has answered the newest question."""

    @property
    def faults(self) -> list[str]:
        """What to tell of them."""
        return [
            f"etcd at {endpoint} answers without a password to whoever asks its JSON gateway, as any web page may in a "
            f"browser near it: {REMEDY}"
            for endpoint in self.open
        ]

    async def look(self) -> None:
        """Ask each member once, and again only those that let us in or gave no answer. Ends within two seconds."""
        if not self._unknown:
            return
        asked = self._unknown
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S)) as http:
            answers = await asyncio.gather(*(_lets_in(http, endpoint) for endpoint in asked))
        self.open = tuple(endpoint for endpoint, lets_in in zip(asked, answers, strict=True) if lets_in)
        self._unknown = [endpoint for endpoint, lets_in in zip(asked, answers, strict=True) if lets_in is not False]


async def _lets_in(http: aiohttp.ClientSession, endpoint: str) -> bool | None:
    """Whether it answers a stranger; None: it does not answer, or not now (it has no leader, or too much to do)."""
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        # Nothing is told to it, and nothing believed: so whoever it is may answer.
        async with http.post(f"{url}/v3/kv/range", data=_ASKS, ssl=False, allow_redirects=False) as answer:
            return None if answer.status >= 500 or answer.status == 429 else answer.status == 200
    except (aiohttp.ClientSSLError, ssl.SSLError):
        return False  # it wants a certificate of ours
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None
