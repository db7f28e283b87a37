"""Login providers for tests: one from a package, and one that does what it is told, also what no honest one does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwk, jwt
from oidc_provider_mock import User, run_server_in_thread

CLIENT = "etcron"


@contextmanager
def real_provider(*users: User, monkeypatch: Any) -> Iterator[str]:
    """The issuer of a provider of a package, which asks whoever comes for a name only."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with run_server_in_thread(user_claims=users, require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


async def consent(url: str, user: str, *, refuse: bool = False) -> str:
    """What a user does at the provider of the package; where their browser is sent then."""
    form = {"action": "deny"} if refuse else {"sub": user}
    async with aiohttp.ClientSession() as http, http.post(url, data=form, allow_redirects=False) as answer:
        assert answer.status in (302, 303), await answer.text()
        return answer.headers["Location"]


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@dataclass
class LyingProvider:
    """A provider of which each answer can be replaced."""

    issuer: str = ""
    key: Any = field(default_factory=lambda: jwk.generate_key("EC", "P-256", {"kid": "k1"}))
    name: str = "alice"
    groups: tuple[str, ...] = ()
    claims: dict[str, Any] = field(default_factory=dict)
    """In place of those that it would give."""
    only_in_user_info: frozenset[str] = frozenset()
    """Names of claims that the ID token does not have."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The same of what it says of itself."""
    answers: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Path -> what is answered there instead."""
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Code -> what was asked for when it was given."""
    spends_codes: bool = True

    def allow(self, url: str) -> dict[str, str]:
        """A user says yes; what their browser brings back."""
        wanted = query_of(url)
        code = f"code-{len(self.codes)}"
        self.codes[code] = wanted
        return {"code": code, "state": wanted["state"]}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if instead := self.answers.get(request.path):
            found = instead()
            return await found if asyncio.iscoroutine(found) else found  # type: ignore[no-any-return]
        match request.path:
            case "/.well-known/openid-configuration":
                said = {
                    "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
                    "userinfo_endpoint": f"{self.issuer}/userinfo",
                }  # fmt: skip
                return web.json_response({**said, **self.metadata})
            case "/keys":
                return web.json_response({"keys": [self.key.as_dict(private=False)]})
            case "/authorize":
                back = urlencode(self.allow(str(request.url)))
                raise web.HTTPFound(f"{request.query['redirect_uri']}?{back}")
            case "/token":
                return self._token({name: str(value) for name, value in (await request.post()).items()})
            case "/userinfo":
                if request.headers.get("Authorization") != "Bearer an-access-token":
                    return web.Response(status=401)
                return web.json_response({"sub": self.name, **self._names(told=self.only_in_user_info)})
            case _:
                return web.Response(status=404)

    def _names(self, *, told: Collection[str]) -> dict[str, Any]:
        claims = {"preferred_username": self.name, "groups": list(self.groups)}
        return {name: claims[name] for name in claims if name in told}

    def _token(self, form: dict[str, str]) -> web.Response:
        wanted = self.codes.get(form.get("code", ""))
        if wanted is None or not _verifies(wanted["code_challenge"], form.get("code_verifier", "")):
            return web.json_response({"error": "invalid_grant"}, status=400)
        if self.spends_codes:
            del self.codes[form["code"]]
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": self.name, "iat": now, "exp": now + 60,
            "nonce": wanted["nonce"],
            **self._names(told={"preferred_username", "groups"} - self.only_in_user_info),
        }  # fmt: skip
        token = jwt.encode({"alg": "ES256", "kid": self.key.kid}, {**claims, **self.claims}, self.key)
        return web.json_response({"id_token": token, "access_token": "an-access-token", "token_type": "Bearer"})


def _verifies(challenge: str, verifier: str) -> bool:

    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    return bool(re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", verifier)) and made == challenge


@asynccontextmanager
async def lying_provider() -> AsyncIterator[LyingProvider]:
    """It serves on loopback, without TLS."""
    provider = LyingProvider()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider._answer)
    async with TestServer(app) as server:
        provider.issuer = f"http://127.0.0.1:{server.port}"
        yield provider
