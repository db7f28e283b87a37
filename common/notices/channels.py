"""A place that messages go to, as it lies in etcd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field


class ChannelKind(StrEnum):
    """How a channel's messages are sent."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"
    COMMAND = "command"


class Channel(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One channel. What is secret is the name of a secret in the managers' ``secretsDirectory``."""

    kind: ChannelKind
    labels: Mapping[str, Sequence[str]] | str | None = None
    """Of the jobs that may use it, as `Selector` reads it; None: all."""
    description: str = ""
    to: Sequence[str] = ()
    """email: the recipients."""
    sender: str | None = field(default=None, name="from")
    host: str | None = None
    port: int | None = None
    tls: str = "starttls"
    """email: ``starttls``, ``tls`` or ``none``."""
    user: str | None = None
    password_secret: str | None = None
    url: str | None = None
    """webhook, slack: where to; or the secret that holds it."""
    url_secret: str | None = None
    signing_secret: str | None = None
    job: str | None = None
    """command: the job of which a run is asked for."""
    created_ms: int = 0
    created_by: str = ""
    changed_ms: int = 0
