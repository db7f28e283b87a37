"""One login through the provider, from its start to the way back, in one browser."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from common.clock import Clock
from manager.access.oidc.failures import OidcError, Why
from manager.access.oidc.id_token import Expected, Person, UnknownKeyError, claims_of, is_whole, person_of
from manager.access.oidc.provider import Provider

WITHIN_S: Final = 600
"""How long a user may take at the provider."""
MOST_BACK: Final = 1000
_MOST_REMEMBERED: Final = 10_000
_COOKIE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([0-9]{1,13})\.([A-Za-z0-9_-]{0,1400})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a browser that begins a login is sent."""

    url: str
    """At the provider."""
    cookie: str
    """What only this browser may know."""

    def __repr__(self) -> str:
        return "Begun(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The user who came back, and the page they were on before."""

    person: Person
    back: str


class OidcLogin:
    """Logins through one provider."""

    def __init__(self, provider: Provider, *, scopes: str, name_claim: str, groups_claim: str, clock: Clock) -> None:
        self._provider = provider
        self._scopes = scopes
        self._name_claim = name_claim
        self._groups_claim = groups_claim
        self._clock = clock
        self._finished: dict[str, int] = {}
        """States of logins that are over, each with when it was begun."""

    async def begin(self, *, redirect_uri: str, back: str) -> Begun:
        """Off to the provider. ``back``: where to go afterwards. OidcError: it is away."""
        metadata = await self._provider.metadata()
        secret = secrets.token_urlsafe(32)
        begun = _Begun(
            secret=secret, started_ms=self._clock.wall_ms(), back=own_path(back),
            at=f"{self._provider.issuer} {self._provider.client} {redirect_uri}",
        )  # fmt: skip
        challenge = _encoded(hashlib.sha256(begun.verifier.encode()).digest())
        query = urlencode({
            "response_type": "code", "client_id": self._provider.client, "redirect_uri": redirect_uri,
            "scope": self._scopes, "state": begun.state, "nonce": begun.nonce,
            "code_challenge": challenge, "code_challenge_method": "S256",
        })  # fmt: skip
        joint = "&" if urlsplit(metadata.authorization).query else "?"
        return Begun(url=f"{metadata.authorization}{joint}{query}", cookie=begun.cookie)

    async def finish(self, cookie: str | None, query: Mapping[str, str], *, redirect_uri: str) -> Finished:
        """The user who came back with this. OidcError: it does not belong together, or is not believed."""
        begun = self._begun(cookie, redirect_uri)
        if not hmac.compare_digest(query.get("state", "").encode(errors="replace"), begun.state.encode()):
            raise OidcError(Why.STALE, "the answer is of another login than the one that this browser has begun")
        self._use_up(begun)
        try:
            person = await self._person(begun, query, redirect_uri)
        except BaseException:
            del self._finished[begun.state]  # no user was let in; strangers cannot fill it
            raise
        return Finished(person=person, back=begun.back)

    async def _person(self, begun: _Begun, query: Mapping[str, str], redirect_uri: str) -> Person:
        metadata = await self._provider.metadata()
        issuer = query.get("iss")
        if issuer != self._provider.issuer and (issuer is not None or metadata.names_issuer):
            raise OidcError(Why.UNFIT, "the answer is of another provider than the one that was asked (iss)")
        if "error" in query:
            raise OidcError(Why.REFUSED, f"the provider refuses the login: {query['error'][:100]!r}")
        code = query.get("code", "")
        if not re.fullmatch(r"[ -~]{1,4096}", code):
            raise OidcError(Why.UNFIT, "the provider's answer has no code")
        tokens = await self._provider.tokens_for(code, verifier=begun.verifier, redirect_uri=redirect_uri)
        expected = Expected(
            issuer=self._provider.issuer, client=self._provider.client, nonce=begun.nonce,
            now_s=self._clock.wall_ms() / 1000, name_claim=self._name_claim, groups_claim=self._groups_claim,
        )  # fmt: skip
        try:
            claims = claims_of(tokens.id_token, await self._provider.keys(), expected)
        except UnknownKeyError:
            claims = claims_of(tokens.id_token, await self._provider.keys(anew=True), expected)
        more = {} if is_whole(claims, expected) else await self._provider.user_info(tokens, subject=claims["sub"])
        return person_of(claims, more, expected)

    def _begun(self, cookie: str | None, redirect_uri: str) -> _Begun:
        read = _COOKIE.fullmatch(cookie or "")
        if read is None:
            raise OidcError(Why.STALE, "this browser has begun no login, or too long ago")
        begun = _Begun(
            secret=read[1], started_ms=int(read[2]), back=own_path(_decoded(read[3])),
            at=f"{self._provider.issuer} {self._provider.client} {redirect_uri}",
        )  # fmt: skip
        if not -WITHIN_S * 1000 <= self._clock.wall_ms() - begun.started_ms <= WITHIN_S * 1000:
            raise OidcError(Why.STALE, "the login was begun too long ago")
        return begun

    def _use_up(self, begun: _Begun) -> None:
        """A login is finished once; before the provider is asked, so that two at the same time are none of two."""
        oldest_ms = self._clock.wall_ms() - 2 * WITHIN_S * 1000
        if len(self._finished) >= _MOST_REMEMBERED:
            self._finished = {state: ms for state, ms in self._finished.items() if ms >= oldest_ms}
        if begun.state in self._finished:
            raise OidcError(Why.STALE, "this login has been finished before")
        if len(self._finished) >= _MOST_REMEMBERED:
            raise OidcError(Why.STALE, "too many logins at a time; try again later")
        self._finished[begun.state] = begun.started_ms


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Begun:
    """A login under way, as its cookie holds it. What is derived changes with each of its parts."""

    secret: str
    started_ms: int
    back: str
    at: str
    """The provider, the client, and where it comes back to."""

    @property
    def cookie(self) -> str:
        return f"{self.secret}.{self.started_ms}.{_encoded(self.back.encode())}"

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    def _derived(self, what: str) -> str:
        derived_from = "\n".join((what, str(self.started_ms), self.back, self.at))
        return _encoded(hmac.digest(self.secret.encode(), derived_from.encode(), "sha256"))


def own_path(text: str) -> str:
    """The path of ours that a text is, with its query; ``/`` where it is none: no browser is sent to a foreign page.

    Browsers take a backslash for a slash and leave out control characters, so what has one is none.
    """
    if not text.startswith("/") or text.startswith("//") or len(text) > MOST_BACK:
        return "/"
    if re.search(r"[^\x21-\x7e]|\\", text) or text.startswith(("/api/", "/login")):
        return "/"
    return text


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return "/"
