"""What the ways of being known need: the login provider, and the proxy that names the user."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from common.configuration.keys import Kind, UnfitError
from common.errors import Problem
from common.tls import ca_fault

if TYPE_CHECKING:
    from common.configuration.tables import ManagerConfig

_TAKEN: Final = frozenset({
    "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "host", "origin",
    "transfer-encoding", "x-etcron", "x-etcron-proxy-secret", "x-etcron-session", "x-etcron-unattended",
    "x-forwarded-for",
})  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether this names this machine to itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_safe_url(text: str, *, http: bool = True) -> bool:
    """Whether this is an https address without user and fragment; of loopback, where ``http``, plain http will do."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if re.search(r"[^!-~]|\\", text) or not host or "@" in parts.netloc or parts.fragment or "#" in text:
        return False
    return parts.scheme == "https" or (http and parts.scheme == "http" and is_loopback(host))


@dataclass(frozen=True, slots=True)
class Issuer(Kind):
    """The issuer of an OpenID Connect provider."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or len(value) > 500 or not is_safe_url(value) or "?" in value:
            raise UnfitError("https://..., exactly as the provider calls itself (http:// only on this machine)")
        return value

    def shown(self, value: object) -> object:
        """Without a user and a password that a user has written into it."""
        before, at, after = str(value).rpartition("@")
        return f"{before.partition('//')[0]}//***@{after}" if at else value


@dataclass(frozen=True, slots=True)
class Header(Kind):
    """The name of a header that has no meaning yet."""

    def accept(self, value: object) -> str:
        fits = isinstance(value, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", value)
        if not isinstance(value, str) or not fits or value.lower() in _TAKEN:
            raise UnfitError("the name of a header that means nothing else, e.g. X-Remote-User")
        return value


def oidc_problems(config: ManagerConfig) -> Iterator[Problem]:
    """What does not fit each other of the login provider."""
    if config.oidc_issuer is None:
        others = {
            "oidcClientId": config.oidc_client_id, "oidcClientSecretFile": config.oidc_client_secret_file,
            "oidcRedirectUri": config.oidc_redirect_uri, "oidcLabel": config.oidc_label, "oidcCa": config.oidc_ca,
        }  # fmt: skip
        if given := [name for name, value in others.items() if value is not None]:
            message = f"is missing, and {given[0]} is given"
            yield Problem(field="oidcIssuer", message=message, remedy="say which provider, or take the others out")
        return
    if config.oidc_client_id is None:
        remedy = "register etcron at the provider, and give the id that it got"
        yield Problem(field="oidcClientId", message="is missing, and oidcIssuer is given", remedy=remedy)
    if config.oidc_redirect_uri is not None and not is_safe_url(config.oidc_redirect_uri):
        yield Problem(
            field="oidcRedirectUri", message="is plain HTTP beyond this machine: codes could be read on the way",
            remedy="give https://HOST/api/v1/login/oidc/callback",
        )  # fmt: skip
    if config.oidc_ca is not None and (fault := ca_fault(config.oidc_ca)):
        yield Problem(field="oidcCa", message=fault, remedy="name a PEM file that this user can read")


def proxy_problems(config: ManagerConfig) -> Iterator[Problem]:
    """What does not fit each other of the proxy that names the user; it has to prove that it is the proxy."""
    proofs = {
        "proxySecretFile": config.proxy_secret_file, "proxyCa": config.proxy_ca, "proxyUid": config.proxy_uid,
    }  # fmt: skip
    given = [name for name, value in proofs.items() if value is not None]
    if config.proxy_user_header is None:
        others = {**proofs, "proxyGroupsHeader": config.proxy_groups_header, "proxyName": config.proxy_name}
        if named := [name for name, value in others.items() if value is not None]:
            message = f"is missing, and {named[0]} is given"
            yield Problem(field="proxyUserHeader", message=message, remedy="name the header, or take the others out")
        return
    if not given:
        yield Problem(
            field="proxyUserHeader", message="whoever reaches the port could send it",
            remedy=f"say how the proxy proves itself: {', '.join(proofs)}",
        )  # fmt: skip
    if (
        config.proxy_groups_header is not None
        and config.proxy_groups_header.lower() == config.proxy_user_header.lower()
    ):
        yield Problem(
            field="proxyGroupsHeader", message="is the header with the user's name, too", remedy="name another one"
        )
    yield from _certificate_problems(config)


def _certificate_problems(config: ManagerConfig) -> Iterator[Problem]:
    if config.proxy_ca is None:
        if config.proxy_name is not None:
            yield Problem(
                field="proxyCa", message="is missing, and proxyName is given",
                remedy="say who signs the proxy's client certificate",
            )  # fmt: skip
        return
    if config.proxy_name is None:
        message = "is missing, and proxyCa is given: a client with any certificate of that authority could be any user"
        yield Problem(field="proxyName", message=message, remedy="give the DNS name in the proxy's client certificate")
    if config.tls_cert is None:
        remedy = "give tlsCert and tlsKey: without TLS nobody shows a certificate"
        yield Problem(field="proxyCa", message="is given, and the port is without TLS", remedy=remedy)
    if fault := ca_fault(config.proxy_ca):
        yield Problem(field="proxyCa", message=fault, remedy="name a PEM file that this user can read")
