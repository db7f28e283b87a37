"""Which rules apply to a job, besides its own ``notify``: which channel hears of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.jobs.notify import Notify
from common.notices.channels import Channel, ChannelKind
from common.notices.rules import Rule
from common.verdicts import EventKind

_HOUR_MS: Final = 3_600_000
REPEAT_MS: Final = 24 * _HOUR_MS
"""Of what a job says itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """One rule, or one entry of a job's own, as it applies to one job, or to the system."""

    rule: str | None = None
    """None: the job's own."""
    on: tuple[EventKind, ...]
    after: int = 1
    to: tuple[str, ...]
    """Those of its channels that jobs with these labels may use."""
    repeat_ms: int = REPEAT_MS
    """0: never."""
    required: bool = False


def jobs_of_commands(channels: Mapping[str, Channel]) -> frozenset[str | None]:
    """The jobs that channels ask for runs of: no message about these may ask for one."""
    return frozenset(one.job for one in channels.values() if one.kind is ChannelKind.COMMAND)


def applying_to_job(
    labels: Mapping[str, str], notify: Sequence[Notify], rules: Mapping[str, Rule], channels: Mapping[str, Channel],
    *, is_of_command: bool = False,
) -> list[Applying]:  # fmt: skip
    """The job's own first, then rules by name. A channel that is not there is named too: its notices say that."""

    def usable(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for one in names if one not in channels or (
            channels[one].may_be_used_by(labels) and not (is_of_command and channels[one].kind is ChannelKind.COMMAND)
        ))  # fmt: skip

    own = [Applying(on=one.kinds, after=one.after, to=usable([one.to])) for one in notify]
    by_rules = (
        _of_rule(name, rule, usable(rule.to))
        for name, rule in sorted(rules.items())
        if rule.labels is not None and rule.labels.matches(labels)
    )
    return [one for one in (*own, *by_rules) if one.to]


def applying_to_system(rules: Mapping[str, Rule]) -> Iterator[Applying]:
    """Rules for the system, by name."""
    return (_of_rule(name, rule, rule.to) for name, rule in sorted(rules.items()) if rule.system)


def _of_rule(name: str, rule: Rule, to: tuple[str, ...]) -> Applying:
    return Applying(
        rule=name, on=rule.events, after=rule.after, to=to, repeat_ms=rule.repeat_hours * _HOUR_MS,
        required=rule.required,
    )  # fmt: skip
