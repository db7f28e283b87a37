"""A refused token, and what may come after it: nothing is sent twice but what was certainly not carried out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import grpc
import grpc.aio
import pytest

from common.clock import SystemClock
from common.errors import EtcdAccessError, EtcdInDoubtError, UnavailableError
from common.etcd import EtcdClient, EtcdUser
from common.etcd.auth import Auth
from common.etcd.calls import Calls

OLD_TOKEN = ("UNAUTHENTICATED", "etcdserver: invalid auth token")
OLD_REVISION = ("INVALID_ARGUMENT", "etcdserver: revision of auth store is old")
INNER = ("UNKNOWN", "auth: revision in header is old")
SILENCE = ("DEADLINE_EXCEEDED", "Deadline Exceeded")
CUT_OFF = ("CANCELLED", "Stream removed (RST_STREAM (Received RST_STREAM with error code 8))")
AWAY = ("UNAVAILABLE", "Socket closed")
DENIED = ("PERMISSION_DENIED", "etcdserver: permission denied")
GOOD = ("OK", "")

Answer = tuple[str, str]


class FakeChannel:
    """One member, whose answers are written down beforehand; the last one is repeated."""

    def __init__(self, puts: list[Answer], authentications: list[Answer]) -> None:
        self.address = "etcd:1"
        self.sent: list[str] = []
        self.logins = 0
        self._puts = puts
        self._authentications = authentications

    async def put(self, request: object, *, timeout: float, metadata: Any) -> str:
        self.sent.append(dict(metadata).get("token", ""))
        return _answer(self._puts, "done")

    async def authenticate(self, request: object, *, timeout: float, metadata: Any) -> Any:
        self.logins += 1
        token = f"token-{self.logins}"
        _answer(self._authentications, token)
        return type("Answer", (), {"token": token})


def _answer(answers: list[Answer], good: str) -> str:
    code, details = answers.pop(0) if len(answers) > 1 else answers[0]
    if code != "OK":
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(getattr(grpc.StatusCode, code), nothing, nothing, details)
    return good


class FakeEndpoints:
    """Always connected to the one member, until it has failed."""

    addresses = ("etcd:1",)

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel

    async def connected(self, deadline: float, *, avoid: Collection[str] = ()) -> FakeChannel | None:
        return None if avoid else self._channel

    def failed(self, channel: object, why: str) -> None:
        pass

    async def unreachable(self, what: str, why: dict[str, str]) -> UnavailableError:
        return UnavailableError(f"no etcd took {what}: {why}")


class Situation:
    """A client of one scripted member."""

    def __init__(self, puts: list[Answer], authentications: list[Answer]) -> None:
        clock = SystemClock()
        self.channel = FakeChannel(puts, authentications)
        self.auth = Auth(EtcdUser.with_password("etcron", "hunter2"), clock)
        endpoints: Any = FakeEndpoints(self.channel)
        self.calls = Calls(endpoints, self.auth, timeout_s=1, clock=clock)

    async def put(self) -> str:
        return str(await self.calls.write("put", object(), what="a put"))


async def test_one_token_serves_all_calls() -> None:
    situation = Situation([GOOD], [GOOD])
    assert [await situation.put() for _ in range(3)] == ["done"] * 3
    assert situation.channel.sent == ["token-1"] * 3


@pytest.mark.parametrize("refusal", [OLD_TOKEN, OLD_REVISION, INNER])
async def test_a_write_whose_token_is_refused_is_sent_again_once_with_a_new_one(refusal: Answer) -> None:
    situation = Situation([refusal, GOOD], [GOOD])
    assert await situation.put() == "done"
    assert situation.channel.sent == ["token-1", "token-2"]


@pytest.mark.parametrize("refusal", [OLD_TOKEN, OLD_REVISION, INNER])
async def test_a_second_refusal_is_definite_and_the_token_is_not_used_again(refusal: Answer) -> None:
    situation = Situation([refusal, refusal, GOOD], [GOOD])
    with pytest.raises(EtcdAccessError):
        await situation.put()
    assert situation.channel.sent == ["token-1", "token-2"]
    assert await situation.put() == "done"
    assert situation.channel.sent[-1] == "token-3"


@pytest.mark.parametrize(("answers", "sent"), [((OLD_TOKEN, SILENCE), 2), ((OLD_TOKEN, AWAY), 2), ((SILENCE, GOOD), 1)])
async def test_what_is_not_answered_is_in_doubt_and_not_sent_again_for_the_sake_of_its_token(
    answers: Sequence[Answer], sent: int
) -> None:
    situation = Situation([*answers], [GOOD])
    with pytest.raises(EtcdInDoubtError):
        await situation.put()
    assert len(situation.channel.sent) == sent


@pytest.mark.parametrize("answer", [SILENCE, AWAY])
async def test_an_authentication_that_is_not_answered_leaves_no_doubt(answer: Answer) -> None:
    before = Situation([GOOD], [answer])
    with pytest.raises(UnavailableError, match="authentication"):
        await before.put()
    after = Situation([OLD_TOKEN], [GOOD, answer])
    with pytest.raises(UnavailableError, match="authentication"):
        await after.put()
    assert (before.channel.sent, after.channel.sent) == ([], ["token-1"])


async def test_a_missing_permission_is_no_reason_to_authenticate_again() -> None:
    situation = Situation([DENIED], [GOOD])
    with pytest.raises(EtcdAccessError, match="grant"):
        await situation.put()
    assert (len(situation.channel.sent), situation.channel.logins) == (1, 1)


async def test_a_refused_password_is_not_tried_with_every_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refused = ("INVALID_ARGUMENT", "etcdserver: authentication failed, invalid user ID or password")
    situation = Situation([GOOD], [refused])
    for _ in range(5):
        with pytest.raises(EtcdAccessError) as caught:
            await situation.put()
        assert "hunter2" not in str(caught.value)
    assert situation.channel.logins == 1
    assert "hunter2" not in caplog.text + repr(situation.auth.__dict__)


async def test_a_compaction_that_is_refused_names_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async with EtcdClient(["127.0.0.1:1"]) as client:
        situation = Situation([DENIED], [GOOD])
        send: Callable[..., Any] = situation.calls.write
        monkeypatch.setattr(client._calls, "write", lambda method, request, *, what: send("put", request, what=what))
        with pytest.raises(EtcdAccessError, match="compactionMinutes to 0"):
            await client.compact(5)


@pytest.mark.parametrize("silence", [SILENCE, CUT_OFF])
async def test_a_token_that_gets_no_answer_in_time_is_not_used_again_whoever_ends_the_call(
    silence: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd, from 3.7 on, may be the first to see that the time is over."""
    monkeypatch.setattr("common.etcd.auth._FORGET_EVERY_S", 0)
    situation = Situation([silence, GOOD], [GOOD])
    with pytest.raises(EtcdInDoubtError):
        await situation.put()
    assert await situation.put() == "done"
    assert situation.channel.sent == ["token-1", "token-2"]
