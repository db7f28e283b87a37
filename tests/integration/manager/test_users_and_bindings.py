"""Users, service accounts and bindings through the API: who may change them, what is refused, what goes with whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from common.access.rights import Role
from common.errors import OvertakenError
from common.etcd.settle import Settled
from common.protocol.txn import KeyValue
from manager.use_cases.records import Records
from tests.support.access import Accessing, kept_of
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

PASSWORD: Final = "three words in a row"
API: Final = "/api/v1"
ADMIN: Final = {"subject": "user:alice", "role": "admin", "labels": "all", "runAs": "all", "workers": "all"}
VIEWER: Final = {"subject": "user:bob", "role": "viewer", "labels": {"team": ["billing"]}}
CALLS: Final = (
    ("GET", "/users", None), ("POST", "/users", {"name": "bob"}), ("GET", "/users/root", None),
    ("PATCH", "/users/root", {"disabled": True}), ("DELETE", "/users/root", None),
    ("GET", "/services", None), ("POST", "/services", {"name": "ci"}),
    ("PATCH", "/services/ci", {"disabled": True}), ("DELETE", "/services/ci", None),
    ("GET", "/bindings", None), ("POST", "/bindings", VIEWER), ("DELETE", "/bindings/000000000000", None),
    ("GET", "/access/explain?subject=user:root", None), ("GET", "/access/explain?job=j", None),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """An administrator, root, at a manager."""

    manager: Managed
    access: Accessing
    root: dict[str, str]

    async def ask(self, method: str, path: str, body: object = None, *, status: int = 200, if_match: str = "") -> Any:
        """The answer, which has this status."""
        headers = self.root | ({"If-Match": if_match} if if_match else {})
        response = await self.manager.http.request(method, API + path, json=body, headers=headers)
        assert response.status == status, (body, await response.text())
        return await response.json()

    async def stored(self) -> dict[str, KeyValue]:
        """Everything under the keys of users and bindings."""
        found = {}
        async for page in self.manager.etcd.read_prefix(self.access.keys.prefix):
            found.update({kv.key: kv for kv in page.kvs})
        return found

    async def names(self, kind: str) -> list[str]:
        """Of the records of one kind."""
        prefix = self.access.keys.prefix + kind
        return [key.removeprefix(prefix) for key in await self.stored() if key.startswith(prefix)]


async def a_desk(manager: Managed) -> Desk:
    access = Accessing(manager)
    kept = await kept_of(PASSWORD)
    return Desk(manager=manager, access=access, root=await access.user("root", Role.ADMIN, password=kept))


@pytest.fixture(params=["required", "warn", "off"])
async def desk(place: Place, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    """Where a login is asked for, and where none is: users and bindings are guarded everywhere."""
    async with managing(place, auth=request.param) as manager:
        yield await a_desk(manager)


@pytest.fixture
async def one(place: Place) -> AsyncIterator[Desk]:
    async with managing(place, auth="required") as manager:
        yield await a_desk(manager)


# Who may


@pytest.mark.parametrize("who", ["nobody", "a user without a binding", "an editor of everything", "an admin of a team"])
async def test_nobody_but_an_administrator_of_everything_touches_users(desk: Desk, who: str) -> None:
    """Attack: somebody makes themselves an administrator while no login is asked for yet, or by less than that."""
    headers: dict[str, str] = {}
    if who == "a user without a binding":
        headers = await desk.access.user("eve")
    elif who == "an editor of everything":
        headers = await desk.access.user("eve", Role.EDITOR)
    elif who == "an admin of a team":
        headers = await desk.access.user("eve", Role.ADMIN, labels={"team": ["billing"]})
    before = await desk.stored()
    for method, path, body in CALLS:
        response = await desk.manager.http.request(method, API + path, json=body, headers=headers)
        await problem_of(response, 403 if headers else 401)
    assert await desk.stored() == before


async def test_admin_whose_token_is_capped_touches_no_users(desk: Desk) -> None:
    """Attack: a token that was given away for less is used as its owner."""
    headers = await desk.access.token("user:root", role=Role.EDITOR)
    for method, path, body in CALLS:
        await problem_of(await desk.manager.http.request(method, API + path, json=body, headers=headers), 403)


# Users


async def test_user_is_added_shown_and_listed_without_the_hash(desk: Desk) -> None:
    made = await desk.ask(
        "POST", "/users", {"name": "alice", "password": PASSWORD, "groups": ["dba", "Büro 3"]}, status=201
    )
    assert {**made, "createdMs": 0, "changedMs": 0} == {
        "name": "alice", "groups": ["Büro 3", "dba"], "disabled": False, "hasPassword": True, "createdMs": 0,
        "changedMs": 0, "createdBy": "root (token test)",
    }  # fmt: skip
    shown = await desk.ask("GET", "/users/alice")
    assert (shown["bindings"], shown["sessions"], shown["tokens"]) == ([], 0, 0)
    listed = (await desk.ask("GET", "/users"))["items"]
    assert [user["name"] for user in listed] == ["alice", "root"]
    for text in map(str, (made, shown, listed)):
        assert "argon2" not in text
    kv = await desk.manager.etcd.get(desk.access.keys.user("alice"))
    assert kv is not None
    assert PASSWORD.encode() not in kv.value


async def test_users_come_page_by_page(one: Desk) -> None:
    for name in ("b.b", "a@x", "c+d"):
        await one.ask("POST", "/users", {"name": name}, status=201)
    names, cursor = [], ""
    while cursor is not None:
        page = await one.ask("GET", f"/users?limit=1&cursor={cursor.replace('+', '%2B')}")
        names += [user["name"] for user in page["items"]]
        cursor = page["nextCursor"]
    assert names == ["a@x", "b.b", "c+d", "root"]


async def test_name_that_is_taken_is_a_conflict_and_changes_nothing(one: Desk) -> None:
    before = await one.stored()
    await one.ask("POST", "/users", {"name": "root", "password": PASSWORD}, status=409)
    assert await one.stored() == before


async def test_name_that_differs_from_another_in_capital_letters_alone_is_refused(one: Desk) -> None:
    """Attack: `Root` is added, and somebody gives it the rights that they mean to give to root."""
    refused = await one.ask("POST", "/users", {"name": "Root", "password": PASSWORD}, status=409)
    assert "there is a user root already" in refused["detail"]
    assert await one.names("users/") == ["root"]


@pytest.mark.parametrize(("kind", "before"), [("users", ["root"]), ("services", [])])
async def test_of_names_that_differ_in_capital_letters_alone_added_at_once_one_is_taken(
    one: Desk, kind: str, before: list[str]
) -> None:
    """Attack: two administrators' calls look at the same moment, and each finds nothing like its name."""
    names = ["deploy", "Deploy", "dEploy", "DEPLOY"]
    calls = [one.manager.http.post(f"{API}/{kind}", json={"name": name}, headers=one.root) for name in names]
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert len(await one.names(f"{kind}/")) == len(before) + 1


NO_USERS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"name": ""}, {"name": "a/b"}, {"name": "<script>"}, {"name": "a b"}, {"name": "../x"}, {"name": "x" * 129},
    {"name": 1}, {"name": "a\u0000"}, {"name": "alice", "password": "short"}, {"name": "alice", "password": "x" * 257},
    {"name": "alice", "password": "password1"}, {"name": "alice", "password": 12345678},
    {"name": "alice", "groups": "dba"}, {"name": "alice", "groups": ["a\nb"]}, {"name": "alice", "groups": ["a", "a"]},
    {"name": "alice", "groups": [" dba"]}, {"name": "alice", "groups": ["\u202eabd"]},
    {"name": "alice", "groups": [f"g{n}" for n in range(101)]}, {"name": "alice", "disabled": False},
    {"name": "alice", "role": "admin"},
)  # fmt: skip


async def test_what_no_user_can_be_is_refused_and_changes_nothing(one: Desk) -> None:
    before = await one.stored()
    for body in NO_USERS:
        problem = await one.ask("POST", "/users", body, status=400)
        assert problem["code"] == "invalid-input", body
        assert all(error["remedy"] for error in problem["errors"]), body
        assert await one.stored() == before, body


async def test_every_mistake_is_told_at_once(one: Desk) -> None:
    problem = await one.ask("POST", "/users", {"name": "a/b", "groups": [""], "admin": True}, status=400)
    assert {error["field"] for error in problem["errors"]} == {"name", "groups[0]", "admin"}


async def test_password_is_repeated_by_no_answer(one: Desk) -> None:
    """Attack: whoever reads logs of answers finds what somebody tried to set."""
    for password in ("seven77", "password1", "\ud800secret-secret"):
        body = {"name": "alice", "password": password}
        response = await one.manager.http.post(f"{API}/users", json=body, headers=one.root)
        assert response.status == 400
        assert "seven77" not in (text := await response.text())
        assert "password1" not in text
        assert "secret-secret" not in text


@pytest.mark.parametrize("group", ["<img src=x onerror=alert(1)>", "'; drop", "データ ベース", "a:b=c", "{{7*7}}"])
async def test_group_is_data_whatever_it_looks_like(one: Desk, group: str) -> None:
    """Attack: a name that is a script, an expression or a query to whoever shows it."""
    await one.ask("POST", "/users", {"name": "alice", "groups": [group]}, status=201)
    await one.ask("POST", "/bindings", {**VIEWER, "subject": f"group:{group}"}, status=201)
    shown = await one.ask("GET", "/users/alice")
    assert shown["groups"] == [group]
    assert [binding["subject"] for binding in shown["bindings"]] == [f"group:{group}"]


async def test_secret_is_not_remembered_by_an_idempotency_key(one: Desk) -> None:
    """Attack: what is kept of a request, for whoever repeats it, is tried against words beside the hash."""
    response = await one.manager.http.post(
        f"{API}/users", json={"name": "alice", "password": PASSWORD}, headers={**one.root, "Idempotency-Key": "k1"}
    )
    assert "Idempotency-Key" in (await problem_of(response, 400))["detail"]
    assert await one.names("users/") == ["root"]
    assert await one.manager.stored() == {}


# Changes


async def test_change_of_a_user_who_was_changed_since_they_were_read_is_refused(one: Desk) -> None:
    """Two administrators: one takes a group away, and the other writes the groups that the page has shown since."""
    await one.ask("POST", "/users", {"name": "bob", "groups": ["ops"]}, status=201)
    read = await one.ask("GET", "/users/bob")
    listed = (await one.ask("GET", "/users"))["items"]
    assert listed[0]["revision"] == read["revision"]
    response = await one.manager.http.get(f"{API}/users/bob", headers=one.root)
    assert response.headers["ETag"] == f'"{read["revision"]}"'
    await one.ask("PATCH", "/users/bob", {"groups": []}, if_match=response.headers["ETag"])
    both = {"groups": ["ops", "dev"]}
    refused = await one.ask("PATCH", "/users/bob", both, status=412, if_match=response.headers["ETag"])
    assert refused["code"] == "stale-revision"
    assert (await one.ask("GET", "/users/bob"))["groups"] == []
    await one.ask("PATCH", "/users/bob", both, if_match="*")
    await one.ask("PATCH", "/users/bob", {"groups": ["dev"]})  # scripts name no revision


async def test_changing_groups_leaves_the_password_and_sessions(one: Desk) -> None:
    await one.ask("POST", "/users", {"name": "alice", "password": PASSWORD}, status=201)
    await one.access.session("user:alice")
    changed = await one.ask("PATCH", "/users/alice", {"groups": ["ops"]})
    assert (changed["groups"], changed["hasPassword"], changed["sessionsEnded"]) == (["ops"], True, 0)
    assert len(await one.names("sessions/")) == 1


@pytest.mark.parametrize("change", [{"password": "another three words"}, {"disabled": True}])
async def test_new_password_or_being_disabled_ends_every_session(one: Desk, change: dict[str, Any]) -> None:
    """Attack: who has taken a session over stays in, although the password was changed for that."""
    await one.ask("POST", "/users", {"name": "alice", "password": PASSWORD}, status=201)
    cookie = await one.access.session("user:alice")
    await one.access.session("user:alice")
    kept = await one.access.session("user:root")
    changed = await one.ask("PATCH", "/users/alice", change)
    assert changed["sessionsEnded"] == 2
    assert len(await one.names("sessions/")) == 1
    answer = await one.manager.http.get(f"{API}/openapi.json", headers=cookie.headers)
    assert answer.status == 401
    assert (await one.manager.http.get(f"{API}/openapi.json", headers=kept.headers)).status == 200


async def test_right_that_is_taken_away_is_gone_when_the_answer_comes(one: Desk) -> None:
    eve = await one.access.user("eve", Role.VIEWER)
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 200
    await one.ask("PATCH", "/users/eve", {"disabled": True})
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 401


@pytest.mark.parametrize("body", [{}, {"name": "x"}, {"groups": None}, {"password": "short"}, {"disabled": "yes"}])
async def test_change_of_nothing_or_of_nonsense_is_refused(one: Desk, body: dict[str, Any]) -> None:
    before = await one.stored()
    await one.ask("PATCH", "/users/root", body, status=400)
    assert await one.stored() == before


# Removal


async def test_removed_user_takes_sessions_tokens_links_and_bindings_along(one: Desk) -> None:
    eve = await one.access.user("eve", Role.VIEWER, groups=["dba"])
    await one.access.session("user:eve")
    await one.access.bind("group:dba", Role.VIEWER)
    other = await one.access.user("eve.two", Role.VIEWER)
    link = b'{"subject":"user:eve","role":null,"reason":"x","createdMs":0,"sessionMs":1}'
    await one.access.put(one.access.keys.link("ab" * 32), link)
    gone = await one.ask("DELETE", "/users/eve")
    assert (gone["sessions"], gone["tokens"], gone["bindings"]) == (1, 1, 1)
    assert gone["message"] == "eve is removed, with 1 session, 1 token, 1 binding"
    assert await one.names("users/") == ["eve.two", "root"]
    assert await one.names("links/") == []
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 401
    assert (await one.manager.http.get(f"{API}/jobs", headers=other)).status == 200
    left = (await one.ask("GET", "/bindings"))["items"]
    assert [binding["subject"] for binding in left] == ["group:dba", "user:eve.two", "user:root"]


async def test_user_with_more_than_one_batch_of_tokens_leaves_none(one: Desk) -> None:
    await one.access.user("eve")
    for number in range(230):
        await one.manager.etcd.put(one.access.keys.token(f"{number:012x}"), b'{"owner":"user:eve"}')
    assert (await one.ask("DELETE", "/users/eve"))["tokens"] == 231
    assert len(await one.names("tokens/")) == 1


async def test_name_that_is_given_again_inherits_nothing(one: Desk) -> None:
    """Attack: whoever gets the name of a former colleague has their rights."""
    await one.access.user("eve", Role.ADMIN)
    await one.ask("DELETE", "/users/eve")
    await one.ask("POST", "/users", {"name": "eve"}, status=201)
    assert (await one.ask("GET", "/users/eve"))["bindings"] == []


async def test_removal_that_was_interrupted_is_finished_by_the_next_try(one: Desk) -> None:
    await one.access.user("eve", Role.VIEWER)
    await one.access.change_user("eve", disabled=True)
    await one.ask("DELETE", "/users/eve")
    assert await one.names("users/") == ["root"]


async def test_removal_that_others_overtake_to_the_end_says_what_was_done(
    one: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.access.user("eve", Role.VIEWER)
    write = Records.write

    async def overtaken(records: Records, what: str, *others: Any) -> Settled:
        if what == "eve is removed":
            raise OvertakenError("others were faster")
        return await write(records, what, *others)

    monkeypatch.setattr(Records, "write", overtaken)
    problem = await one.ask("DELETE", "/users/eve", status=503)
    assert "eve is disabled and has lost what was theirs, and is still there" in problem["detail"]
    assert (await one.ask("GET", "/users/eve"))["disabled"]
    assert (await one.ask("GET", "/users/eve"))["bindings"] == []


async def test_record_that_cannot_be_read_is_shown_and_can_be_removed(one: Desk) -> None:
    await one.access.put(one.access.keys.user("odd"), b"{")
    await one.access.put(one.access.keys.binding("0" * 12), b"[]")
    listed = (await one.ask("GET", "/users"))["items"]
    assert [user["name"] for user in listed if "problem" in user] == ["odd"]
    await one.ask("PATCH", "/users/odd", {"disabled": True}, status=409)
    await one.ask("DELETE", "/users/odd")
    assert any("problem" in binding for binding in (await one.ask("GET", "/bindings"))["items"])
    await one.ask("DELETE", f"/bindings/{'0' * 12}")
    assert await one.names("users/") == ["root"]


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/users/none"), ("PATCH", "/users/none"), ("DELETE", "/users/none"), ("DELETE", "/services/none"),
    ("PATCH", "/services/none"),
    ("DELETE", "/bindings/none"), ("DELETE", "/bindings/..%2Fusers%2Froot"), ("DELETE", "/users/..%2Fbindings"),
])  # fmt: skip
async def test_what_there_is_not_is_not_found(one: Desk, method: str, path: str) -> None:
    before = await one.stored()
    await one.ask(method, path, {"disabled": True} if method == "PATCH" else None, status=404)
    assert await one.stored() == before


# The last administrator


LOSING: Final = {
    "removed": ("DELETE", "/users/root", None),
    "disabled": ("PATCH", "/users/root", {"disabled": True}),
    "unbound": ("DELETE", "/bindings/{id}", None),
}


async def the_binding_of(desk: Desk, subject: str) -> str:
    return str((await desk.ask("GET", f"/bindings?subject={subject}"))["items"][0]["id"])


@pytest.mark.parametrize("way", LOSING)
async def test_last_administrator_is_not_lost(desk: Desk, way: str) -> None:
    method, path, body = LOSING[way]
    before = await desk.stored()
    problem = await desk.ask(method, path.format(id=await the_binding_of(desk, "user:root")), body, status=409)
    assert "etcron binding add" in problem["detail"]
    assert await desk.stored() == before


@pytest.mark.parametrize("way", LOSING)
@pytest.mark.parametrize("other", ["service", "without password", "disabled", "of a team", "editor", "empty group"])
async def test_who_cannot_administer_does_not_count_as_the_other_one(one: Desk, way: str, other: str) -> None:
    match other:
        case "service":
            await one.access.service("ci", Role.ADMIN)
        case "without password":
            await one.access.user("bob", Role.ADMIN)
        case "disabled":
            await one.access.user("bob", Role.ADMIN, password="x")
            await one.ask("PATCH", "/users/bob", {"disabled": True})
        case "of a team":
            await one.access.user("bob", Role.ADMIN, labels={"team": ["a"]}, password="x")
        case "editor":
            await one.access.user("bob", Role.EDITOR, password="x")
        case _:
            await one.access.bind("group:admins", Role.ADMIN)
    method, path, body = LOSING[way]
    await one.ask(method, path.format(id=await the_binding_of(one, "user:root")), body, status=409)


@pytest.mark.parametrize("way", LOSING)
@pytest.mark.parametrize("other", ["a user", "a member of a group"])
async def test_one_of_two_administrators_may_go(one: Desk, way: str, other: str) -> None:
    if other == "a user":
        await one.access.user("bob", Role.ADMIN, password="x")
    else:
        await one.access.user("bob", groups=["admins"], password="x")
        await one.access.bind("group:admins", Role.ADMIN)
    method, path, body = LOSING[way]
    await one.ask(method, path.format(id=await the_binding_of(one, "user:root")), body)


async def test_leaving_the_group_that_administers_is_losing_it(one: Desk) -> None:
    bob = await one.access.user("bob", groups=["admins"], password="x")
    await one.access.bind("group:admins", Role.ADMIN)
    await one.ask("DELETE", "/users/root")
    leaving: list[dict[str, Any]] = [{"groups": []}, {"groups": ["ops"]}, {"disabled": True}]
    for change in leaving:
        response = await one.manager.http.request("PATCH", f"{API}/users/bob", json=change, headers=bob)
        await problem_of(response, 409)
    response = await one.manager.http.patch(f"{API}/users/bob", json={"groups": ["admins", "ops"]}, headers=bob)
    assert response.status == 200


async def test_binding_that_lets_nobody_in_may_go_also_where_no_other_is(one: Desk) -> None:
    root = await the_binding_of(one, "user:root")
    useless = await one.access.bind("user:nobody", Role.ADMIN)
    await one.ask("DELETE", f"/bindings/{useless}")
    await one.ask("DELETE", f"/bindings/{root}", status=409)


async def test_with_a_login_provider_a_group_of_its_own_administers(place: Place) -> None:
    async with managing(place, auth="required", oidcIssuer="https://login.example", oidcClientId="etcron") as manager:
        desk = await a_desk(manager)
        await desk.access.bind("group:admins", Role.ADMIN)
        await desk.ask("DELETE", "/users/root")


@pytest.mark.parametrize("round_", range(5))
@pytest.mark.parametrize("ways", [("removed", "removed"), ("unbound", "unbound"), ("disabled", "unbound")])
async def test_two_who_remove_each_other_at_once_leave_one(one: Desk, round_: int, ways: tuple[str, str]) -> None:
    """Attack on the check: each sees the other, and both go."""
    bob = await one.access.user("bob", Role.ADMIN, password="x")
    ids = {name: await the_binding_of(one, f"user:{name}") for name in ("root", "bob")}

    async def lose(way: str, victim: str, headers: dict[str, str]) -> int:
        method, path, body = LOSING[way]
        target = API + path.format(id=ids[victim]).replace("root", victim)
        return (await one.manager.http.request(method, target, json=body, headers=headers)).status

    tried = await asyncio.gather(lose(ways[0], "root", bob), lose(ways[1], "bob", one.root))
    assert tried.count(200) <= 1, f"both are lost, in round {round_}"


# Service accounts


async def test_service_account_is_added_listed_and_removed_with_what_is_its(one: Desk) -> None:
    made = await one.ask("POST", "/services", {"name": "ci", "description": "deploys <b>"}, status=201)
    assert (made["name"], made["description"], made["disabled"]) == ("ci", "deploys <b>", False)
    await one.ask("POST", "/services", {"name": "ci"}, status=409)
    await one.access.bind("service:ci", Role.EDITOR)
    token = await one.access.token("service:ci")
    await one.access.user("ci", Role.VIEWER)
    assert [service["name"] for service in (await one.ask("GET", "/services"))["items"]] == ["ci"]
    gone = await one.ask("DELETE", "/services/ci")
    assert (gone["tokens"], gone["bindings"]) == (1, 1)
    assert (await one.manager.http.get(f"{API}/jobs", headers=token)).status == 401
    assert await one.names("users/") == ["ci", "root"]
    assert len(await one.names("tokens/")) == 2


async def test_service_account_that_is_disabled_is_out_until_it_is_enabled(desk: Desk) -> None:
    await desk.ask("POST", "/services", {"name": "ci", "description": "deploys"}, status=201)
    await desk.access.bind("service:ci", Role.VIEWER)
    token = await desk.access.token("service:ci")

    async def status() -> int:
        return (await desk.manager.http.get(f"{API}/whoami", headers=token)).status

    assert await status() == 200
    changed = await desk.ask("PATCH", "/services/ci", {"disabled": True})
    assert (changed["disabled"], changed["description"]) == (True, "deploys")
    assert await status() == 401
    assert (await desk.ask("PATCH", "/services/ci", {"disabled": False}))["disabled"] is False
    assert await status() == 200, "its token and its binding have stayed"


@pytest.mark.parametrize("body", [{}, {"disabled": "yes"}, {"disabled": None}, {"name": "x"}, []])
async def test_change_of_a_service_account_that_says_nothing_is_refused(one: Desk, body: object) -> None:
    await one.ask("POST", "/services", {"name": "ci"}, status=201)
    before = await one.stored()
    await one.ask("PATCH", "/services/ci", body, status=400)
    assert await one.stored() == before


# Bindings


async def test_binding_is_added_and_shown_in_words(one: Desk) -> None:
    made = await one.ask("POST", "/bindings", {
        "subject": "group:Büro 3", "role": "editor", "labels": {"team": ["billing", "sales"]}, "runAs": ["app"],
        "workers": {"zone": ["eu"]},
    }, status=201)  # fmt: skip
    assert made["words"] == (
        "may see, run, kill, save and delete jobs with team=billing|sales; jobs that they save run as app, "
        "on workers with zone=eu"
    )
    assert made["warnings"] == []
    [listed] = (await one.ask("GET", "/bindings?subject=group:Büro 3"))["items"]
    assert {**listed, "warnings": []} == made


NO_BINDINGS: Final[tuple[dict[str, Any], ...]] = (
    {}, {**VIEWER, "labels": {}}, {**VIEWER, "labels": {"team": []}}, {**VIEWER, "labels": None},
    {**VIEWER, "labels": "everything"}, {**VIEWER, "labels": []}, {**VIEWER, "labels": {"team": "billing"}},
    {**VIEWER, "subject": "alice"}, {**VIEWER, "subject": "root:alice"}, {**VIEWER, "subject": "uid:-1"},
    {**VIEWER, "subject": "uid:01"}, {**VIEWER, "subject": "group:a\nb"}, {**VIEWER, "subject": "group: a"},
    {**VIEWER, "role": "owner"}, {**VIEWER, "role": None}, {**VIEWER, "id": "x"}, {**VIEWER, "runAs": "root"},
    {**VIEWER, "runAs": ["a b"]}, {**VIEWER, "runAs": [1]}, {**VIEWER, "workers": {}}, {**VIEWER, "role": "editor"},
    {**VIEWER, "role": "admin", "runAs": "all"}, {**VIEWER, "labels": {f"l{n}": ["x"] for n in range(21)}},
)  # fmt: skip


async def test_binding_that_would_give_something_by_accident_is_refused(one: Desk) -> None:
    before = await one.stored()
    for body in NO_BINDINGS:
        assert (await one.ask("POST", "/bindings", body, status=400))["code"] == "invalid-input", body
        assert await one.stored() == before, body


async def test_same_binding_again_is_a_conflict_that_names_it(one: Desk) -> None:
    made = await one.ask("POST", "/bindings", VIEWER, status=201)
    assert made["id"] in (await one.ask("POST", "/bindings", VIEWER, status=409))["detail"]


@pytest.mark.parametrize(("bodies", "word"), [
    ([{**VIEWER, "subject": "uid:1000"}], "each job that runs as uid:1000"),
    ([{**VIEWER, "subject": "gid:100"}], "each job that runs as gid:100"),
    ([{**VIEWER, "subject": "uid:1000"}, {**ADMIN, "runAs": ["app"]}], "jobs may run as app"),
    ([{**VIEWER, "subject": "uid:1000"}, ADMIN], "jobs may run as any system user"),
    ([{**VIEWER, "subject": "user:nobody"}], "there is no user:nobody"),
    ([{**VIEWER, "subject": "service:nothing"}], "there is no service:nothing"),
])  # fmt: skip
async def test_binding_that_opens_a_way_unseen_warns(one: Desk, bodies: list[dict[str, Any]], word: str) -> None:
    made: dict[str, Any] = {}
    for body in bodies:
        made = await one.ask("POST", "/bindings", body, status=201)
    assert any(word in warning for warning in made["warnings"]), made["warnings"]


async def test_plain_binding_warns_of_nothing(one: Desk) -> None:
    await one.ask("POST", "/users", {"name": "alice"}, status=201)
    assert (await one.ask("POST", "/bindings", {**ADMIN, "runAs": ["@worker"]}, status=201))["warnings"] == []


async def test_binding_counts_from_the_answer_on_until_it_is_removed(one: Desk) -> None:
    eve = await one.access.user("eve")
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 403
    made = await one.ask("POST", "/bindings", {**VIEWER, "subject": "user:eve"}, status=201)
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 200
    await one.ask("DELETE", f"/bindings/{made['id']}")
    assert (await one.manager.http.get(f"{API}/jobs", headers=eve)).status == 403


# Who may do what


async def test_explains_what_a_person_may_do_by_their_groups_too(one: Desk) -> None:
    await one.access.user("alice", Role.VIEWER, groups=["dba"])
    await one.access.bind("group:dba", Role.EDITOR, labels={"team": ["db"]}, run_as=["postgres"])
    await one.access.bind("group:other", Role.ADMIN)
    said = await one.ask("GET", "/access/explain?subject=user:alice")
    assert said["known"]
    assert not said["administers"]
    assert said["subjects"] == ["group:dba", "user:alice"]
    assert said["roles"] == ["viewer", "operator", "editor"]
    assert said["tokens"] == 1
    assert {binding["subject"] for binding in said["bindings"]} == {"group:dba", "user:alice"}
    assert any("jobs with team=db; jobs that they save run as postgres" in one["words"] for one in said["bindings"])
    assert said["warnings"] == []


async def test_explains_that_somebody_unknown_or_disabled_may_do_nothing(one: Desk) -> None:
    said = await one.ask("GET", "/access/explain?subject=user:nobody")
    assert (said["known"], said["bindings"], said["roles"]) == (False, [], [])
    assert len(said["warnings"]) == 2
    await one.access.user("eve", Role.VIEWER)
    await one.ask("PATCH", "/users/eve", {"disabled": True})
    said = await one.ask("GET", "/access/explain?subject=user:eve")
    assert said["disabled"]
    assert "is disabled" in said["warnings"][0]


async def test_explains_who_may_touch_a_job_by_its_labels(one: Desk) -> None:
    spec = {"command": "true", "cronExpr": "@daily", "labels": {"team": "db"}, "user": "postgres"}
    saved = await one.manager.http.put(f"{API}/jobs/backup", json=spec, headers=one.root)
    assert saved.status == 201, await saved.text()
    await one.access.user("alice", groups=["dba"])
    await one.access.user("carol", Role.VIEWER, labels={"team": ["db"]})
    await one.access.user("dave", Role.ADMIN, labels={"team": ["web"]})
    await one.access.bind("group:dba", Role.EDITOR, labels={"team": ["db"]}, run_as=["nobody"])
    said = await one.ask("GET", "/access/explain?job=backup")
    who = {binding["subject"]: binding for binding in said["who"]}
    assert list(who) == ["group:dba", "user:carol", "user:root"]
    assert who["group:dba"]["users"] == ["alice"]
    assert who["group:dba"]["may"] == {"see": True, "run": True, "change": True, "saveAsItIs": False}
    assert "it would run as postgres" in who["group:dba"]["why"]
    assert who["user:carol"]["may"] == {"see": True, "run": False, "change": False, "saveAsItIs": False}
    assert who["user:root"]["may"]["saveAsItIs"]
    assert said["labels"] == {"team": "db"}


async def test_who_is_disabled_may_not_touch_a_job(one: Desk) -> None:
    saved = await one.manager.http.put(
        f"{API}/jobs/backup", json={"command": "true", "cronExpr": "@daily"}, headers=one.root
    )
    assert saved.status == 201, await saved.text()
    await one.access.user("alice", groups=["dba"])
    await one.access.user("left", Role.EDITOR, groups=["dba"])
    await one.access.service("ci", Role.OPERATOR)
    await one.access.bind("group:dba", Role.EDITOR)
    for path in ("/users/left", "/services/ci"):
        await one.ask("PATCH", path, {"disabled": True})
    said = await one.ask("GET", "/access/explain?job=backup")
    who = {binding["subject"]: binding for binding in said["who"]}
    assert who["group:dba"]["users"] == ["alice"]
    assert who["user:left"]["users"] == []
    for subject, name in (("user:left", "left"), ("service:ci", "ci")):
        assert set(who[subject]["may"].values()) == {False}
        assert who[subject]["why"] == f"{name} is disabled"


async def test_editors_do_not_save_a_job_that_gets_the_messages_of_a_channel(one: Desk) -> None:
    spec = {"command": "true", "cronExpr": "@daily"}
    saved = await one.manager.http.put(f"{API}/jobs/teller", json=spec, headers=one.root)
    assert saved.status == 201, await saved.text()
    await one.access.user("eve", Role.EDITOR)
    await one.ask("POST", "/channels", {"name": "ops", "kind": "command", "job": "teller"}, status=201)
    await wait_until(lambda: "ops" in one.manager.parts.watching.notices.channels, description="it is known")
    who = {binding["subject"]: binding for binding in (await one.ask("GET", "/access/explain?job=teller"))["who"]}
    assert {subject: binding["may"]["saveAsItIs"] for subject, binding in who.items()} == {
        "user:eve": False, "user:root": True,
    }  # fmt: skip
    assert "gets the messages of channel ops" in who["user:eve"]["why"]


async def test_nobody_saves_a_job_as_it_is_that_cannot_be_read(one: Desk) -> None:
    await one.manager.etcd.put(one.manager.keys.job("odd"), b"no job")
    said = await one.ask("GET", "/access/explain?job=odd")
    [root] = said["who"]
    assert root["may"] == {"see": True, "run": True, "change": True, "saveAsItIs": False}
    assert "cannot be read" in said["warnings"][0]


@pytest.mark.parametrize(("query", "status"), [
    ("", 400), ("?subject=user:a&job=b", 400), ("?subject=alice", 400), ("?subject=uid:x", 400), ("?job=none", 404),
    ("?who=alice", 400),
])  # fmt: skip
async def test_question_that_makes_no_sense_is_refused(one: Desk, query: str, status: int) -> None:
    await one.ask("GET", f"/access/explain{query}", status=status)
