"""Channels, rules and silences: read with every mistake at once, written, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from common.access.selectors import Selector
from common.errors import InvalidInputError
from common.notices.channels import CHANNEL, Channel
from common.notices.forms import Form, Stored
from common.notices.rules import RULE, Rule
from common.notices.silences import LONGEST_MS, SILENCE, AlertOf, Silence
from common.verdicts import EventKind

EMAIL = {"kind": "email", "to": ["ops@example.org"], "from": "etcron@example.org", "host": "mail.example.org"}
WEBHOOK = {"kind": "webhook", "url": "https://hooks.example.org/etcron"}
ALL_FAILURES = {"labels": "all", "to": ["ops"]}
NIGHT = {"jobs": ["backup"], "fromMs": 1_000, "untilMs": 2_000}

GOOD: dict[str, tuple[Form[Any], dict[str, Any]]] = {
    "a mail": (CHANNEL, EMAIL),
    "a mail by a server that wants a login": (
        CHANNEL,
        EMAIL | {"port": 465, "tls": "tls", "user": "etcron", "passwordSecret": "smtp", "labels": {"team": ["dba"]}},
    ),
    "a webhook that is signed": (CHANNEL, WEBHOOK | {"signingSecret": "hook-key", "description": "the pager"}),
    "a webhook at an address": (CHANNEL, WEBHOOK | {"url": "http://[2001:db8::1]:8080/x?y=1"}),
    "slack, with its URL kept secret": (CHANNEL, {"kind": "slack", "urlSecret": "slack-url"}),
    "a command": (CHANNEL, {"kind": "command", "job": "page-someone"}),
    "a rule for all jobs": (RULE, ALL_FAILURES),
    "a rule for some": (
        RULE,
        {"labels": {"team": ["dba", "ops"]}, "to": ["ops"], "on": ["output"], "after": 3, "repeatHours": 0},
    ),
    "a rule for the system": (RULE, {"system": True, "to": ["ops"], "on": ["worker-down"], "required": True}),
    "a silence of jobs": (SILENCE, NIGHT),
    "a silence by labels": (SILENCE, {"labels": {"team": ["dba"]}, "fromMs": 0, "untilMs": LONGEST_MS, "reason": "x"}),
    "an acknowledgement": (
        SILENCE,
        {"alert": {"job": "backup", "sinceMs": 900}, "fromMs": 1_000, "untilMs": 2_000},
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_is_written_is_read_again(case: str) -> None:
    form, document = GOOD[case]
    record = form.read(document)
    stored = Stored(record=record, created_ms=5, created_by="ann", changed_ms=6)

    assert form.from_json(form.to_json(stored)) == stored
    assert form.read(form.write(record)) == record
    assert document.items() <= form.write(record).items()


BAD: dict[str, tuple[Form[Any], dict[str, Any], list[str]]] = {
    "nothing": (CHANNEL, {}, ["kind: is missing"]),
    "a kind that is not there": (CHANNEL, {"kind": "pigeon"}, ["kind: is 'pigeon'; one of: email"]),
    "a mail without what it needs": (
        CHANNEL, {"kind": "email"}, ["to: is missing", "from: is missing", "host: is missing"],
    ),
    "addresses that are none": (
        CHANNEL,
        EMAIL | {"to": ["ops", "a b@c.d", "a@b.c\nBcc: x@y.z", "a@-b", "Ops <a@b.c>"], "from": "@"},
        ["to[0]: ", "to[1]: ", "to[2]: ", "to[3]: ", "to[4]: ", "from: "],
    ),
    "the same address twice": (CHANNEL, EMAIL | {"to": ["a@b.c", "a@b.c"]}, ["to[1]: is 'a@b.c' again"]),
    "a host with its port": (CHANNEL, EMAIL | {"host": "mail:25"}, ["host: is 'mail:25'; needed: a host name"]),
    "a port that is none": (CHANNEL, EMAIL | {"port": 0}, ["port: is 0; needed: a whole number from 1 to 65,535"]),
    "a password without a user": (CHANNEL, EMAIL | {"passwordSecret": "p"}, ["user: is missing beside passwordSecret"]),
    "a password that all can read": (
        CHANNEL, EMAIL | {"user": "u", "passwordSecret": "p", "tls": "none"}, ["tls: would send the password"],
    ),
    "a secret by its path": (CHANNEL, {"kind": "slack", "urlSecret": "../etc/shadow"}, ["urlSecret: is "]),
    "fields of another kind": (
        CHANNEL, WEBHOOK | {"to": ["a@b.c"], "tls": "tls"},
        ["tls: is no field of a channel of kind webhook", "to: is no field of a channel of kind webhook"],
    ),
    "a field that is not there": (CHANNEL, WEBHOOK | {"Url": "x"}, ["Url: is not a field of channel; did you mean"]),
    "no URL": (CHANNEL, {"kind": "webhook"}, ["url: is missing; needed: url, or urlSecret"]),
    "a URL, and a secret one": (CHANNEL, WEBHOOK | {"urlSecret": "u"}, ["url: is given beside urlSecret"]),
    "a URL without a host": (CHANNEL, WEBHOOK | {"url": "https:///x"}, ["url: has no host"]),
    "a URL of a file": (CHANNEL, WEBHOOK | {"url": "file:///etc/passwd"}, ["url: has the scheme 'file'"]),
    "a URL with a password": (CHANNEL, WEBHOOK | {"url": "https://a:b@c.d"}, ["url: has a user or a password in it"]),
    "a URL with a line end": (CHANNEL, WEBHOOK | {"url": "https://c.d/\r\nX: y"}, ["url: has spaces"]),
    "a URL with no such port": (CHANNEL, WEBHOOK | {"url": "https://c.d:99999/"}, ["url: is no URL"]),
    "a long URL": (CHANNEL, WEBHOOK | {"url": "https://c.d/" + "x" * 2_000}, ["url: is 2,012 characters long"]),
    "a command without a job": (CHANNEL, {"kind": "command"}, ["job: is missing, and kind command needs it"]),
    "labels that select nothing": (CHANNEL, WEBHOOK | {"labels": {}}, ["labels: is {}"]),
    "a rule that goes nowhere": (RULE, {"labels": "all"}, ["to: is missing"]),
    "a number that some take for 127.0.0.1": (CHANNEL, WEBHOOK | {"url": "http://0x7f.1/x"}, ["url: has no host"]),
    "another one": (CHANNEL, WEBHOOK | {"url": "http://2130706433/x"}, ["url: has no host"]),
    "a rule of nothing": (RULE, {"to": ["ops"]}, ["labels: is missing"]),
    "a rule of jobs and the system": (RULE, ALL_FAILURES | {"system": True}, ["labels: is given beside system"]),
    "events of jobs for the system": (
        RULE, {"system": True, "to": ["ops"], "on": ["failed", "recovered"]}, ["on[0]: failed is an event of jobs"],
    ),
    "events of the system for jobs": (
        RULE, ALL_FAILURES | {"on": ["failed", "worker-down", "burnt"]}, ["on[2]: is 'burnt'"],
    ),
    "an event of the system for jobs": (
        RULE, ALL_FAILURES | {"on": ["worker-down"]}, ["on[0]: worker-down is an event of the system"],
    ),
    "numbers beyond their limits": (
        RULE, ALL_FAILURES | {"after": 0, "repeatHours": -1, "to": ["a", "b", "a"]},
        ["after: is 0", "to[2]: is 'a' again", "repeatHours: is -1"],
    ),
    "a silence of nothing": (SILENCE, {"fromMs": 1, "untilMs": 2}, ["labels: is missing"]),
    "a silence of both": (SILENCE, NIGHT | {"labels": "all"}, ["labels: is given beside another"]),
    "a silence that is over before it begins": (SILENCE, NIGHT | {"untilMs": 1_000}, ["untilMs: is not after"]),
    "a silence of more than 30 days": (
        SILENCE, NIGHT | {"untilMs": 1_001 + LONGEST_MS}, ["untilMs: is more than 30 days after its begin"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_every_mistake_is_told_at_once_with_its_remedy(case: str) -> None:
    form, document, expected = BAD[case]
    with pytest.raises(InvalidInputError) as caught:
        form.read(document)

    problems = caught.value.problems
    assert [True for told, begin in zip(problems, expected, strict=True) if str(told).startswith(begin)] == [
        True for _ in expected
    ], problems
    assert all(problem.remedy for problem in problems)


@pytest.mark.parametrize("value", [
    b"", b"[]", b"\xff", b"{}", b'{"kind": "email"}', b'{"kind": "slack", "urlSecret": "x", "createdMs": -1}',
    b'{"kind": "slack", "urlSecret": "x", "createdMs": 1, "createdBy": 7, "changedMs": 1}',
])  # fmt: skip
def test_what_is_no_record_is_none(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a channel: "):
        CHANNEL.from_json(value)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    value = CHANNEL.to_json(Stored(record=CHANNEL.read(WEBHOOK)))

    assert CHANNEL.from_json(value[:-1] + b', "later": [1]}').record == CHANNEL.read(WEBHOOK)


def test_channel_names_who_may_use_it() -> None:
    channel = CHANNEL.read(WEBHOOK)

    assert channel.may_be_used_by({})
    of_dba = replace(channel, labels=Selector.of({"team": ["dba"]}))
    assert of_dba.may_be_used_by({"team": "dba"})
    assert not of_dba.may_be_used_by({})


RULES: dict[str, tuple[Rule, Mapping[str, str] | None, EventKind, bool]] = {
    "a failure, by default": (RULE.read(ALL_FAILURES), {}, EventKind.FAILED, True),
    "a recovery, by default": (RULE.read(ALL_FAILURES), {}, EventKind.RECOVERED, True),
    "output, which nobody asked for": (RULE.read(ALL_FAILURES), {}, EventKind.OUTPUT, False),
    "another team's": (RULE.read(ALL_FAILURES | {"labels": {"team": ["dba"]}}), {}, EventKind.FAILED, False),
    "the system's, of a rule for jobs": (RULE.read(ALL_FAILURES), None, EventKind.RECOVERED, False),
    "the system's": (RULE.read({"system": True, "to": ["ops"]}), None, EventKind.ETCD_FULL, True),
    "a job's, of a rule for the system": (RULE.read({"system": True, "to": ["a"]}), {}, EventKind.RECOVERED, False),
}


@pytest.mark.parametrize("case", RULES)
def test_rule_asks_for(case: str) -> None:
    rule, labels, kind, expected = RULES[case]

    assert rule.matches(labels, kind) is expected


DBA = {"team": "dba"}
ACKNOWLEDGED = Silence(alert=AlertOf(job="backup", since_ms=900), from_ms=1_000, until_ms=2_000)
SILENCES: dict[str, tuple[Silence, str, int, int, bool]] = {
    "its job": (SILENCE.read(NIGHT), "backup", 900, 1_000, True),
    "another job": (SILENCE.read(NIGHT), "report", 900, 1_000, False),
    "before it": (SILENCE.read(NIGHT), "backup", 900, 999, False),
    "after it": (SILENCE.read(NIGHT), "backup", 900, 2_000, False),
    "by labels": (Silence(labels=Selector.of({"team": ["dba"]}), from_ms=0, until_ms=9), "x", 1, 1, True),
    "other labels": (Silence(labels=Selector.of({"team": ["ops"]}), from_ms=0, until_ms=9), "x", 1, 1, False),
    "the system": (Silence(labels=Selector(None), from_ms=0, until_ms=9), "", 1, 1, False),
    "the alert that was acknowledged": (ACKNOWLEDGED, "backup", 900, 1_500, True),
    "a later alert of the same job": (ACKNOWLEDGED, "backup", 1_400, 1_500, False),
}


@pytest.mark.parametrize("case", SILENCES)
def test_silence_covers(case: str) -> None:
    silence, job, since_ms, now_ms, expected = SILENCES[case]

    assert silence.covers(job=job, labels=DBA, since_ms=since_ms, now_ms=now_ms) is expected


def test_a_channel_says_nothing_of_its_defaults_that_another_kind_would_refuse() -> None:
    assert CHANNEL.read(CHANNEL.write(CHANNEL.read(WEBHOOK))) == Channel(
        kind=CHANNEL.read(WEBHOOK).kind, url="https://hooks.example.org/etcron"
    )
