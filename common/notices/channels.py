"""A place that messages go to, as users define it and as it lies in etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from common.access.fields import SelectorField
from common.access.selectors import Selector
from common.errors import Problem
from common.jobs.kinds import AnyText, Choice, Number, Several, about
from common.jobs.values import JobName
from common.notices.forms import ADDRESS, SECRET, USER, Form, Host, Url

MOST_CHANNELS: Final = 500
MOST_RECIPIENTS: Final = 50
MAX_DESCRIPTION: Final = 500


class ChannelKind(StrEnum):
    """How a channel's messages are sent."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"
    COMMAND = "command"


class MailTls(StrEnum):
    """How the way to a mail server is secured."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


_OF_EMAIL: Final = ("to", "from", "host", "port", "tls", "user", "passwordSecret")
_TAKES: Final[Mapping[ChannelKind, tuple[str, ...]]] = {
    ChannelKind.EMAIL: _OF_EMAIL,
    ChannelKind.WEBHOOK: ("url", "urlSecret", "signingSecret"),
    ChannelKind.SLACK: ("url", "urlSecret"),
    ChannelKind.COMMAND: ("job",),
}
_NEEDS: Final[Mapping[ChannelKind, Mapping[str, str]]] = {
    ChannelKind.EMAIL: {
        "to": 'who gets the mails, e.g. ["ops@example.org"]',
        "from": "the address that they come from, e.g. etcron@example.org",
        "host": "the mail server, e.g. mail.example.org",
    },
    ChannelKind.WEBHOOK: {},
    ChannelKind.SLACK: {},
    ChannelKind.COMMAND: {"job": "the name of the job of which each message asks for a run"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One channel. What is secret is the name of a secret in the managers' ``secretsDirectory``."""

    kind: Annotated[ChannelKind, Choice(ChannelKind), about("kind", "how its messages are sent", "email")]
    labels: Annotated[Selector | None, SelectorField(), about(
        "labels", "of the jobs that may use it; all where it is left out", {"team": ["billing"]})] = None  # fmt: skip
    description: Annotated[str, AnyText(longest=MAX_DESCRIPTION), about(
        "description", "what it is for", "who is on call")] = ""  # fmt: skip
    to: Annotated[tuple[str, ...], Several(
        of=ADDRESS, what="addresses", least=0, most=MOST_RECIPIENTS, alone=False, unique=True), about(
        "to", "email: the recipients", ["ops@example.org"])] = ()  # fmt: skip
    sender: Annotated[str | None, ADDRESS, about("from", "email: the sender", "etcron@example.org")] = None
    host: Annotated[str | None, Host(), about("host", "email: the mail server", "mail.example.org")] = None
    port: Annotated[int | None, Number(low=1, high=65_535, whole=True, unit=""), about(
        "port", "email: its port; 587, 465 or 25, by `tls`, where it is left out", 587)] = None  # fmt: skip
    tls: Annotated[MailTls, Choice(MailTls), about(
        "tls", "email: how the way to the server is secured", "starttls")] = MailTls.STARTTLS  # fmt: skip
    user: Annotated[str | None, USER, about("user", "email: who logs in at the server", "etcron")] = None
    password_secret: Annotated[str | None, SECRET, about(
        "passwordSecret", "email: the secret that holds the password", "smtp-password")] = None  # fmt: skip
    url: Annotated[str | None, Url(), about(
        "url", "webhook, slack: where to", "https://hooks.example.org/etcron")] = None  # fmt: skip
    url_secret: Annotated[str | None, SECRET, about(
        "urlSecret", "webhook, slack: the secret that holds the URL", "slack-url")] = None  # fmt: skip
    signing_secret: Annotated[str | None, SECRET, about(
        "signingSecret", "webhook: the secret that messages are signed with", "hook-key")] = None  # fmt: skip
    job: Annotated[str | None, JobName(), about(
        "job", "command: the job of which each message asks for a run", "page-someone")] = None  # fmt: skip

    def may_be_used_by(self, labels: Mapping[str, str]) -> bool:
        """Whether jobs with these labels may name it."""
        return self.labels is None or self.labels.matches(labels)

    def problems(self) -> list[Problem]:
        """What does not go together."""
        given = {name for name in CHANNEL.write(self) if name not in ("kind", "labels", "description")}
        if self.tls is MailTls.STARTTLS:
            given -= {"tls"}
        given -= set() if self.to else {"to"}
        kind, takes = self.kind, _TAKES[self.kind]
        found = [
            Problem(field=name, message=f"is no field of a channel of kind {kind}", remedy="leave it out")
            for name in sorted(given - set(takes))
        ]
        found += [
            Problem(field=name, message=f"is missing, and kind {kind} needs it", remedy=f"needed: {what}")
            for name, what in _NEEDS[kind].items() if name not in given
        ]  # fmt: skip
        if "url" in takes and len(given & {"url", "urlSecret"}) != 1:
            what = "is given beside urlSecret" if "url" in given else "is missing"
            remedy = "needed: url, or urlSecret where the URL is a secret, and not both"
            found.append(Problem(field="url", message=what, remedy=remedy))
        if kind is ChannelKind.EMAIL:
            found += self._problems_of_login()
        return found

    def _problems_of_login(self) -> list[Problem]:
        if (self.user is None) != (self.password_secret is None):
            missing, given = ("user", "passwordSecret") if self.user is None else ("passwordSecret", "user")
            return [Problem(field=missing, message=f"is missing beside {given}", remedy="give both, or neither")]
        if self.password_secret is not None and self.tls is MailTls.NONE:
            message = "would send the password so that everybody on the way can read it"
            return [Problem(field="tls", message=message, remedy="needed: starttls or tls, where there is a password")]
        return []


CHANNEL: Final = Form(Channel, "channel")
