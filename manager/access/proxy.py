"""A trusted proxy names the user in a header, and proves with each call that it is the proxy.

Proofs: a client certificate, a secret that both have in a file, or the Unix socket with the proxy's own system user at
the other end. An address proves nothing, loopback included: each job on that host has it. A call that names a user
without a proof that holds is refused, and not let in as another user: it came past the proxy. Where no header is
configured, none means anything.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from common.access.callers import Identity, Via
from common.access.subjects import Subject, SubjectKind
from common.configuration.config import ManagerConfig
from common.configuration.files import password_in
from common.errors import LoginNeededError
from manager.http.peers import PROXY_SECRET

SECRET_HEADER: Final = PROXY_SECRET
MOST_GROUPS: Final = 200
_REFUSED: Final = "the login is refused: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyWay:
    """The user whom the proxy names."""

    user_header: str
    groups_header: str | None = None
    secret: bytes | None = field(default=None, repr=False)
    by_certificate: bool = False
    """The handshake took only a client's certificate that ``proxyCa`` signed."""
    certificate_name: str | None = None
    uid: int | None = None
    groups_of: Callable[[Subject], frozenset[Subject]] = lambda user: frozenset({user})
    """What bindings may be of for a user, groups of this etcron's own among them."""
    uid_of: Callable[[web.Request], int | None] = lambda _: None
    """Which system user calls through the Unix socket; None: the call did not come through it."""

    async def __call__(self, request: web.Request) -> Identity | None:
        """The user; None: none. LoginNeededError: another than the proxy names one, or it names no user."""
        named = request.headers.getall(self.user_header, ())
        groups = request.headers.getall(self.groups_header, ()) if self.groups_header else ()
        secrets = request.headers.getall(SECRET_HEADER, ())
        if not named and not groups and not secrets:
            return None
        if not self._is_proven(request, secrets):
            raise LoginNeededError(f"{_REFUSED}{self.user_header} is believed of the proxy alone, and this is not it")
        if not named and not groups:
            return None  # the proxy lets a caller through whom it does not know
        if len(named) != 1 or len(groups) > 1:
            raise LoginNeededError(f"{_REFUSED}the proxy has to send {self.user_header} once, and groups at most once")
        return self._identity(named[0], groups[0] if groups else "")

    def _is_proven(self, request: web.Request, secrets: Any) -> bool:
        """A proof that is given has to hold, also beside another one that does."""
        if secrets:
            return self.secret is not None and len(secrets) == 1 and hmac.compare_digest(
                secrets[0].encode("utf-8", "surrogateescape"), self.secret
            )  # fmt: skip
        if self.uid is not None and self.uid_of(request) == self.uid:
            return True
        return self.by_certificate and self._has_certificate(request)

    def _has_certificate(self, request: web.Request) -> bool:
        transport = request.transport
        shown: Mapping[str, Any] | None = None if transport is None else transport.get_extra_info("peercert")
        if not shown:
            return False
        names = {value.casefold() for kind, value in shown.get("subjectAltName", ()) if kind == "DNS"}
        return self.certificate_name is None or self.certificate_name.casefold() in names

    def _identity(self, name: str, groups: str) -> Identity:
        try:
            listed = [one.strip() for one in groups.split(",") if one.strip()]
            if len(listed) > MOST_GROUPS:
                raise ValueError(f"more than {MOST_GROUPS} groups")
            user = Subject(SubjectKind.USER, name)
            subjects = {*self.groups_of(user), *(Subject(SubjectKind.GROUP, one) for one in listed)}
        except ValueError as error:
            raise LoginNeededError(f"{_REFUSED}what the proxy names is no user ({error})") from error
        return Identity(name=name, subjects=frozenset(subjects), via=Via.PROXY)


def proxy_way(
    config: ManagerConfig, *, groups_of: Callable[[Subject], frozenset[Subject]],
    uid_of: Callable[[web.Request], int | None] = lambda _: None,
) -> ProxyWay | None:  # fmt: skip
    """As it is configured; None: no header means anything. Reads the secret's file."""
    if config.proxy_user_header is None:
        return None
    return ProxyWay(
        user_header=config.proxy_user_header, groups_header=config.proxy_groups_header,
        secret=None if config.proxy_secret_file is None else password_in(config.proxy_secret_file).encode(),
        by_certificate=config.proxy_ca is not None, certificate_name=config.proxy_name, uid=config.proxy_uid,
        groups_of=groups_of, uid_of=uid_of,
    )  # fmt: skip
