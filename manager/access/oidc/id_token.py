"""What the provider signed, checked as a whole: the user who has logged in, or why that is not believed. Pure.

OpenID Connect Core 1.0, 3.1.3.7; RFC 8725. The key is one of the provider's own, chosen by us: keys and addresses of
keys in the token's head are not followed, and its algorithm is one of a list without ``none`` and HMAC.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from common.access.subjects import Subject, SubjectKind
from manager.access.oidc.failures import OidcError, Why

ALGORITHMS: Final = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "Ed25519": "OKP",
}  # fmt: skip
"""Each with the kind of its keys."""
MOST_BYTES: Final = 64 * 1024
MOST_KEYS: Final = 100
MOST_GROUPS: Final = 200
SKEW_S: Final = 60
"""How far the provider's clock may be from ours."""
_RSA_BITS: Final = range(2048, 8193)
"""Shorter ones are weak, longer ones cost time."""


class UnknownKeyError(OidcError):
    """None of the keys that are known has signed it: the provider may have new ones."""

    def __init__(self, message: str) -> None:
        super().__init__(Why.UNFIT, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The user who has logged in."""

    name: str
    """Fits ``user:<name>``."""
    groups: frozenset[str]
    """Each fits ``group:<name>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The claims that a token must have, and the names of those that identify the user."""

    issuer: str
    client: str
    nonce: str
    now_s: float
    name_claim: str
    groups_claim: str


def keys_of(document: object) -> list[jwk.Key]:
    """The keys of a JWKS that can verify a token of ours; others are left out. OidcError: it is no JWKS."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise OidcError(Why.AWAY, f"the provider's keys are no list of at most {MOST_KEYS} keys")
    found = []
    for one in listed:
        if not isinstance(one, dict) or one.get("kty") not in ALGORITHMS.values() or one.get("use", "sig") != "sig":
            continue
        try:
            key = jwk.import_key({**one, "kty": str(one["kty"])})
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if not isinstance(key, jwk.RSAKey) or key.raw_value.key_size in _RSA_BITS:
            found.append(key)
    return found


def claims_of(token: str, keys: Sequence[jwk.Key], expected: Expected) -> Mapping[str, Any]:
    """The token's claims. OidcError: it is not believed; UnknownKeyError: not with these keys."""
    claims = _claims(token, keys)
    _check(claims, expected)
    return claims


def is_whole(claims: Mapping[str, Any], expected: Expected) -> bool:
    """Whether the token itself has the name and the groups."""
    return claims.get(expected.name_claim) is not None and expected.groups_claim in claims


def person_of(claims: Mapping[str, Any], more: Mapping[str, Any], expected: Expected) -> Person:
    """The user who has logged in. OidcError: none who could have a name here.

    ``more``: UserInfo's claims of the same subject. They count where the token has none; an address and that it is
    verified come from one of the two.
    """
    of_name = more if claims.get(expected.name_claim) is None else claims
    of_groups = claims if expected.groups_claim in claims else more
    return Person(name=_name(of_name, expected.name_claim), groups=_groups(of_groups, expected.groups_claim))


def _claims(token: str, keys: Sequence[jwk.Key]) -> Mapping[str, Any]:
    if len(token) > MOST_BYTES:
        raise OidcError(Why.UNFIT, f"the token is longer than {MOST_BYTES:,} bytes")
    try:
        head = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError) as error:
        raise OidcError(Why.UNFIT, "the token is no signed token") from error
    key = _key(head, keys)
    try:
        return jwt.decode(token, key, algorithms=[head["alg"]]).claims
    except (JoseError, ValueError, TypeError) as error:
        raise OidcError(Why.UNFIT, f"the token's signature does not hold ({type(error).__name__})") from error


def _key(head: Mapping[str, Any], keys: Sequence[jwk.Key]) -> jwk.Key:
    algorithm = head.get("alg")
    kind = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if kind is None:
        raise OidcError(
            Why.UNFIT, f"the token is signed with {str(algorithm)[:40]!r}, which is none of {', '.join(ALGORITHMS)}"
        )
    fit = [key for key in keys if key.key_type == kind and key.get("alg") in (None, algorithm)]
    named = head.get("kid")
    if named is not None:
        fit = [key for key in fit if key.kid == named]
    if not fit:
        raise UnknownKeyError("the token is signed with a key that is not the provider's")
    if len(fit) > 1:
        raise OidcError(Why.UNFIT, "the token does not say which of the provider's keys has signed it")
    return fit[0]


def _check(claims: Mapping[str, Any], expected: Expected) -> None:
    if claims.get("iss") != expected.issuer:
        raise OidcError(Why.UNFIT, f"the token is of another issuer, {str(claims.get('iss'))[:200]!r}")
    audience = claims.get("aud")
    listed = [audience] if isinstance(audience, str) else audience
    if not isinstance(listed, list) or expected.client not in listed:
        raise OidcError(Why.UNFIT, "the token is for another application (aud)")
    party = claims.get("azp")
    if party != expected.client and (party is not None or len(listed) > 1):
        raise OidcError(Why.UNFIT, "the token was issued to another application (azp)")
    until, since, issued = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
    if until is None or until <= expected.now_s - SKEW_S:
        raise OidcError(Why.UNFIT, "the token has expired, or does not say when it does (exp); compare the clocks")
    if max(since or 0, issued or 0) > expected.now_s + SKEW_S:
        raise OidcError(Why.UNFIT, "the token is of a time to come; compare the clocks")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise OidcError(Why.UNFIT, "the token is of another login (nonce)")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise OidcError(Why.UNFIT, "the token does not say who it is about (sub)")


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise OidcError(Why.UNFIT, f"the token's {name} is no number")
    return value


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str):
        raise OidcError(Why.NAME, f"neither the ID token nor UserInfo has a text {claim} (oidcNameClaim, oidcScopes)")
    if claim == "email" and claims.get("email_verified") is not True:
        raise OidcError(Why.NAME, "the provider does not say that the address is verified (email_verified)")
    try:
        return Subject(SubjectKind.USER, name).name
    except ValueError as error:
        raise OidcError(Why.NAME, f"{error}; have the provider give another one (oidcNameClaim)") from error


def _groups(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    listed = claims.get(claim, [])
    listed = [listed] if isinstance(listed, str) else listed
    if not isinstance(listed, list):
        raise OidcError(Why.UNFIT, f"the provider's {claim} is no list of groups")
    found = set()
    for one in listed:
        try:
            found.add(Subject(SubjectKind.GROUP, one).name)
        except (ValueError, TypeError):
            continue  # no binding can be of it
    if len(found) > MOST_GROUPS:
        raise OidcError(
            Why.GROUPS,
            f"the provider names {len(found):,} groups of this user, more than {MOST_GROUPS}; have it name fewer",
        )
    return frozenset(found)
