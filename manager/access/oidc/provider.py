"""What is asked of the provider: where its parts are, its keys, tokens for a code, and UserInfo.

Each answer has a deadline and a limit of size, no redirect is followed, and no proxy of the environment is used. What
has been read is kept for an hour; keys are asked for again where a token is signed with one that is not known, at
most each ten seconds. A provider that does not answer is asked again only after some seconds: logins that wait for
it do not pile up.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
from joserfc import jwk

from common.clock import Clock
from common.configuration.files import password_in
from common.configuration.ways import is_safe_url
from common.errors import EtcronError
from common.process.threads import beside
from manager.access.oidc.failures import OidcError, Why
from manager.access.oidc.id_token import keys_of
from manager.http.outgoing import Names, TooLongError, ask

T = TypeVar("T")

MOST_BYTES: Final = 512 * 1024
_WITHIN_S: Final = 4.0
_KEPT_S: Final = 3600.0
_AGAIN_S: Final = 10.0
"""Between two looks for new keys, and after a provider did not answer."""
_MOST_AT_A_TIME: Final = 32
_DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Where the provider's parts are."""

    authorization: str
    token: str
    keys: str
    user_info: str | None
    by_body: bool
    """Whether it wants the client's secret in the body, and not in a header."""
    names_issuer: bool
    """Whether it names itself in the way back (RFC 9207)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tokens:
    """What a code was exchanged for."""

    id_token: str
    access: str | None
    """Opens UserInfo."""


@dataclass(slots=True)
class _Kept:
    metadata: Metadata | None = None
    keys: list[jwk.Key] = field(default_factory=list)
    read_at: float = float("-inf")
    keys_read_at: float = float("-inf")
    failed_at: float = float("-inf")
    failure: str = ""


class Provider:
    """One provider, as one client of it."""

    def __init__(
        self, issuer: str, client: str, *, secret_file: Path | None, ca: Path | None, clock: Clock,
        within_s: float = _WITHIN_S,
    ) -> None:  # fmt: skip
        """``ca``: signs its certificate, in place of those that this machine trusts."""
        self.issuer = issuer
        self.client = client
        self._secret_file = secret_file
        self._ca = ca
        self._clock = clock
        self._within_s = within_s
        self._kept = _Kept()
        self._reading = asyncio.Lock()
        self._asking = asyncio.Semaphore(_MOST_AT_A_TIME)
        self._tls: ssl.SSLContext | None = None
        self._names = Names()

    async def metadata(self) -> Metadata:
        """Where its parts are. OidcError: it has no answer."""
        async with self._reading:
            kept = self._kept
            if kept.metadata is None or self._clock.monotonic() - kept.read_at > _KEPT_S:
                kept.metadata = await self._once(self._read_metadata)
                kept.read_at = self._clock.monotonic()
            return kept.metadata

    async def keys(self, *, anew: bool = False) -> Sequence[jwk.Key]:
        """Its keys; ``anew``: one that is not among them is looked for."""
        metadata = await self.metadata()
        async with self._reading:
            kept, age = self._kept, self._clock.monotonic() - self._kept.keys_read_at
            if age > (_AGAIN_S if anew else _KEPT_S):
                kept.keys = await self._once(partial(self._read_keys, metadata))
                kept.keys_read_at = self._clock.monotonic()
            return kept.keys

    async def tokens_for(self, code: str, *, verifier: str, redirect_uri: str) -> Tokens:
        """The ID token for a code, with what opens UserInfo. OidcError: there is none."""
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier,
        }  # fmt: skip
        headers = {"Accept": "application/json"}
        secret = await self._secret()
        if secret is None or metadata.by_body:
            form |= {"client_id": self.client} | ({} if secret is None else {"client_secret": secret})
        else:
            # RFC 6749, 2.3.1: both are encoded as in a form before they become one.
            headers["Authorization"] = aiohttp.encode_basic_auth(quote(self.client, safe=""), quote(secret, safe=""))
        status, answer = await self._ask("POST", metadata.token, data=form, headers=headers)
        token = answer.get("id_token") if status == 200 else None
        if not isinstance(token, str):
            reason = answer.get("error", "no id_token")
            raise OidcError(Why.REFUSED, f"the provider gives no token for the code: {status} {str(reason)[:100]!r}")
        access = answer.get("access_token")
        fits = isinstance(access, str) and re.fullmatch(r"[A-Za-z0-9._~+/=-]{1,16384}", access)
        return Tokens(id_token=token, access=access if fits else None)

    async def user_info(self, tokens: Tokens, *, subject: str) -> Mapping[str, Any]:
        """Its further claims of the ID token's subject; none where it has no UserInfo. OidcError."""
        place = (await self.metadata()).user_info
        if place is None or tokens.access is None:
            return {}
        found = await self._get(place, Authorization=f"Bearer {tokens.access}")
        # OpenID Connect Core 1.0, 5.3.2: else another user's answer could be brought in place of this one's.
        if found.get("sub") != subject:
            raise OidcError(Why.UNFIT, "UserInfo is about another user than the ID token (sub), or is no JSON object")
        return found

    async def _read_metadata(self) -> Metadata:
        found = await self._get(self.issuer.rstrip("/") + _DISCOVERY)
        if found.get("issuer") != self.issuer:
            raise OidcError(
                Why.AWAY, f"{self.issuer} calls itself {str(found.get('issuer'))[:200]!r}: give oidcIssuer so"
            )
        places = []
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            place = found.get(name)
            if place is None and name == "userinfo_endpoint":
                continue
            # Plain HTTP only where the issuer is so itself: else it could send us to what listens on loopback.
            if not isinstance(place, str) or not is_safe_url(place, http=self.issuer.startswith("http:")):
                raise OidcError(Why.AWAY, f"the provider's {name} is no https address: {str(place)[:200]!r}")
            places.append(place)
        methods = found.get("token_endpoint_auth_methods_supported")
        return Metadata(
            authorization=places[0], token=places[1], keys=places[2], user_info=places[3] if places[3:] else None,
            by_body=isinstance(methods, list) and "client_secret_basic" not in methods,
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
        )  # fmt: skip

    async def _read_keys(self, metadata: Metadata) -> list[jwk.Key]:
        return keys_of(await self._get(metadata.keys))

    async def _once(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What it answers; right after it did not, it is not asked."""
        kept = self._kept
        if self._clock.monotonic() - kept.failed_at < _AGAIN_S:
            raise OidcError(Why.AWAY, kept.failure)
        try:
            return await ask()
        except OidcError as error:
            kept.failed_at, kept.failure = self._clock.monotonic(), str(error)
            raise

    async def _get(self, url: str, **headers: str) -> Mapping[str, Any]:
        status, answer = await self._ask("GET", url, headers={"Accept": "application/json", **headers})
        if status != 200:
            raise OidcError(Why.AWAY, f"the login provider answers {url} with {status}")
        return answer

    async def _ask(self, method: str, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
        host = urlsplit(url).netloc
        if self._asking.locked():
            raise OidcError(Why.AWAY, f"the login provider ({host}) has too many logins of ours to answer; try again")
        async with self._asking:
            try:
                async with asyncio.timeout(self._within_s):
                    return await self._answer(method, url, **options)
            except TimeoutError as error:
                raise OidcError(
                    Why.AWAY, f"the login provider ({host}) does not answer within {self._within_s:g} s"
                ) from error
            except (aiohttp.ClientError, OSError, EtcronError) as error:
                if isinstance(error, OidcError):
                    raise
                raise OidcError(Why.AWAY, f"the login provider ({host}) cannot be reached: {error!s:.200}") from error

    async def _answer(self, method: str, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
        if self._tls is None:
            self._tls = await beside(self._context, what="the file of oidcCa")
        try:
            status, content = await ask(method, url, tls=self._tls, most_bytes=MOST_BYTES, names=self._names, **options)
        except TooLongError as error:
            raise OidcError(Why.AWAY, str(error)) from error
        return status, _object(content)

    def _context(self) -> ssl.SSLContext:
        """Blocks."""
        context = ssl.create_default_context(cafile=None if self._ca is None else str(self._ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    async def _secret(self) -> str | None:
        """Read for each login, so that it can be changed without a restart."""
        path = self._secret_file
        if path is None:
            return None
        try:
            return await beside(lambda: password_in(path), what="the file of oidcClientSecretFile")
        except (OSError, UnicodeDecodeError, EtcronError) as error:
            raise OidcError(Why.AWAY, "oidcClientSecretFile cannot be read; mend the file") from error


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
