"""Messages on their way, to real servers: what arrives, and what becomes of them where a server or a store is away."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from common.clock import SystemClock
from common.errors import ForbiddenError
from common.jobs.reader import parse_job
from common.notices.channels import CHANNEL
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.joining import Content, Message
from common.notices.notice import AlertedEvent, Notice, NoticeKind, NoticeState, notice_id, trial_notice
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.protocol.saved_job import SavedJob
from common.runlog.notices import KEPT_MS
from common.runlog.outbox import Outbox
from common.verdicts import EventKind, Verdict
from manager.notices.email import Email
from manager.notices.ways import ChannelSecrets, PutOffError, Tls
from manager.notices.webhook import signature
from tests.support.background import running
from tests.support.certificates import Authority
from tests.support.clocks import OffClock, say_clocks
from tests.support.log_store import LogStoreServer
from tests.support.managing import Managed, Place, managing
from tests.support.notices import MailServer, Receiver, receiving
from tests.support.waiting import wait_until

NOW = SystemClock().wall_ms()
"""Older notices are forgotten."""


@dataclass
class Sending:
    """A manager that sends, and its clock."""

    manager: Managed
    clock: OffClock

    async def channel(self, name: str, **fields: Any) -> None:
        value = CHANNEL.to_json(Stored(record=CHANNEL.read(fields)))
        await self.manager.etcd.put(self.manager.keys.channel(name), value)

    async def mails_to(self, server: MailServer, *to: str, name: str = "ops", **fields: Any) -> None:
        given = {"tls": "none", "from": "etcron@example.org", "to": list(to) or ["ann@example.org"], **fields}
        await self.channel(name, kind="email", host="127.0.0.1", port=server.port, **given)

    async def put(self, *notices: Notice) -> None:
        await self.manager.runlog.notices.put(notices)
        self.manager.parts.sender.wake()

    async def later(self, seconds: float) -> None:
        """So much time has passed, but for the real one."""
        self.clock.offset_ms += round(seconds * 1000)
        self.manager.parts.sender.wake()

    async def until(self, state: NoticeState, *notices: Notice, error: str = "", tries: int = 0) -> None:
        async def is_so() -> bool:
            there = [await self.manager.runlog.notices.get(one.id) for one in notices]
            return all(
                one is not None and one.state is state and error in one.error and one.tries >= tries for one in there
            )

        await wait_until(is_so, description=f"{len(notices)} notices are {state} {error}")


@asynccontextmanager
async def sending(place: Place, tmp_path: Path, *, ahead_ms: int = 0, **flags: Any) -> AsyncIterator[Sending]:
    secrets = tmp_path / "secrets"
    secrets.mkdir(exist_ok=True)
    clock = OffClock(ahead_ms)
    given: dict[str, Any] = {"noticeNetworks": ["127.0.0.0/8"], "secretsDirectory": str(secrets), **flags}
    async with (
        managing(place, clock=clock, publicUrl="https://cron.example.org", **given) as manager,
        running(manager.parts.presence.run(), manager.parts.sender.run()),
    ):
        yield Sending(manager, clock)


@pytest.fixture
async def here(place: Place, tmp_path: Path) -> AsyncIterator[Sending]:
    async with sending(place, tmp_path) as one:
        yield one


@pytest.fixture
async def mail_server() -> AsyncIterator[MailServer]:
    async with MailServer() as server:
        yield server


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as one:
        yield one


def secret(tmp_path: Path, name: str, value: str) -> None:
    path = tmp_path / "secrets" / name
    path.write_text(value + "\n")
    path.chmod(0o600)


def failed(number: int = 0, *, channel: str = "ops", job: str = "", **event: Any) -> Notice:
    told = Event(
        kind=EventKind.FAILED, at_ms=NOW + number, job=job or f"job-{number}", exit_code=3, err="exit status 3",
        plan_ms=NOW, start_ms=NOW, end_ms=NOW + 4_000, worker="w3", **event,
    )  # fmt: skip
    return Notice(
        id=notice_id(str(number), channel), channel=channel, kind=NoticeKind.PROBLEM, created_ms=NOW + number,
        told=(AlertedEvent(event=told, since_ms=NOW, last_ok_ms=NOW - 1000),),
    )  # fmt: skip


async def test_a_failure_is_a_mail_with_output_links_and_the_job_s_own_words(
    here: Sending, mail_server: MailServer
) -> None:
    document = {
        "name": "report", "command": "x", "cronExpr": "@yearly", "description": "What <b>finance</b> reads.",
        "links": [{"title": "Runbook", "url": "https://wiki.example.org/report"}], "timezone": "Europe/Berlin",
    }  # fmt: skip
    saved = SavedJob(spec=parse_job(document), anchor_ms=NOW)
    await here.manager.etcd.put(here.manager.keys.job("report"), saved.to_json())
    run = RunId.planned("report", NOW)
    shown = "\n\x1b[31mno <disk>\x1b[0m" * 60
    await here.manager.write([
        RunRecord(run_id=run, status=Verdict.FAILED, output="x" * 2_000_000 + shown, plan_ms=NOW)
    ])  # fmt: skip
    await here.mails_to(mail_server)
    notice = failed(job="report", run=str(run))
    await here.put(notice)
    await here.until(NoticeState.SENT, notice)
    (mail,) = mail_server.mails
    assert mail.id == notice.id
    assert mail.message["Subject"] == "[etcron] report failed: exit status 3"
    text, html = mail.part("plain"), mail.part("html")
    for said in ("What <b>finance</b> reads.", "(Europe/Berlin)", "Took          4 seconds", "Last success",
                 "https://wiki.example.org/report", "https://cron.example.org/jobs/report#alert"):  # fmt: skip
        assert said in text
    assert text.count("| no <disk>") == 40
    assert html.count("no &lt;disk&gt;") == 40
    assert "What &lt;b&gt;finance&lt;/b&gt; reads." in html
    assert "\x1b" not in text + html


async def test_what_comes_within_ten_seconds_of_a_message_is_one_digest(here: Sending, mail_server: MailServer) -> None:
    await here.mails_to(mail_server)
    first, *others = map(failed, range(25))
    await here.put(first)
    await here.until(NoticeState.SENT, first)
    await here.put(*others)
    await here.later(10)
    await here.until(NoticeState.SENT, *others)
    assert [mail.message["Subject"] for mail in mail_server.mails] == [
        "[etcron] job-0 failed: exit status 3", "[etcron] 24 failed on w3",
    ]  # fmt: skip
    assert "and 14 more" in mail_server.mails[1].part("plain")


async def test_a_recipient_that_has_it_does_not_get_it_again(here: Sending, mail_server: MailServer) -> None:
    mail_server.answers = {"no@example.org": "550 who?", "full@example.org": "452 full"}
    await here.mails_to(mail_server, "ann@example.org", "no@example.org", "full@example.org")
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="full@example.org: 452 full")
    mail_server.answers = {"no@example.org": "550 who?"}
    await here.later(10)
    await here.until(NoticeState.SENT, failed(), error="no@example.org: 550 who?")
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.org"], ["full@example.org"]]
    assert {mail.id for mail in mail_server.mails} == {failed().id}
    (event,) = [event for one in await here.manager.runlog.outbox.read(10) for event in one.events]
    assert (event.kind, event.subject, event.reason) == (EventKind.NOTICES_FAILING, "ops", "no@example.org: 550 who?")


async def test_a_server_that_dies_in_the_middle_of_a_mail_gets_the_same_one_again(
    here: Sending, mail_server: MailServer
) -> None:
    mail_server.dies_in_data = 1
    await here.mails_to(mail_server)
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="127.0.0.1:")
    assert mail_server.mails == []
    await here.put(failed(1))
    await here.later(10)
    await here.until(NoticeState.SENT, failed())
    await here.later(10)
    await here.until(NoticeState.SENT, failed(1))
    assert [mail.id for mail in mail_server.mails] == [failed().id, failed(1).id]


async def test_a_refusal_ends_at_once_is_an_event_and_can_be_sent_again(here: Sending, mail_server: MailServer) -> None:
    mail_server.answers = {"DATA": "554 spam"}
    await here.mails_to(mail_server)
    await here.put(failed())
    await here.until(NoticeState.FAILED, failed(), error="554 spam")
    mail_server.answers = {}
    assert await here.manager.runlog.notices.send_again(failed().id)
    await here.later(10)
    await here.until(NoticeState.SENT, failed())
    assert [mail.id for mail in mail_server.mails] == [f"{failed().id}-1"]
    events = [event for one in await here.manager.runlog.outbox.read(10) for event in one.events]
    assert [(event.kind, event.subject) for event in events] == [
        (EventKind.NOTICES_FAILING, "ops"), (EventKind.RECOVERED, "notices-failing/ops"),
    ]  # fmt: skip


async def test_a_message_is_not_sent_for_ever_where_the_log_store_takes_no_event_of_its_failure(
    here: Sending, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: object) -> None:
        raise ForbiddenError("not the collection outbox")

    monkeypatch.setattr(Outbox, "put", forbidden)
    mail_server.answers = {"DATA": "554 spam"}
    await here.mails_to(mail_server)
    await here.put(failed())
    await here.until(NoticeState.FAILED, failed(), error="554 spam")


async def test_a_mail_server_that_is_away_or_hangs_is_tried_again(
    here: Sending, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mail_server.stop()
    await here.mails_to(mail_server)
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="127.0.0.1:")
    mail_server.hangs = True
    await mail_server.start()
    await here.later(10)
    await wait_until(lambda: mail_server.tries == 1, description="it was called")
    mail_server.hangs = False
    await mail_server.stop()
    await here.until(NoticeState.SENDING, failed(), tries=2)
    await mail_server.start()
    await here.later(20)
    await here.until(NoticeState.SENT, failed())
    assert len(mail_server.mails) == 1


async def test_a_server_that_hangs_holds_up_no_other_channel(
    here: Sending, mail_server: MailServer, receiver: Receiver
) -> None:
    mail_server.hangs = True
    for number in range(30):
        await here.mails_to(mail_server, name=f"mail-{number}")
    await here.channel("ops", kind="webhook", url=receiver.url)
    await here.put(*(failed(number, channel=f"mail-{number}") for number in range(30)))
    await wait_until(lambda: mail_server.tries == 30, description="all mails hang")
    await here.put(failed(30))
    await here.until(NoticeState.SENT, failed(30))
    await mail_server.stop()


@pytest.mark.parametrize(
    ("deadline", "kind", "error"),
    [
        ("manager.notices.sender.WITHIN_S", "email", "no answer within 0.5 s"),
        ("manager.notices.webhook._WITHIN_S", "webhook", "127.0.0.1 does not answer within 0.5 s"),
    ],
)
async def test_a_server_that_says_nothing_is_given_up_and_tried_again(
    here: Sending, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, deadline: str, kind: str, error: str
) -> None:
    monkeypatch.setattr(deadline, 0.5)  # minutes
    mail_server.hangs = True
    if kind == "email":
        await here.mails_to(mail_server)
    else:
        await here.channel("ops", kind="webhook", url=f"http://127.0.0.1:{mail_server.port}/")
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error=error)
    await here.later(10)
    await here.until(NoticeState.SENDING, failed(), error=error, tries=2)
    await mail_server.stop()


async def test_a_mail_server_that_stops_answering_is_given_up_at_that_step(mail_server: MailServer) -> None:
    mail_server.hangs = True
    channel = CHANNEL.read({
        "kind": "email", "host": "127.0.0.1", "port": mail_server.port, "tls": "none", "from": "etcron@example.org",
        "to": ["ann@example.org"],
    })  # fmt: skip
    content = Content(subject="s", text="t", html="<p>t</p>", facts="{}", created_ms=NOW)
    way = Email(ChannelSecrets(None), Tls(), step_s=0.5)
    sent = way.send("ops", channel, Message(id="one", notices=("one",), content=content))
    with pytest.raises(PutOffError, match=f"127.0.0.1:{mail_server.port}"):
        await asyncio.wait_for(sent, 60)
    await mail_server.stop()


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_mail_over_tls_with_a_login(
    place: Place, tmp_path: Path, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, tls: str
) -> None:
    await mail_server.stop()
    authority = Authority(tmp_path / "ca")
    pair = authority.pair("mail", "127.0.0.1")
    mail_server.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    mail_server.tls.load_cert_chain(pair.cert, pair.key)
    mail_server.login, mail_server.tls_at_once = ("etcron", "pässword"), tls == "tls"
    await mail_server.start()
    async with sending(place, tmp_path) as untrusting:
        await untrusting.mails_to(mail_server, tls=tls, user="etcron", passwordSecret="smtp")
        await untrusting.put(failed())
        await untrusting.until(NoticeState.SENDING, failed(), error="secret smtp is not on this manager")
        secret(tmp_path, "smtp", "pässword")
        await untrusting.later(10)
        await untrusting.until(NoticeState.SENDING, failed(), error="certificate verify failed")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    async with sending(place, tmp_path) as trusting:
        await trusting.later(60)
        await trusting.until(NoticeState.SENT, failed())
    assert [mail.id for mail in mail_server.mails] == [failed().id]


async def test_attack_mail_server_that_leaves_out_starttls_is_told_no_password(
    here: Sending, mail_server: MailServer, tmp_path: Path
) -> None:
    mail_server.login = ("etcron", "password")
    secret(tmp_path, "smtp", "password")
    await here.mails_to(mail_server, tls="starttls", user="etcron", passwordSecret="smtp")
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="STARTTLS")
    assert (mail_server.logins, mail_server.mails) == (0, [])


async def test_a_webhook_is_signed_and_says_all(here: Sending, receiver: Receiver, tmp_path: Path) -> None:
    secret(tmp_path, "key", "whsec_c2VjcmV0")
    await here.channel("ops", kind="webhook", url=receiver.url, signingSecret="key")
    await here.put(failed())
    await here.until(NoticeState.SENT, failed())
    (got,) = receiver.got
    assert got.headers["webhook-id"] == failed().id
    assert got.headers["webhook-signature"] == signature("whsec_c2VjcmV0", got.headers, got.raw)
    assert (got.body["type"], got.body["data"]["headline"]) == ("notice.problem", "job-0 failed: exit status 3")
    assert got.body["data"]["events"][0]["exitCode"] == 3


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (500, NoticeState.SENDING), (429, NoticeState.SENDING), (408, NoticeState.SENDING), (404, NoticeState.FAILED),
        (302, NoticeState.FAILED), (410, NoticeState.FAILED),
    ],
)  # fmt: skip
async def test_what_a_webhook_answers_says_whether_it_is_tried_again(
    here: Sending, receiver: Receiver, status: int, state: NoticeState
) -> None:
    receiver.status = status
    await here.channel("ops", kind="webhook", url=receiver.url)
    await here.put(failed())
    await here.until(state, failed(), error=f"127.0.0.1 answers {status} said no")
    if state is NoticeState.SENDING:
        receiver.status = 200
        await here.later(10)
        await here.until(NoticeState.SENT, failed())
        assert receiver.ids == [failed().id] * 2
        assert receiver.got[0].raw == receiver.got[1].raw


async def _half() -> AsyncIterator[bytes]:
    yield b"half"
    raise ConnectionResetError


@pytest.mark.parametrize("content", [lambda: "x" * 70_000, _half], ids=["too long", "breaks off"])
async def test_a_webhook_that_says_yes_gets_a_message_once_whatever_else_it_says(
    here: Sending, receiver: Receiver, content: Callable[[], Any]
) -> None:
    receiver.answer = lambda request: web.Response(body=content())
    await here.channel("ops", kind="webhook", url=receiver.url)
    await here.put(failed())
    await here.until(NoticeState.SENT, failed())
    assert receiver.ids == [failed().id]


async def test_a_webhook_reaches_no_inner_address_whatever_its_name_says(
    place: Place, tmp_path: Path, receiver: Receiver
) -> None:
    async with sending(place, tmp_path, noticeNetworks=[]) as here:
        # What a name means is not up to us here: that of this machine is an inner address of it everywhere.
        await here.channel("ops", kind="webhook", url=receiver.url.replace("127.0.0.1", socket.gethostname()))
        await here.put(failed())
        await here.until(NoticeState.FAILED, failed(), error=" is no public address")
    assert receiver.got == []


async def test_slack_gets_a_text_and_its_secret_url_is_told_to_nobody(
    here: Sending, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret(tmp_path, "slack-url", receiver.url + "/T0/s3cret")
    await here.channel("ops", kind="slack", urlSecret="slack-url")
    receiver.status = 500
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="127.0.0.1 answers 500")
    receiver.status = 200
    await here.later(10)
    await here.until(NoticeState.SENT, failed())
    assert receiver.got[1].body["text"].startswith("*[etcron] job-0 failed: exit status 3*\nJob: job-0\n")
    assert "s3cret" not in caplog.text


async def test_a_server_that_says_the_secret_url_back_does_not_tell_it_to_all(
    here: Sending, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret(tmp_path, "slack-url", receiver.url + "/T0/s3cr%65t")
    await here.channel("ops", kind="slack", urlSecret="slack-url")
    receiver.answer = lambda request: web.Response(status=404, text=f"Cannot POST {request.path}")
    await here.put(failed())
    await here.until(NoticeState.FAILED, failed(), error="127.0.0.1 answers 404")
    [notice] = (await here.manager.runlog.notices.page()).items
    assert notice.error == "127.0.0.1 answers 404"
    assert "s3cr" not in caplog.text


async def test_a_mail_server_that_looks_into_a_mail_for_long_gets_it_once(
    here: Sending, mail_server: MailServer
) -> None:
    mail_server.takes_s = 1.5
    way = Email(ChannelSecrets(None), Tls(), step_s=1.0)
    channel = CHANNEL.read({
        "kind": "email", "host": "127.0.0.1", "port": mail_server.port, "tls": "none", "from": "etcron@example.org",
        "to": ["ann@example.org"],
    })  # fmt: skip
    content = Content(subject="s", text="t", html="<p>t</p>", facts="{}", created_ms=NOW)
    result = await way.send("ops", channel, Message(id="one", notices=("one",), content=content))
    assert result.accepted == ("ann@example.org",)
    assert len(mail_server.mails) == 1


async def test_a_mail_server_that_takes_long_for_each_recipient_gets_the_mail_for_some_of_them(
    mail_server: MailServer,
) -> None:
    way = Email(ChannelSecrets(None), Tls(), asked_s=0.0)
    channel = CHANNEL.read({
        "kind": "email", "host": "127.0.0.1", "port": mail_server.port, "tls": "none", "from": "etcron@example.org",
        "to": ["ann@example.org", "ben@example.org"],
    })  # fmt: skip
    content = Content(subject="s", text="t", html="<p>t</p>", facts="{}", created_ms=NOW)
    first = await way.send("ops", channel, Message(id="one", notices=("one",), content=content))
    assert (first.accepted, "ben@example.org" in first.put_off) == (("ann@example.org",), True)
    message = Message(id="one", notices=("one",), content=content, accepted=first.accepted)
    second = await way.send("ops", channel, message)
    assert (second.accepted, second.put_off) == (("ben@example.org",), "")
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.org"], ["ben@example.org"]]


async def test_a_command_channel_asks_for_one_run_however_often_it_is_told(here: Sending) -> None:
    spec = parse_job({"name": "page", "command": "x", "cronExpr": "@yearly"})
    await here.manager.etcd.put(here.manager.keys.job("page"), SavedJob(spec=spec, anchor_ms=NOW).to_json())
    await here.channel("ops", kind="command", job="page")
    await here.put(failed())
    await here.until(NoticeState.SENT, failed())
    requests = [kv async for found in here.manager.etcd.read_prefix(here.manager.keys.requests) for kv in found.kvs]
    (request,) = map(json.loads, (kv.value for kv in requests))
    assert request["env"]["ETCRON_NOTICE_ID"] == failed().id
    assert request["env"]["ETCRON_NOTICE_SUBJECT"] == "[etcron] job-0 failed: exit status 3"


async def test_a_command_channel_without_its_job_fails(here: Sending) -> None:
    await here.channel("ops", kind="command", job="page")
    await here.put(failed())
    await here.until(NoticeState.FAILED, failed(), error="there is no job page")


async def test_a_command_channel_waits_for_a_worker_where_its_job_is_for_all_of_them(here: Sending) -> None:
    spec = parse_job({"name": "page", "command": "x", "cronExpr": "@yearly", "broadcast": True})
    await here.manager.etcd.put(here.manager.keys.job("page"), SavedJob(spec=spec, anchor_ms=NOW).to_json())
    await here.channel("ops", kind="command", job="page")
    await here.put(failed())
    await here.until(NoticeState.SENDING, failed(), error="no worker that is live fits")


async def test_a_test_goes_the_way_of_all_others(here: Sending, mail_server: MailServer) -> None:
    await here.mails_to(mail_server)
    one = trial_notice("ops", by="ann", now_ms=NOW)
    await here.put(one)
    await here.until(NoticeState.SENT, one)
    assert mail_server.mails[0].message["Subject"] == "[etcron] test of channel ops"
    assert "ann asked for it" in mail_server.mails[0].part("plain")


async def test_notices_of_a_channel_that_is_gone_fail(here: Sending) -> None:
    await here.put(failed())
    await here.until(NoticeState.FAILED, failed(), error="there is no channel ops any more")


async def test_notices_that_are_too_old_by_a_clock_that_is_off_or_was_not_compared_yet_stay(
    place: Place, tmp_path: Path, mail_server: MailServer
) -> None:
    old, ahead_ms = failed(), KEPT_MS + 86_400_000
    async with sending(place, tmp_path) as one:
        await one.mails_to(mail_server)
        await one.put(old)
        await one.until(NoticeState.SENT, old)
    async with sending(place, tmp_path, ahead_ms=ahead_ms) as one:
        guard, runlog = one.manager.parts.clock_guard, one.manager.runlog

        async def has_had_a_turn(*numbers: int) -> None:
            """The second message is begun after all else that was due with the first."""
            for number in numbers:
                notice = failed(ahead_ms + number, channel=f"c{number}")
                await one.mails_to(mail_server, name=notice.channel)
                await one.put(notice)
                await one.until(NoticeState.SENT, notice)

        async def is_found(offset_ms: int) -> None:
            measured = {one.manager.parts.name: (guard.watch, offset_ms)}
            await say_clocks(one.manager.etcd, one.manager.keys, measured)
            await guard.check.look()

        await has_had_a_turn(1, 2)
        assert await runlog.notices.get(old.id) is not None, "it has just begun"
        await is_found(ahead_ms)
        one.clock.passed_s += 3_601
        await has_had_a_turn(3, 4)
        assert await runlog.notices.get(old.id) is not None, "its clock is off"
        await is_found(0)
        assert guard.fault is None

        async def is_gone() -> bool:
            return await runlog.notices.get(old.id) is None

        await wait_until(is_gone, description="it is forgotten")


async def test_two_managers_send_each_message_once(place: Place, tmp_path: Path, mail_server: MailServer) -> None:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(sending(place, tmp_path)) for _ in range(2)]
        channels = [f"c{number}" for number in range(12)]
        for channel in channels:
            await one.mails_to(mail_server, name=channel)
        notices = [failed(number, channel=channel) for number, channel in enumerate(channels)]
        await one.put(*notices)
        two.manager.parts.sender.wake()
        await one.until(NoticeState.SENT, *notices)
    assert sorted(mail.id for mail in mail_server.mails) == sorted(notice.id for notice in notices)


async def test_a_manager_that_stops_is_there_for_the_others_until_its_message_is_through(
    place: Place, tmp_path: Path, mail_server: MailServer
) -> None:
    mail_server.takes_s, was_over = 1, list[bool]()
    async with sending(place, tmp_path) as one:
        await one.mails_to(mail_server)
        await one.put(failed())
        await wait_until(lambda: bool(mail_server.mails), description="the server looks into the mail")
        session = one.manager.parts.presence.session
        assert session is not None
        mail_server.on_mail = lambda: was_over.append(session.ended.is_set())
    assert was_over == [False]
    assert session.ended.is_set()


async def test_what_a_dead_sender_has_put_together_is_sent_as_it_was(
    place: Place, tmp_path: Path, mail_server: MailServer
) -> None:
    async with sending(place, tmp_path) as first:
        await mail_server.stop()
        await first.mails_to(mail_server)
        await first.put(failed())
        await first.until(NoticeState.SENDING, failed(), error="127.0.0.1:")
        state = await first.manager.runlog.notices.state("ops")
        assert state is not None
        # It has died holding the channel.
        await first.manager.runlog.notices.claim("ops", "manager.gone.1")
    await mail_server.start()
    async with sending(place, tmp_path) as second:
        await second.later(10)
        await second.until(NoticeState.SENT, failed())
    (mail,) = mail_server.mails
    assert mail.part("plain").split() == state.messages[0].content.text.split()


async def test_a_manager_whose_clock_was_a_minute_ahead_keeps_nothing_back(
    place: Place, tmp_path: Path, mail_server: MailServer
) -> None:
    async with sending(place, tmp_path) as ahead:
        await ahead.mails_to(mail_server)
        await ahead.later(60)
        await ahead.put(failed())
        await ahead.until(NoticeState.SENT, failed())
    async with sending(place, tmp_path) as right:
        await right.put(failed(1))
        await right.until(NoticeState.SENT, failed(1))
        state = await right.manager.runlog.notices.state("ops")
    assert state is not None
    assert state.last_sent_ms < right.clock.wall_ms()
    assert len(mail_server.mails) == 2


@pytest.mark.parametrize("template", ["message.txt", "message.html"])
async def test_a_template_with_a_variable_that_is_not_there_loses_no_message(
    place: Place, tmp_path: Path, mail_server: MailServer, template: str
) -> None:
    webroot = tmp_path / "webroot"
    shutil.copytree(Path(__file__).parents[3] / "webroot", webroot, ignore=shutil.ignore_patterns("vendor"))
    (webroot / "templates" / "notices" / template).write_text("{{ headlnie }} <b>")
    async with sending(place, tmp_path, webroot=str(webroot)) as here:
        await here.mails_to(mail_server)
        await here.put(failed())
        await here.until(NoticeState.SENT, failed())
    for kind in ("plain", "html"):
        assert "job-0 failed: exit status 3" in mail_server.mails[0].part(kind)


async def test_while_the_log_store_is_away_nothing_is_lost_or_sent_twice(
    place: Place, tmp_path: Path, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with LogStoreServer(tmp_path / "own") as store:
        own = replace(place, log_store=store.uri)
        async with sending(own, tmp_path, mongodbConnectTimeout=500) as here:
            await here.mails_to(mail_server)

            def pause() -> None:  # the mail is taken, and that cannot be noted
                caplog.clear()  # a store that begins is slow, too
                store.pause()

            mail_server.on_mail = pause
            await here.put(failed())
            await wait_until(
                lambda: bool(mail_server.mails) and "notices wait" in caplog.text, description="the log store is away"
            )
            mail_server.on_mail = None
            store.resume()
            await here.put(failed(1))
            await here.until(NoticeState.SENT, failed())
            await here.later(10)
            await here.until(NoticeState.SENT, failed(1))
    assert [mail.id for mail in mail_server.mails] == [failed().id, failed(1).id]
