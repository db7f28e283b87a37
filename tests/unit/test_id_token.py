"""What the login provider signed is believed as a whole, or not at all."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from joserfc import jwk, jwt

from manager.access.oidc.failures import OidcError, Why
from manager.access.oidc.id_token import Expected, Person, UnknownKeyError, claims_of, keys_of, person_of

NOW = 1_800_000_000
EXPECTED = Expected(
    issuer="https://login.test", client="etcron", nonce="n-1", now_s=NOW,
    name_claim="preferred_username", groups_claim="groups",
)  # fmt: skip
CLAIMS: dict[str, Any] = {
    "iss": "https://login.test", "aud": "etcron", "sub": "17", "exp": NOW + 300, "iat": NOW, "nonce": "n-1",
    "preferred_username": "alice", "groups": ["dba", "on call"],
}  # fmt: skip

RSA = jwk.generate_key("RSA", 2048, {"kid": "rsa-1"})
CURVE = jwk.generate_key("EC", "P-256", {"kid": "ec-1"})
FOREIGN = jwk.generate_key("EC", "P-256", {"kid": "ec-1"})
KEYS = keys_of({"keys": [RSA.as_dict(private=False), CURVE.as_dict(private=False)]})


def signed(claims: dict[str, Any], key: Any = CURVE, **head: Any) -> str:
    return jwt.encode({"alg": "ES256", "kid": "ec-1", **head}, claims, key)


def unsigned(claims: dict[str, Any], algorithm: str, signature: str = "") -> str:
    parts = ({"alg": algorithm, "kid": "ec-1"}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), signature]
    )


def believed(token: str, keys: Any, expected: Expected) -> Person:
    """Where UserInfo says nothing."""
    return person_of(claims_of(token, keys, expected), {}, expected)


def test_name_and_groups_are_those_of_the_token() -> None:
    person = believed(signed(CLAIMS), KEYS, EXPECTED)
    assert person == Person(name="alice", groups=frozenset({"dba", "on call"}))
    assert believed(signed(CLAIMS, RSA, alg="RS256", kid="rsa-1"), KEYS, EXPECTED) == person


def test_token_signed_on_an_edwards_curve_is_believed() -> None:
    key = jwk.generate_key("OKP", "Ed25519", {"kid": "ed"})
    token = jwt.encode({"alg": "Ed25519", "kid": "ed"}, CLAIMS, key, algorithms=["Ed25519"])
    assert believed(token, keys_of({"keys": [key.as_dict(private=False)]}), EXPECTED).name == "alice"


def test_groups_that_no_binding_can_name_are_left_out() -> None:
    claims = {**CLAIMS, "groups": ["dba", "", "a\nb", 7, "x" * 129]}
    assert believed(signed(claims), KEYS, EXPECTED).groups == {"dba"}
    assert believed(signed({**CLAIMS, "groups": "dba"}), KEYS, EXPECTED).groups == {"dba"}
    assert not believed(signed({name: CLAIMS[name] for name in CLAIMS if name != "groups"}), KEYS, EXPECTED).groups


REFUSED: dict[str, tuple[dict[str, Any], Why, str]] = {
    "of another issuer": ({"iss": "https://evil.test"}, Why.UNFIT, "another issuer"),
    "issuer with a slash more": ({"iss": "https://login.test/"}, Why.UNFIT, "another issuer"),
    "for another application": ({"aud": "other"}, Why.UNFIT, "aud"),
    "for whoever": ({"aud": []}, Why.UNFIT, "aud"),
    "audience is a part of the name": ({"aud": "etcron2"}, Why.UNFIT, "aud"),
    "for several, without whom it was issued to": ({"aud": ["etcron", "other"]}, Why.UNFIT, "azp"),
    "issued to another application": ({"aud": ["etcron", "other"], "azp": "other"}, Why.UNFIT, "azp"),
    "expired": ({"exp": NOW - 61}, Why.UNFIT, "exp"),
    "never expires": ({"exp": None}, Why.UNFIT, "exp"),
    "expires in words": ({"exp": "never"}, Why.UNFIT, "exp"),
    "expires at true": ({"exp": True}, Why.UNFIT, "exp"),
    "not valid yet": ({"nbf": NOW + 61}, Why.UNFIT, "clocks"),
    "issued in the future": ({"iat": NOW + 61}, Why.UNFIT, "clocks"),
    "nonce of another login": ({"nonce": "n-2"}, Why.UNFIT, "nonce"),
    "without a nonce": ({"nonce": None}, Why.UNFIT, "nonce"),
    "nonce is not ASCII": ({"nonce": "é"}, Why.UNFIT, "nonce"),
    "about nobody": ({"sub": ""}, Why.UNFIT, "sub"),
    "without a name": ({"preferred_username": None}, Why.NAME, "preferred_username"),
    "name with markup": ({"preferred_username": "<img src=x>"}, Why.NAME, "is no name of a user"),
    "name with a line end": ({"preferred_username": "alice\n"}, Why.NAME, "is no name of a user"),
    "groups are an object": ({"groups": {"dba": True}}, Why.UNFIT, "groups"),
    "too many groups": ({"groups": [f"g{number}" for number in range(201)]}, Why.GROUPS, "201"),
}


@pytest.mark.parametrize(("claims", "why", "words"), REFUSED.values(), ids=REFUSED)
def test_token_is_refused(claims: dict[str, Any], why: Why, words: str) -> None:
    with pytest.raises(OidcError) as refused:
        believed(signed({**CLAIMS, **claims}), KEYS, EXPECTED)
    assert refused.value.why is why
    assert words in str(refused.value)


def test_token_for_several_applications_is_believed_where_it_was_issued_to_us() -> None:
    claims = {**CLAIMS, "aud": ["other", "etcron"], "azp": "etcron"}
    assert believed(signed(claims), KEYS, EXPECTED).name == "alice"


def test_user_info_counts_where_the_token_says_nothing() -> None:
    more = {"preferred_username": "bob", "groups": ["root"], "email": "b@test", "email_verified": True}
    whole = Person(name="alice", groups=frozenset({"dba", "on call"}))
    assert person_of(CLAIMS, more, EXPECTED) == whole
    without = {name: CLAIMS[name] for name in CLAIMS if name not in ("preferred_username", "groups")}
    assert person_of(without, more, EXPECTED) == Person(name="bob", groups=frozenset({"root"}))
    assert person_of({**CLAIMS, "groups": []}, more, EXPECTED) == Person(name="alice", groups=frozenset())


def test_attack_with_an_address_of_the_token_that_user_info_calls_verified() -> None:
    by_address = replace(EXPECTED, name_claim="email")
    with pytest.raises(OidcError, match="email_verified"):
        person_of({**CLAIMS, "email": "a@test"}, {"email": "b@test", "email_verified": True}, by_address)


@pytest.mark.parametrize("verified", [False, None, "true"])
def test_address_that_is_not_verified_is_no_name(verified: object) -> None:
    by_address = replace(EXPECTED, name_claim="email")
    with pytest.raises(OidcError, match="email_verified"):
        believed(signed({**CLAIMS, "email": "a@test", "email_verified": verified}), KEYS, by_address)
    assert believed(signed({**CLAIMS, "email": "a@test", "email_verified": True}), KEYS, by_address).name == "a@test"


def test_attack_without_a_signature() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        with pytest.raises(OidcError, match="which is none of"):
            believed(unsigned(CLAIMS, algorithm), KEYS, EXPECTED)
    with pytest.raises(OidcError, match="does not hold"):
        believed(unsigned(CLAIMS, "ES256"), KEYS, EXPECTED)


def test_attack_with_the_public_key_as_the_secret_of_an_hmac() -> None:
    public = jwk.import_key(RSA.as_pem(private=False).replace(b"-----", b"").replace(b"\n", b""), "oct")
    token = jwt.encode({"alg": "HS256", "kid": "rsa-1"}, CLAIMS, public)
    with pytest.raises(OidcError, match="which is none of"):
        believed(token, KEYS, EXPECTED)


def test_attack_with_a_key_in_the_head() -> None:
    token = signed(CLAIMS, FOREIGN, jwk=FOREIGN.as_dict(private=False))
    with pytest.raises(OidcError, match="does not hold"):
        believed(token, KEYS, EXPECTED)


def test_attack_with_a_secret_among_the_keys() -> None:
    secret = jwk.generate_key("oct", 256, {"kid": "s"})
    assert keys_of({"keys": [secret.as_dict(private=True)]}) == []


def test_attack_with_changed_claims() -> None:
    head, _, signature = signed(CLAIMS).split(".")
    claims = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "preferred_username": "root"}).encode()).decode()
    with pytest.raises(OidcError, match="does not hold"):
        believed(f"{head}.{claims.rstrip('=')}.{signature}", KEYS, EXPECTED)


def test_key_that_is_not_known_is_told_apart_so_that_new_ones_are_looked_for() -> None:
    with pytest.raises(UnknownKeyError):
        believed(signed(CLAIMS, kid="ec-2"), KEYS, EXPECTED)
    with pytest.raises(UnknownKeyError):
        believed(signed(CLAIMS, RSA, alg="RS256", kid="ec-1"), KEYS, EXPECTED)


def test_token_without_a_key_id_is_believed_where_only_one_key_can_have_signed_it() -> None:
    token = jwt.encode({"alg": "ES256"}, CLAIMS, CURVE)
    assert believed(token, KEYS, EXPECTED).name == "alice"
    with pytest.raises(OidcError, match="which of the provider's keys"):
        believed(token, [*KEYS, *keys_of({"keys": [{**FOREIGN.as_dict(private=False), "kid": "ec-2"}]})], EXPECTED)


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "..", "é.é.é", "x" * 100_000, "eyJhbGciOiJFUzI1NiJ9.bm9uZQ.AA"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(OidcError):
        believed(token, KEYS, EXPECTED)


@pytest.mark.parametrize("keys", [None, [], {}, {"keys": None}, {"keys": [{}] * 101}])
def test_what_is_no_set_of_keys_is_refused(keys: object) -> None:
    with pytest.raises(OidcError):
        keys_of(keys)


def test_weak_and_foreign_keys_are_left_out() -> None:
    listed = [
        {**RSA.as_dict(private=False), "use": "enc"}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}, {"kty": "AKP"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": 7}, {"kty": []}, "key",
        CURVE.as_dict(private=False),
    ]  # fmt: skip
    assert [key.kid for key in keys_of({"keys": listed})] == ["ec-1"]
