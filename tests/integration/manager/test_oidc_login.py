"""One login through an OpenID Connect provider, from its start to the way back; and attacks on it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from joserfc import jwk
from oidc_provider_mock import User

from common.clock import Clock, SystemClock
from manager.access.oidc.failures import OidcError, Why
from manager.access.oidc.id_token import Person
from manager.access.oidc.login import OidcLogin, own_path
from manager.access.oidc.provider import MOST_BYTES, Provider
from tests.support.clocks import OffClock
from tests.support.oidc import CLIENT, LyingProvider, consent, lying_provider, query_of, real_provider

BACK = "http://127.0.0.1:8070/api/v1/login/oidc/callback"
REAL = SystemClock()


class Later(OffClock):
    """Its seconds go on as the test says."""

    passed_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_s


def login_at(issuer: str, *, clock: Clock = REAL, within_s: float = 4.0, secret: Path | None = None) -> OidcLogin:
    provider = Provider(issuer, CLIENT, secret_file=secret, ca=None, clock=clock, within_s=within_s)
    claims = {"name_claim": "preferred_username", "groups_claim": "groups"}
    return OidcLogin(provider, scopes="openid profile email", clock=clock, **claims)


@pytest.fixture
async def lying() -> Any:
    async with lying_provider() as provider:
        yield provider


async def refusal(login: OidcLogin, cookie: str | None, query: dict[str, str], *, at: str = BACK) -> OidcError:
    with pytest.raises(OidcError) as refused:
        await login.finish(cookie, query, redirect_uri=at)
    return refused.value


async def finished(login: OidcLogin, provider: LyingProvider) -> Person:
    begun = await login.begin(redirect_uri=BACK, back="/runs?job=a")
    done = await login.finish(begun.cookie, provider.allow(begun.url), redirect_uri=BACK)
    assert done.back == "/runs?job=a"
    return done.person


@pytest.mark.filterwarnings("ignore")  # of the package
async def test_person_logs_in_through_a_provider_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2: with / and é\n")
    alice = User(sub="17", claims={"preferred_username": "alice", "groups": ["dba"]})
    with real_provider(alice, monkeypatch=monkeypatch) as issuer:
        login = login_at(issuer, secret=secret)
        begun = await login.begin(redirect_uri=BACK, back="/runs")
        asked = query_of(begun.url)
        assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
        back = await consent(begun.url, "17")
        assert back.startswith(f"{BACK}?")
        done = await login.finish(begun.cookie, query_of(back), redirect_uri=BACK)
        assert (done.person, done.back) == (Person(name="alice", groups=frozenset({"dba"})), "/runs")


@pytest.mark.filterwarnings("ignore")  # of the package
async def test_user_says_no_at_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with real_provider(monkeypatch=monkeypatch) as issuer:
        login = login_at(issuer)
        begun = await login.begin(redirect_uri=BACK, back="/")
        back = query_of(await consent(begun.url, "", refuse=True))
        back.setdefault("state", query_of(begun.url)["state"])  # the package leaves it out
        refused = await refusal(login, begun.cookie, back)
        assert refused.why is Why.REFUSED
        assert "access_denied" in str(refused)


async def test_each_login_has_a_state_a_nonce_and_a_challenge_of_its_own(lying: LyingProvider) -> None:
    login = login_at(lying.issuer)
    first, second = [query_of((await login.begin(redirect_uri=BACK, back="/")).url) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) == 43
        assert len({first["state"], first["nonce"], first["code_challenge"], second[name]}) == 4


async def test_address_bar_tells_nothing_of_what_the_cookie_holds(lying: LyingProvider) -> None:
    begun = await login_at(lying.issuer).begin(redirect_uri=BACK, back="/")
    assert begun.cookie.split(".")[0] not in begun.url
    assert begun.cookie not in repr(begun)


async def test_another_manager_finishes_the_login(lying: LyingProvider) -> None:
    begun = await login_at(lying.issuer).begin(redirect_uri=BACK, back="/")
    done = await login_at(lying.issuer).finish(begun.cookie, lying.allow(begun.url), redirect_uri=BACK)
    assert done.person.name == "alice"


async def test_attack_with_the_answer_to_the_attackers_login_in_the_victims_browser(lying: LyingProvider) -> None:
    login = login_at(lying.issuer)
    victim, attacker = [await login.begin(redirect_uri=BACK, back="/") for _ in range(2)]
    answer = lying.allow(attacker.url)
    other = "A" if attacker.cookie[0] != "A" else "B"
    for cookie in (victim.cookie, None, "", "x", other + attacker.cookie[1:]):
        assert (await refusal(login, cookie, answer)).why is Why.STALE
    assert "/token" not in lying.asked


async def test_attack_with_a_stolen_code_in_ones_own_login(lying: LyingProvider) -> None:
    login = login_at(lying.issuer)
    victim, attacker = [await login.begin(redirect_uri=BACK, back="/") for _ in range(2)]
    stolen = lying.allow(victim.url)["code"]
    refused = await refusal(login, attacker.cookie, {"code": stolen, "state": query_of(attacker.url)["state"]})
    assert refused.why is Why.REFUSED  # the provider: the verifier is another one (PKCE)


async def test_attack_that_replays_what_came_back(lying: LyingProvider) -> None:
    lying.spends_codes = False
    login = login_at(lying.issuer)
    begun = await login.begin(redirect_uri=BACK, back="/")
    answer = lying.allow(begun.url)
    await login.finish(begun.cookie, answer, redirect_uri=BACK)
    refused = await refusal(login, begun.cookie, answer)
    assert (refused.why, "before" in str(refused)) == (Why.STALE, True)


async def test_of_two_at_the_same_time_one_is_let_in(lying: LyingProvider) -> None:
    lying.spends_codes = False
    login = login_at(lying.issuer)
    begun = await login.begin(redirect_uri=BACK, back="/")
    answer = lying.allow(begun.url)
    both = [login.finish(begun.cookie, answer, redirect_uri=BACK) for _ in range(2)]
    found = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(one).__name__ for one in found) == ["Finished", "OidcError"]


async def test_attack_with_a_cookie_that_says_it_is_younger_or_leads_elsewhere(lying: LyingProvider) -> None:
    login = login_at(lying.issuer)
    begun = await login.begin(redirect_uri=BACK, back="/")
    answer = lying.allow(begun.url)
    secret, started, back = begun.cookie.split(".")
    for changed in (f"{secret}.{int(started) + 1}.{back}", f"{secret}.{started}.L3J1bnM"):
        assert (await refusal(login, changed, answer)).why is Why.STALE
    assert (await refusal(login, begun.cookie, answer, at="http://evil.test/")).why is Why.STALE


async def test_login_that_was_begun_too_long_ago_is_refused(lying: LyingProvider) -> None:
    clock = OffClock()
    login = login_at(lying.issuer, clock=clock)
    begun = await login.begin(redirect_uri=BACK, back="/")
    answer = lying.allow(begun.url)
    clock.offset_ms = 601_000
    assert (await refusal(login, begun.cookie, answer)).why is Why.STALE


@pytest.mark.parametrize(
    ("brought", "announced"), [("https://evil.test", False), ("https://evil.test", True), (None, True)]
)
async def test_attack_with_the_answer_of_another_provider(
    lying: LyingProvider, brought: str | None, announced: bool
) -> None:
    lying.metadata = {"authorization_response_iss_parameter_supported": announced}
    login = login_at(lying.issuer)
    begun = await login.begin(redirect_uri=BACK, back="/")
    answer = lying.allow(begun.url) | ({} if brought is None else {"iss": brought})
    assert (await refusal(login, begun.cookie, answer)).why is Why.UNFIT
    assert "/token" not in lying.asked


@pytest.mark.parametrize(
    "claims", [{"nonce": "of another login"}, {"aud": "another application"}, {"iss": "https://evil.test"}]
)
async def test_attack_with_a_token_that_was_made_for_something_else(
    lying: LyingProvider, claims: dict[str, str]
) -> None:
    lying.claims = claims
    login = login_at(lying.issuer)
    begun = await login.begin(redirect_uri=BACK, back="/")
    assert (await refusal(login, begun.cookie, lying.allow(begun.url))).why is Why.UNFIT


async def test_provider_changes_its_keys(lying: LyingProvider) -> None:
    clock = Later()
    login = login_at(lying.issuer, clock=clock)
    await finished(login, lying)
    lying.key = jwk.generate_key("EC", "P-256", {"kid": "k2"})
    begun = await login.begin(redirect_uri=BACK, back="/")
    assert (await refusal(login, begun.cookie, lying.allow(begun.url))).why is Why.UNFIT  # looked a moment ago
    clock.passed_s += 11
    assert (await finished(login, lying)).name == "alice"
    assert lying.asked.count("/keys") == 2


async def test_what_the_provider_says_of_itself_is_asked_once(lying: LyingProvider) -> None:
    login = login_at(lying.issuer)
    for _ in range(3):
        await finished(login, lying)
    assert (lying.asked.count("/keys"), lying.asked.count("/.well-known/openid-configuration")) == (1, 1)


async def _never() -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


def _huge() -> web.Response:
    return web.Response(text=json.dumps({"keys": ["x" * 1000] * (MOST_BYTES // 1000 + 1)}))


BROKEN = {
    "never answers": (_never, "does not answer within"),
    "answers with an error": (lambda: web.Response(status=500), "500"),
    "answers with what is no JSON": (lambda: web.Response(text="<html>"), ""),
    "answers with JSON that is nested too deep": (lambda: web.Response(text="[" * 100_000), ""),
    "answers without end": (_huge, "longer than"),
    "sends us elsewhere": (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "302"),
}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys"])
@pytest.mark.parametrize(("answer", "words"), BROKEN.values(), ids=BROKEN)
async def test_provider_is_broken(lying: LyingProvider, path: str, answer: Any, words: str) -> None:
    lying.answers = {path: answer}
    login = login_at(lying.issuer, within_s=1.0 if answer is _never else 10.0)
    with pytest.raises(OidcError) as refused:
        await finished(login, lying)
    assert refused.value.why is Why.AWAY
    assert words in str(refused.value)


@pytest.mark.parametrize(("answer", "words"), BROKEN.values(), ids=BROKEN)
async def test_provider_gives_no_token(lying: LyingProvider, answer: Any, words: str) -> None:
    lying.answers = {"/token": answer}
    login = login_at(lying.issuer, within_s=1.0 if answer is _never else 10.0)
    with pytest.raises(OidcError) as refused:
        await finished(login, lying)
    assert refused.value.why in (Why.AWAY, Why.REFUSED)


@pytest.mark.parametrize("only", [{"preferred_username"}, {"groups"}, {"preferred_username", "groups"}])
async def test_name_and_groups_that_stand_in_user_info_alone(lying: LyingProvider, only: set[str]) -> None:
    lying.groups, lying.only_in_user_info = ("dba",), frozenset(only)
    assert await finished(login_at(lying.issuer), lying) == Person(name="alice", groups=frozenset({"dba"}))


async def test_user_info_is_not_asked_where_the_token_says_all(lying: LyingProvider) -> None:
    await finished(login_at(lying.issuer), lying)
    assert "/userinfo" not in lying.asked


@pytest.mark.parametrize("told", [{"sub": "mallory"}, {"sub": None}, {}, []])
async def test_attack_with_the_user_info_of_another_user(lying: LyingProvider, told: Any) -> None:
    lying.only_in_user_info = frozenset({"preferred_username"})
    answer = {**told, "preferred_username": "root"} if isinstance(told, dict) else told
    lying.answers = {"/userinfo": lambda: web.json_response(answer)}
    with pytest.raises(OidcError) as refused:
        await finished(login_at(lying.issuer), lying)
    assert (refused.value.why, "UserInfo" in str(refused.value)) == (Why.UNFIT, True)


@pytest.mark.parametrize(("answer", "words"), BROKEN.values(), ids=BROKEN)
async def test_user_info_is_broken(lying: LyingProvider, answer: Any, words: str) -> None:
    lying.only_in_user_info = frozenset({"groups"})
    lying.answers = {"/userinfo": answer}
    login = login_at(lying.issuer, within_s=1.0 if answer is _never else 10.0)
    with pytest.raises(OidcError) as refused:
        await finished(login, lying)
    assert refused.value.why in (Why.AWAY, Why.UNFIT)
    assert words in str(refused.value)


async def test_provider_without_user_info_names_no_groups(lying: LyingProvider) -> None:
    lying.groups, lying.only_in_user_info = ("dba",), frozenset({"groups"})
    lying.metadata = {"userinfo_endpoint": None}
    assert await finished(login_at(lying.issuer), lying) == Person(name="alice", groups=frozenset())


async def test_provider_that_is_away_is_asked_again_only_after_a_while() -> None:
    clock = Later()
    async with lying_provider() as provider:
        provider.answers = {"/.well-known/openid-configuration": lambda: web.Response(status=503)}
        login = login_at(provider.issuer, clock=clock)
        for _ in range(5):
            with pytest.raises(OidcError, match="503"):
                await login.begin(redirect_uri=BACK, back="/")
        assert len(provider.asked) == 1
        provider.answers.clear()
        clock.passed_s += 11
        assert (await finished(login, provider)).name == "alice"


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/", "http://internal.test/", "file:///etc/passwd", "javascript:alert(1)", 7, ""]
)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
async def test_attack_by_a_provider_that_sends_us_into_our_own_network(
    lying: LyingProvider, name: str, place: object
) -> None:
    lying.metadata = {name: place}
    with pytest.raises(OidcError, match=name):
        await login_at(lying.issuer).begin(redirect_uri=BACK, back="/")


async def test_provider_that_calls_itself_otherwise_is_not_believed(lying: LyingProvider) -> None:
    lying.metadata = {"issuer": "https://evil.test"}
    with pytest.raises(OidcError, match="calls itself"):
        await login_at(lying.issuer).begin(redirect_uri=BACK, back="/")


OWN = ["/", "/runs", "/jobs/a%2Fb", "/runs?job=a&status=failed", "/new"]
FOREIGN = [
    "", "runs", "//evil.test", "///evil.test", "/\\evil.test", "\\\\evil.test", "https://evil.test",
    "javascript:alert(1)", "/\t/evil.test", "/ evil", "/é", "/\n//evil.test", "/api/v1/logout", "/login", "/login/x",
    "/" + "a" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("path", OWN)
def test_after_the_login_one_is_where_one_was(path: str) -> None:
    assert own_path(path) == path


@pytest.mark.parametrize("path", FOREIGN)
def test_attack_that_leads_to_a_foreign_page_after_the_login(path: str) -> None:
    assert own_path(path) == "/"
