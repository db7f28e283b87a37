"""Texts of jobs and servers in messages: no header, no terminal, no page and no chat obeys them; all is bounded."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from common.notices.channels import Channel, ChannelKind
from common.notices.events import Event
from common.notices.joining import Content, Message
from common.notices.notice import AlertedEvent, Notice, NoticeKind
from common.verdicts import EventKind
from manager.notices.command import environment
from manager.notices.email import as_mail, as_sent
from manager.notices.plain import MOST_LINES, last_lines, line
from manager.notices.rendering import About, facts_of, sentence
from manager.notices.webhook import signature, slack_text

SAYS = Content(subject="[etcron] j failed", text="It failed.\n", html="<p>It failed.</p>", facts="{}", created_ms=0)
OPS = Channel(kind=ChannelKind.EMAIL, to=("a@example.org", "b@example.org"), sender="etcron@example.org", host="mail")


def mail(name: str = "ops", **changes: object) -> EmailMessage:
    return as_mail(name, OPS, Message(id="0123", notices=(), content=replace(SAYS, **changes)))


def test_a_mail_says_that_a_program_sent_it_and_how_a_second_one_is_told() -> None:
    made = mail(thread="abc")
    assert dict(made.items()) | {"Content-Type": ""} == {
        "From": "etcron@example.org", "To": "a@example.org, b@example.org", "Subject": "[etcron] j failed",
        "Date": "Thu, 01 Jan 1970 00:00:00 +0000", "Message-ID": "<0123@etcron>", "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All", "List-Id": "<ops.notices.etcron>", "References": "<abc@etcron>",
        "MIME-Version": "1.0", "Content-Type": "",
    }  # fmt: skip
    assert [part.get_content_type() for part in made.iter_parts()] == ["text/plain", "text/html"]


@pytest.mark.parametrize("length", range(60, 90))
def test_a_subject_of_any_length_begins_behind_its_name(length: int) -> None:
    subject = f"[etcron] {'is so ' * 20}"[:length].strip()
    made = message_from_bytes(as_sent(mail(subject=subject)), policy=policy.SMTP)
    assert made["Subject"] == subject


def test_a_mail_is_the_same_to_the_letter_each_time() -> None:
    assert mail().as_bytes() == mail().as_bytes()


EVIL = "x\r\nBcc: mallory@example.org\n\nhello\x00\x1b[31m\u2028\ud800"


def test_no_text_becomes_a_header_of_a_mail() -> None:
    made = mail("ops\r\nBcc: m@x", subject=line(EVIL), text=line(EVIL), html=line(EVIL), thread="")
    content = made.as_bytes().decode()
    headers = content.partition("\r\n\r\n")[0]
    assert "Bcc" not in made
    assert not any(one.startswith("Bcc") for one in headers.split("\r\n"))
    assert len(made["Subject"]) < 250


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_text_of_a_job_arrives_as_text(subject: str, body: str) -> None:
    sent = mail(subject=line(subject), text=f"{last_lines(body)}\n", html=f"<p>{line(body)}</p>")
    came = message_from_bytes(sent.as_bytes(), policy=policy.default)
    assert [*came.keys()] == [*mail().keys()]
    # Where it is folded, Python's email may lose a space.
    assert "".join(str(came["Subject"]).split()) == "".join(line(subject).split())
    part = came.get_body(("plain",))
    assert part is not None
    assert part.get_content().split() == last_lines(body).split()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\nc", "a b c"), ("\x1b[1;31mred\x1b[0m", "red"), ("\x1b]0;title\x07body", "body"), ("a\x00b", "a b"),
        ("\u202egnp.exe", "gnp.exe"), ("x" * 300, "x" * 199 + "…"), ("", ""), ("\ud800", ""),
    ],
)  # fmt: skip
def test_a_line_is_one_line(text: str, shown: str) -> None:
    assert line(text) == shown


def test_of_an_output_the_last_lines_are_shown_as_they_stood_in_the_end() -> None:
    output = "first\n" * 100 + "\x1b[32m10 %\r55 %\r100 %\x1b[0m\r\nTraceback:\n\tboom\x07\n::progress 40% b\r\n\n"
    shown = last_lines(output).split("\n")
    assert len(shown) == MOST_LINES
    assert shown[-3:] == ["100 %", "Traceback:", "\tboom"]


def test_of_an_output_of_megabytes_little_is_shown() -> None:
    assert len(last_lines("x" * 2_000_000)) < 1_000
    assert len(last_lines(("y" * 3_000 + "\n") * 700)) < 20_000
    assert last_lines("\x1b]" * 1_000_000) == ""


def test_slack_and_mattermost_obey_nothing() -> None:
    shown = slack_text("<!channel> @here [x](http://y) ``` & <http://evil|ok>")
    assert "<" not in shown
    assert "@here" not in shown
    assert "```" not in shown


def test_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's own test vectors.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330"}
    assert signature(secret, headers, b'{"test": 2432232314}') == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_plain_secret_signs_by_its_bytes() -> None:
    headers = {"webhook-id": "a", "webhook-timestamp": "1"}
    as_base64 = "whsec_" + base64.b64encode(b"secret").decode()
    assert signature("secret", headers, b"{}") == signature(as_base64, headers, b"{}")


def test_a_run_gets_at_most_64_kib() -> None:
    small = environment("ops", Message(id="a", notices=(), content=SAYS))
    assert set(small) == {f"ETCRON_NOTICE_{name}" for name in ("ID", "CHANNEL", "SUBJECT", "TEXT", "JSON")}
    large = replace(SAYS, text="ä" * 20_000, facts=json.dumps({"x": "y" * 40_000}))
    given = environment("ops", Message(id="a", notices=(), content=large))
    assert sum(len(name) + len(value.encode()) for name, value in given.items()) <= 65_536
    assert "ETCRON_NOTICE_JSON" not in given


def _of(kind: EventKind, subject: str = "", since_ms: int | None = None, **job: Any) -> AlertedEvent:
    return AlertedEvent(event=Event(kind=kind, at_ms=90_000, subject=subject, **job), since_ms=since_ms)


@pytest.mark.parametrize(("kind", "told", "headline"), [
    (NoticeKind.RECOVERED, [_of(EventKind.RECOVERED, "notices-failing/ops", 30_000)],
     "over after 1 minute: messages to channel ops fail"),
    (NoticeKind.RECOVERED, [_of(EventKind.RECOVERED, job="j", since_ms=30_000)], "j is fine again after 1 minute"),
    (NoticeKind.REPEAT, [_of(EventKind.FAILED, job="i"), _of(EventKind.FAILED, job="j")], "still: 2 failed"),
    (NoticeKind.DIGEST, [_of(EventKind.WORKER_DOWN, "w1"), _of(EventKind.WORKER_DOWN, "w2")], "worker down (2)"),
])  # fmt: skip
def test_a_headline_says_what_is_so(kind: NoticeKind, told: list[AlertedEvent], headline: str) -> None:
    notice = Notice(id="n", channel="ops", kind=kind, created_ms=90_000, told=tuple(told))
    assert facts_of(notice, About(now_ms=90_000), None)["headline"] == headline


def test_each_event_has_words_of_its_own() -> None:
    said = {sentence(AlertedEvent(event=Event(kind=kind, at_ms=0, job="j"))) for kind in EventKind}
    assert len(said) == len(EventKind)
