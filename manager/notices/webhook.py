"""Webhooks: JSON, signed as Standard Webhooks has it, so that a receiver can tell a second one and a false one.

And those of Slack and Mattermost, which take a text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from typing import Final
from urllib.parse import unquote, urlsplit

import aiohttp

from common.clock import Clock
from common.errors import EtcronError
from common.notices.channels import Channel
from common.notices.joining import Message
from manager.http.outgoing import Names, Reach, RefusedAddressError, ask_for_status, refusal_of
from manager.notices.plain import line
from manager.notices.ways import ChannelSecrets, PutOffError, RefusedError, Result, Tls

_MOST_BYTES: Final = 65_536
_WITHIN_S: Final = 30.0
_TEMPORARY: Final = frozenset({408, 425, 429})
_ENDS_LINK: Final = re.compile(r"[<>|]")
_PARTS_OF_URL: Final = re.compile(r"[/?&=;]")
_SHORT: Final = 6
"""Parts of a URL with fewer characters are no secrets, but words that an answer may well have."""


class Hooks:
    """Posts JSON to the URL of a channel, wherever `Reach` lets it go."""

    def __init__(self, secrets: ChannelSecrets, tls: Tls, reach: Reach) -> None:
        self.secrets = secrets
        self._tls = tls
        self._reach = reach
        self._names = Names()

    async def post(self, channel: Channel, body: bytes, headers: dict[str, str]) -> Result:
        """It was taken. RefusedError, PutOffError; no text of theirs holds more of the URL than its host."""
        url = channel.url or await self.secrets.text(channel.url_secret or "")
        if (why := refusal_of(url, self._reach)) is not None:
            raise RefusedError(f"the channel's URL {why}")
        host = urlsplit(url).hostname or ""
        try:
            status, content = await ask_for_status(
                "POST", url, within_s=_WITHIN_S, tls=await self._tls.context(), most_bytes=_MOST_BYTES,
                names=self._names, reach=self._reach, data=body,
                headers={"Content-Type": "application/json", **headers},
            )  # fmt: skip
        except TimeoutError:
            raise PutOffError(f"{host} does not answer within {_WITHIN_S:g} s") from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, RefusedAddressError):
                raise RefusedError(f"{host}: {error.os_error.strerror}") from None
            raise PutOffError(f"{host} cannot be reached: {error.os_error.strerror or error.os_error!s:.200}") from None
        except aiohttp.InvalidURL:
            raise RefusedError(f"{host}: the channel's URL is none") from None
        except (aiohttp.ClientError, OSError, EtcronError) as error:
            raise PutOffError(f"{host} cannot be reached: {type(error).__name__}") from None
        if 200 <= status < 300:
            return Result(accepted=(host,))
        answered = f"{host} answers {status} {_words(content, url)}".strip()
        if 300 <= status < 400:
            raise RefusedError(f"{answered} (redirects are not followed: give the URL that it leads to)")
        if 400 <= status < 500 and status not in _TEMPORARY:
            raise RefusedError(answered)
        raise PutOffError(answered)


def _words(content: bytes, url: str) -> str:
    """What the server says; nothing where it says the URL back, as many do: whoever knows that may post there."""
    text, parts = content.decode(errors="replace"), urlsplit(url)
    secrets = [one for one in _PARTS_OF_URL.split(f"{parts.path}?{parts.query}") if len(one) >= _SHORT]
    shown = unquote(text).casefold()
    return "" if any(unquote(one).casefold() in shown for one in secrets) else line(text)


class Webhook:
    """A channel that takes all facts as JSON."""

    def __init__(self, hooks: Hooks, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock

    async def send(self, name: str, channel: Channel, message: Message) -> Result:
        """As `Way`."""
        body = message.content.facts.encode()
        headers = {"webhook-id": message.id, "webhook-timestamp": str(self._clock.wall_ms() // 1000)}
        if channel.signing_secret is not None:
            secret = await self._hooks.secrets.text(channel.signing_secret)
            headers["webhook-signature"] = signature(secret, headers, body)
        return await self._hooks.post(channel, body, headers)


def signature(secret: str, headers: dict[str, str], body: bytes) -> str:
    """As https://www.standardwebhooks.com has it; ``whsec_`` begins a secret in base64."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise PutOffError("the signing secret begins with whsec_ and is no base64 behind it") from None
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _percent(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def slack_text(text: str, most: int = 3500) -> str:
    """Without what Slack or Mattermost would obey: links, mentions, the end of a block."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    for raw, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("```", "'''"), ("@", "@\u2060")):
        cut = cut.replace(raw, harmless)
    return cut


class Slack:
    """An incoming webhook of Slack, or of Mattermost, which takes the same."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    async def send(self, name: str, channel: Channel, message: Message) -> Result:
        """As `Way`."""
        facts = json.loads(message.content.facts)["data"]
        lines = [f"*{slack_text(message.content.subject, 300)}*", *map(slack_text, facts["lines"])]
        if facts["output"]:
            lines.append(f"```\n{slack_text(facts['output'])}\n```")
        lines += [f"<{_ENDS_LINK.sub(_percent, one['url'])}|{slack_text(one['title'], 80)}>" for one in facts["links"]]
        return await self._hooks.post(channel, json.dumps({"text": "\n".join(lines)}).encode(), {})
