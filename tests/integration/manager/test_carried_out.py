"""A change that was carried out is never told as one that was not, whatever fails after it.

Its caller hears of success or of a doubt; the audit has no failure; its Idempotency-Key is not forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import pytest
from msgspec import structs

from common.access.audit_chain import Note
from common.access.rights import Role
from common.errors import EtcdAwayError
from common.notices.notice import NoticeState, trial_notice
from common.protocol.dedupe import ANYTHING
from common.protocol.drain import Drain
from common.protocol.keys import RunId, encode_mark
from common.protocol.roster import RosterEntry
from common.protocol.txn import Delete, Put, Txn, TxnResult
from manager.access.audited import ACTIONS
from manager.http.idempotency import SECRET
from tests.support.access import Accessing, as_administrator, token_id
from tests.support.alerts import alert_of, open_alerts_are
from tests.support.joining import join
from tests.support.log_store import LogStore, to_disturb
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import claim, now_ms
from tests.support.proxy import Mode, Proxy

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOB: Final = {"command": "echo", "cronExpr": "@yearly"}
API: Final = "/api/v1"
URL: Final = "https://hooks.example.org/"
HOOK: Final = {"kind": "webhook", "url": URL}
RULE: Final = {"labels": "all", "to": ["ops"]}
PASSWORD: Final = "correct horse battery staple"
KEY: Final = {"Idempotency-Key": "k"}


RUN: Final = RunId.planned("j", 1_690_000_000_000)


async def nothing(_: Managed) -> None:
    """The call needs nothing that is there."""


async def job(manager: Managed) -> None:
    await manager.call("PUT", f"{API}/jobs/j", JOB)


async def paused(manager: Managed) -> None:
    await job(manager)
    await manager.call("POST", f"{API}/jobs/j/pause", {})


async def blocked(manager: Managed) -> None:
    await job(manager)
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(now_ms() + 86_400_000))


async def saved_twice(manager: Managed) -> str:
    await job(manager)
    [first] = (await manager.get(f"{API}/jobs/j/versions"))["items"]
    await manager.call("PUT", f"{API}/jobs/j", {**JOB, "command": "true"})
    return str(first["revision"])


async def run(manager: Managed) -> str:
    await job(manager)
    await claim(manager, "j", RUN.plan_ms or 0)
    return quote(str(RUN))


async def two_runs(manager: Managed) -> None:
    await job(manager)
    for ago_ms in (1_000, 2_000):
        await claim(manager, "j", now_ms() - ago_ms)


async def failing(manager: Managed) -> None:
    await job(manager)
    await open_alerts_are(manager, alert_of("j", now_ms() - 1_000))


async def live(manager: Managed) -> None:
    await join(manager, "w1")


async def drained(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="ann", since_ms=1).to_json())


async def was_here(manager: Managed) -> None:
    entry = RosterEntry(worker="w1", host="h", seen_ms=7)
    await manager.etcd.put(manager.keys.roster_entry("w1"), entry.to_json())


async def ann(manager: Managed) -> None:
    await Accessing(manager).user("ann")


async def logged_in(manager: Managed) -> str:
    await ann(manager)
    return (await Accessing(manager).session("user:ann")).id


async def service(manager: Managed) -> str:
    return token_id(await Accessing(manager).service("ci"))


async def bound(manager: Managed) -> str:
    return await Accessing(manager).bind("user:ann", Role.VIEWER)


async def channel(manager: Managed) -> None:
    await manager.call("POST", f"{API}/channels", {"name": "ops", **HOOK})


async def rule(manager: Managed) -> None:
    await channel(manager)
    await manager.call("POST", f"{API}/rules", {"name": "r", **RULE})


async def silence(manager: Managed) -> str:
    await job(manager)
    made = await manager.call("POST", f"{API}/silences", {"jobs": ["j"], "hours": 1})
    return str(made["silence"]["id"])


Prepare = Callable[[Managed], Awaitable[str | None]]
"""What is there before; what it returns takes the place of ``{}`` in the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One that changes something in etcd."""

    of: tuple[str, str]
    """Method and path, as the audit knows them."""
    path: str
    body: dict[str, Any] | None = None
    prepare: Prepare = nothing
    status: int = 200


def call(method: str, route: str, path: str, body: dict[str, Any] | None = None, **more: Any) -> Call:
    return Call(of=(method, f"{API}/{route}"), path=path, body=body, **more)


CALLS: Final = {
    "save": call("PUT", "jobs/{name}", "jobs/j", {**JOB, "command": "true"}, prepare=job),
    "change": call("PATCH", "jobs/{name}", "jobs/j", {"command": "true"}, prepare=job),
    "deletion": call("DELETE", "jobs/{name}", "jobs/j", prepare=job),
    "pause": call("POST", "jobs/{name}/pause", "jobs/j/pause", {}, prepare=job),
    "resume": call("POST", "jobs/{name}/resume", "jobs/j/resume", {}, prepare=paused),
    "unblock": call("POST", "jobs/{name}/unblock", "jobs/j/unblock", {"force": True}, prepare=blocked),
    "restore": call(
        "POST", "jobs/{name}/versions/{revision}/restore", "jobs/j/versions/{}/restore", {}, prepare=saved_twice
    ),
    "run": call("POST", "jobs/{name}/run", "jobs/j/run", {}, prepare=job, status=202),
    "kill of one of two runs": call("POST", "jobs/{name}/kill", "jobs/j/kill", {}, prepare=two_runs, status=503),
    "kill of one of two runs, with other jobs": call(
        "POST", "jobs/bulk", "jobs/bulk", {"action": "kill", "names": ["j"]}, prepare=two_runs
    ),
    "many jobs": call("POST", "jobs/bulk", "jobs/bulk", {"action": "pause", "names": ["j"]}, prepare=job),
    "crontab": call("POST", "crontab", "crontab", {"text": "1 1 * * * true"}),
    "kill of a run": call("POST", "runs/{id}/kill", "runs/{}/kill", {}, prepare=run),
    "give-up": call("POST", "runs/{id}/give-up", "runs/{}/give-up", {"reason": "it burned"}, prepare=run),
    "drain": call("POST", "workers/{name}/drain", "workers/w1/drain", {}, prepare=live),
    "undrain": call("POST", "workers/{name}/undrain", "workers/w1/undrain", {}, prepare=drained),
    "forgetting a worker": call("DELETE", "workers/{name}", "workers/w1", prepare=was_here),
    "end of a session": call("DELETE", "sessions/{id}", "sessions/{}", prepare=logged_in),
    "token": call("POST", "tokens", "tokens", {"owner": "service:ci", "name": "t"}, prepare=service, status=201),
    "end of a token": call("DELETE", "tokens/{id}", "tokens/{}", prepare=service),
    "user": call("POST", "users", "users", {"name": "ann"}, status=201),
    "new password": call("PATCH", "users/{name}", "users/ann", {"password": PASSWORD}, prepare=ann, status=503),
    "disabled user": call("PATCH", "users/{name}", "users/ann", {"disabled": True}, prepare=logged_in, status=503),
    "removal of a user": call("DELETE", "users/{name}", "users/ann", prepare=logged_in, status=503),
    "service account": call("POST", "services", "services", {"name": "ci"}, status=201),
    "disabled service account": call("PATCH", "services/{name}", "services/ci", {"disabled": True}, prepare=service),
    "removal of a service account": call("DELETE", "services/{name}", "services/ci", prepare=service, status=503),
    "binding": call(
        "POST", "bindings", "bindings", {"subject": "user:ann", "role": "viewer", "labels": "all"}, prepare=ann,
        status=201,
    ),
    "end of a binding": call("DELETE", "bindings/{id}", "bindings/{}", prepare=bound),
    "channel": call("POST", "channels", "channels", {"name": "ops", **HOOK}, status=201),
    "change of a channel": call("PUT", "channels/{name}", "channels/ops", {**HOOK, "url": URL + "2"}, prepare=channel),
    "removal of a channel": call("DELETE", "channels/{name}", "channels/ops", prepare=channel),
    "rule": call("POST", "rules", "rules", {"name": "r", **RULE}, prepare=channel, status=201),
    "change of a rule": call("PUT", "rules/{name}", "rules/r", {**RULE, "after": 2}, prepare=rule),
    "removal of a rule": call("DELETE", "rules/{name}", "rules/r", prepare=rule),
    "silence": call("POST", "silences", "silences", {"jobs": ["j"], "hours": 1}, prepare=job, status=201),
    "end of a silence": call("DELETE", "silences/{id}", "silences/{}", prepare=silence),
    "acknowledgement": call("POST", "alerts/ack", "alerts/ack", {"job": "j"}, prepare=failing),
}  # fmt: skip
OTHERS: Final = {
    "/job/save": "does what PUT jobs/{name} does, and reads nothing back",
    "/job/delete": "does what DELETE jobs/{name} does",
    "/job/kill": "does what POST jobs/{name}/kill does",
    f"{API}/login": "its session is the last that it asks for: test_doubts.py",
    f"{API}/login/link": "as a login",
    f"{API}/login/oidc/callback": "as a login",
    f"{API}/password": "as a login",
    f"{API}/logout": "does what DELETE sessions/{id} does",
    f"{API}/channels/{{name}}/test": "is in the log store alone: below",
    f"{API}/notices/{{id}}/resend": "is in the log store alone: below",
    f"{API}/audit": "reads",
    f"{API}/audit/verify": "reads",
}


def test_each_call_that_changes_something_is_tried() -> None:
    tried = {one.of for one in CALLS.values()}
    assert {of for of in ACTIONS if of not in tried and of[1] not in OTHERS} == set()


class GoneAfterwards:
    """etcd carries out the first write of a call, and does not answer after that."""

    def __init__(self, manager: Managed, patch: pytest.MonkeyPatch) -> None:
        self._of_keys = manager.keys.deduped(ANYTHING, "")
        self.wrote = False
        etcd = manager.parts.etcd
        self._txn = etcd.txn
        patch.setattr(etcd, "txn", self.txn)
        for name in ("get", "get_many", "get_between", "count", "read_prefix"):
            patch.setattr(etcd, name, self._unless_gone(getattr(etcd, name)))

    async def txn(self, transaction: Txn) -> TxnResult:
        writes = [one.key for one in transaction.then if isinstance(one, Put | Delete)]
        if any(key.startswith(self._of_keys) for key in writes):
            return await self._txn(transaction)  # the Idempotency-Key of a call
        if self.wrote:
            raise EtcdAwayError("127.0.0.1:2379", "refused")
        self.wrote = bool(writes)
        return await self._txn(transaction)

    def _unless_gone(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*arguments: Any, **named: Any) -> Any:
            if self.wrote:
                raise EtcdAwayError("127.0.0.1:2379", "refused")
            return ask(*arguments, **named)

        return asked


@pytest.mark.parametrize("name", CALLS)
async def test_what_was_done_is_not_told_as_not_done(
    manager: Managed, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, failed = CALLS[name], list[Note]()
    method, route = one.of
    await as_administrator(manager)
    place = await one.prepare(manager)

    async def not_yet(*_: object) -> bool:
        return False

    monkeypatch.setattr(manager.parts.watching, "has_seen", not_yet)
    monkeypatch.setattr(manager.parts.audit, "failed", failed.append)
    monkeypatch.setattr("manager.api.runs._END_S", 0)
    monkeypatch.setattr("manager.api.runs._VERDICT_S", 0)
    etcd = GoneAfterwards(manager, monkeypatch)
    takes_a_key = method == "POST" and route not in SECRET
    response = await manager.http.request(
        method, f"{API}/{one.path.format(place)}", json=one.body, headers=KEY if takes_a_key else {}
    )
    answer = await response.json()
    assert etcd.wrote
    assert response.status == one.status, answer
    assert failed == []
    if one.status == 503:
        assert not answer["detail"].startswith("etcd"), "its text says what was done"
    if takes_a_key:
        assert await manager.etcd.count(manager.keys.dedupe) > 0, "it is not carried out once more"


@pytest.mark.parametrize("path", ["channels/ops/test", "notices/n/resend"])
async def test_message_that_the_log_store_may_have_taken_is_not_sent_again(
    place: Place, log_store: LogStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = list[Note]()
    async with (
        Proxy(f"127.0.0.1:{to_disturb(log_store).port}", http2=False) as proxy,
        managing(replace(place, log_store=f"mongodb://{proxy.endpoint}")) as manager,
    ):
        await as_administrator(manager)
        await manager.call("POST", f"{API}/channels", {"name": "ops", **HOOK})
        notice = trial_notice("ops", by="ann", now_ms=now_ms())
        await manager.parts.runlog.notices.put([structs.replace(notice, id="n", state=NoticeState.SENT)])
        ask = manager.parts.runlog.notices.get

        async def found(notice_id: str) -> Any:
            kept = await ask(notice_id)
            proxy.set(Mode.ONE_WAY)
            return kept

        monkeypatch.setattr(manager.parts.runlog.notices, "get", found)
        if path == "channels/ops/test":
            proxy.set(Mode.ONE_WAY)
        monkeypatch.setattr("common.runlog.notices._SECONDS", 0.5)
        monkeypatch.setattr(manager.parts.audit, "failed", failed.append)
        responses = [await manager.http.post(f"{API}/{path}", json={}, headers=KEY) for _ in range(2)]
        assert [one.status for one in responses] == [503, 409]
        assert "may or may not" in (await responses[0].json())["detail"]
        assert failed[1:] == [], "the second"
