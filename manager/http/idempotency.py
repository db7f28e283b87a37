"""``Idempotency-Key``: a POST that is sent again is carried out once, and gets its first answer again for a day.

    key unknown          remembered as going on, under the fingerprint of the request; then the call
    the call succeeds    its answer is remembered          the call fails    the key is forgotten: nothing was done
    it may be done       it goes on, as far as is known
    the call reads       nothing is remembered             too many keys     429, and nothing is done
    key known            the same request: its answer, or 409 while it goes on; another request: 422

A call that is in doubt, or whose manager dies, leaves a key that goes on until the longest call would have ended; then
it may be made again. All calls bear that; asking for a run is more than that: it remembers its key in its own
transaction (see :mod:`manager.use_cases.run_now`). Source: the IETF's draft "The Idempotency-Key HTTP Header Field".
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from common.clock import Clock
from common.errors import EtcdError, EtcronError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, UnsettledError, answered, is_in_doubt
from common.json_text import dumps
from common.protocol.dedupe import ANYTHING, KEPT_HEADERS, Remembered, begin, digest_of, end, live
from common.protocol.keys import Keys
from common.protocol.txn import Txn, TxnResult
from manager.http import allowances
from manager.http.allowances import Allowance, refuse_beyond
from manager.http.errors import Handler, RequestError
from manager.http.guards import ADDRESS
from manager.http.inputs import read_body

_log = logging.getLogger(__name__)

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
KEPT_MS: Final = 86_400_000
MAX_ANSWER_BYTES: Final = 16_384
RUN_CALL: Final = "/api/v1/jobs/{name}/run"
"""The call that remembers its key itself."""
READS: Final = frozenset({
    "/api/v1/jobs/check", "/api/v1/schedule/preview", "/api/v1/forecast/spread", "/api/v1/crontab/preview",
})  # fmt: skip
"""POSTs that change nothing: the answer depends on the body, which is why they are no GETs. They are carried out each
time, and the audit has none of them."""
SECRET: Final = frozenset({
    "/api/v1/users", "/api/v1/tokens", "/api/v1/password", "/api/v1/login", "/api/v1/login/link",
    "/api/v1/bindings", "/api/v1/channels",
})  # fmt: skip
"""What goes in or comes out is nothing for workers, who read what is remembered: secrets, who may do what, the URLs of
channels. They take no key.
"""
_PREFIX: Final = "/api/v1/"
_FORM: Final = re.compile(r"[!-~]{1,255}", re.ASCII)
_TOO_LARGE: Final = {"message": "this call was carried out before; its answer was too large to be remembered"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """What a client calls its call, and what it asks for."""

    key: str
    fingerprint: str
    caller: str = ""
    """Whose it is: the same key of another caller is another one."""

    @property
    def scoped(self) -> str:
        """The key, apart from those of other callers."""
        return f"{self.caller}\0{self.key}" if self.caller else self.key


IDEMPOTENCY: Final = web.RequestKey("idempotency", Idempotency)
"""Set on a call that remembers its key itself."""


def refuse_another_request(remembered: Remembered, idempotency: Idempotency | None) -> None:
    """RequestError where the key was used for another request."""
    if idempotency is not None and remembered.fingerprint != idempotency.fingerprint:
        message = f"{HEADER}: {idempotency.key[:80]!r} was used for another request; take a new key for a new one"
        raise RequestError(422, message, code="idempotency-key-reused")


class IdempotentCalls:
    """Remembers calls in etcd; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, *, clock: Clock, longest_s: float, patience_s: float, remembered: Allowance
    ) -> None:
        """``longest_s``: no call goes on longer."""
        self._remembered = remembered
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._longest_ms = int(longest_s * 1000) + 1000
        self._patience_s = patience_s

    async def carry_out(self, request: web.Request, handler: Handler, idempotency: Idempotency) -> web.StreamResponse:
        """The answer of the call, or the one that it got before."""
        key = self._keys.deduped(ANYTHING, digest_of("call", request.method, request.path, idempotency.scoped))
        now_ms = self._clock.wall_ms()
        going_on = Remembered(
            expires_ms=now_ms + self._longest_ms, fingerprint=idempotency.fingerprint, token=secrets.token_hex(8)
        )
        address = request[ADDRESS]
        known, revision = await self._begin(key, going_on, now_ms, address)
        if known is not None:
            return _again(known, idempotency)
        try:
            response = await handler(request)
        except (EtcronError, web.HTTPException) as error:
            if not (isinstance(error, UnsettledError) or is_in_doubt(error)):
                await self._end(key, revision, None)
            raise  # else, and of any other error, whether it was done is not known: it goes on until it cannot any more
        done = _done(going_on, response, expires_ms=now_ms + KEPT_MS)
        if done is not None:
            self._remembered.take(address, until_ms=done.expires_ms, now_ms=now_ms)
        await self._end(key, revision, done)
        return response

    async def _begin(self, key: str, going_on: Remembered, now_ms: int, address: str) -> tuple[Remembered | None, int]:
        """What is remembered of the call; or None, and the revision under which it goes on now."""
        there = await self._etcd.get(key)
        if live(there, now_ms) is None:
            self._remembered.check(address, allowances.MOST_REMEMBERED, now_ms=now_ms)
            kept = await self._etcd.count(self._keys.deduped(ANYTHING, ""))
            refuse_beyond(allowances.MOST_REMEMBERED_OF_ALL, kept, f"{HEADER}: calls of all")
        while (known := live(there, now_ms)) is None:
            result = await self._settled(begin(key, going_on, there))
            if result.succeeded:
                return None, result.revision
            there = result.one(0)
            if there is not None and there.value == going_on.to_json():
                return None, there.mod_revision  # an earlier sending of this very call
        return known, 0

    async def _settled(self, txn: Txn) -> TxnResult:
        """etcd's answer; a refusal shows by what it reads whether an earlier sending was carried out."""
        in_doubt = "nothing was done: etcd gave no answer. ({})".format
        patience = Patience.until(self._clock.monotonic() + self._patience_s, self._clock, in_doubt)
        return await answered(partial(self._etcd.txn, txn), patience)

    async def _end(self, key: str, revision: int, done: Remembered | None) -> None:
        """Remembers the answer, or forgets the call; where etcd is away, it goes on until it cannot any more."""
        try:
            await self._settled(end(key, revision, done))
        except (EtcdError, UnavailableError) as error:
            extra = {"action": "idempotency.not_remembered", "error": str(error)}
            _log.warning("the answer to a call with an %s is not remembered: %s", HEADER, error, extra=extra)


def idempotent(
    calls: Callable[[web.Request], IdempotentCalls], *, read_s: float, caller_of: Callable[[web.Request], str]
) -> Middleware:
    """The middleware that looks at the header of every POST of ours. ``caller_of``: whose key it is."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_ours = request.method == "POST" and request.path.startswith(_PREFIX) and HEADER in request.headers
        if not is_ours or request.match_info.http_exception is not None:
            return await handler(request)
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in SECRET:
            message = f"{HEADER}: this call takes none; leave it out, and look before you repeat it"
            raise RequestError(400, message)
        body = await read_body(request, read_s)
        head = "\0".join((request.method, request.path_qs, request.content_type)).encode(errors="replace")
        fingerprint = sha256(head + b"\0" + body).hexdigest()
        key = _key(request.headers.getall(HEADER))
        idempotency = Idempotency(key=key, fingerprint=fingerprint, caller=caller_of(request))
        if resource is not None and resource.canonical in READS:
            return await handler(request)
        if resource is not None and resource.canonical == RUN_CALL:
            request[IDEMPOTENCY] = idempotency
            return await handler(request)
        return await calls(request).carry_out(request, handler, idempotency)

    return middleware


def _key(given: list[str]) -> str:
    """The client's key, with or without the quotes of a structured field; RequestError where it is none."""
    text = given[0].strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if len(given) != 1 or not _FORM.fullmatch(text):
        message = f"{HEADER}: is {ascii(', '.join(given))[:80]}; send one key of 1 to 255 visible ASCII characters"
        raise RequestError(400, f"{message}, such as a UUID", code="bad-idempotency-key")
    return text


def _again(known: Remembered, idempotency: Idempotency) -> web.Response:
    refuse_another_request(known, idempotency)
    if known.status is None or known.answer is None:
        message = f"{HEADER}: the first call with {idempotency.key[:80]!r} is still going on; try again in a moment"
        raise RequestError(409, message, code="idempotency-in-progress")
    headers = {**known.headers, REPLAYED: "true"}
    return web.Response(
        text=dumps(known.answer), status=known.status, content_type="application/json", headers=headers
    )  # fmt: skip


def _done(going_on: Remembered, response: web.StreamResponse, *, expires_ms: int) -> Remembered | None:
    """What is remembered of an answer; nothing of a failure, and of what is no JSON."""
    if not isinstance(response, web.Response) or response.status >= 300 or response.text is None:
        return None
    answer: dict[str, Any] = _TOO_LARGE if len(response.text) > MAX_ANSWER_BYTES else json.loads(response.text)
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    return replace(going_on, expires_ms=expires_ms, status=response.status, answer=answer, headers=headers)
