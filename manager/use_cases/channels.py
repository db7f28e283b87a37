"""Channels: saved and removed; and whether a job may name the channels that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from common.access.rights import Rights, Role, spelled
from common.access.selectors import EVERYTHING
from common.errors import ConflictError, ForbiddenError, InvalidInputError, Problem, nearest
from common.jobs.job import JobSpec
from common.jobs.reading import check
from common.notices.channels import CHANNEL, MOST_CHANNELS, Channel, ChannelKind
from common.notices.rules import Rule
from common.protocol import record_edits as edits
from common.protocol.keys import Keys
from common.protocol.txn import Guards
from manager.http.outgoing import Reach, refusal_of
from manager.use_cases.notice_records import Kept, KeptRecords, SavedRecord
from manager.use_cases.records import Records
from manager.watch.catalog import Catalog
from manager.watch.notices import NoticeRecords

_TOLD: Final = 5
_ON_ITS_WAY_S: Final = 0.5


class Secrets(Protocol):
    """Those that channels name."""

    async def fault(self, name: str) -> str | None:
        """Why it cannot be read here, without its value; None: it can."""


class ChannelService:
    """Saves and removes channels."""

    def __init__(
        self, records: Records, keys: Keys, catalog: Catalog, rules: KeptRecords[Rule], reach: Reach,
        secrets: Secrets | None,
    ) -> None:  # fmt: skip
        """``secrets``: None where this manager sends nothing, and so need not have them."""
        self.kept = KeptRecords[Channel](records, CHANNEL, keys.channels, what="channel", most=MOST_CHANNELS)
        self._keys = keys
        self._catalog = catalog
        self._rules = rules
        self._reach = reach
        self._secrets = secrets

    async def save(self, name: str, channel: Channel, *, by: str, if_match: int | None = None) -> SavedRecord[Channel]:
        """InvalidInputError: its URL leads to where no webhook may go. Else as `KeptRecords.put`."""
        if channel.url is not None and (why := refusal_of(channel.url, self._reach)) is not None:
            remedy = "give a public one, or have an administrator allow its network by noticeNetworks"
            raise InvalidInputError(
                [Problem(field="url", message=f"is where nothing is sent to: {why}", remedy=remedy)]
            )

        async def judge(_: Channel | None) -> Guards:
            return ()

        kept, before = await self.kept.put(name, channel, by=by, judge=judge, if_match=if_match)
        return SavedRecord(kept=kept, before=before, warnings=tuple(await self._warnings(name, channel)))

    async def remove(self, name: str, *, by: str, if_match: int | None = None) -> Kept[Channel]:
        """What it was. ConflictError: a rule or a job names it."""

        async def judge(_: Channel | None) -> Guards:
            rules, revision = await self._rules.all()
            naming = [one.name for one in rules if one.record is not None and name in one.record.to]
            jobs = [job for job, _ in await self._jobs_naming(name)]
            if naming or jobs:
                users = [_listed("rule", naming), _listed("job", jobs)]
                raise ConflictError(
                    f"channel {name} is named by {' and '.join(filter(None, users))}: take it out there first"
                )
            return edits.none_written(self._keys.rules, revision)

        return await self.kept.remove(name, by=by, judge=judge, if_match=if_match)

    async def _warnings(self, name: str, channel: Channel) -> list[str]:
        unfit = [job for job, labels in await self._jobs_naming(name) if not channel.may_be_used_by(labels)]
        found = []
        if unfit:
            found.append(f"{_listed('job', unfit)} may not use it by its labels, so nothing of their own goes there")
        if channel.job is not None and channel.job not in self._catalog:
            found.append(f"there is no job {channel.job}: messages fail until there is")
        if self._secrets is not None:
            named = filter(None, (channel.password_secret, channel.url_secret, channel.signing_secret))
            faults = [await self._secrets.fault(secret) for secret in named]
            found += [f"{fault}; messages wait until it can be read" for fault in faults if fault is not None]
        return found

    async def _jobs_naming(self, channel: str) -> list[tuple[str, Mapping[str, str]]]:
        """As far as this manager has seen them."""
        return [
            (name, spec.labels)
            async for name, spec in self._catalog.each()
            if spec.notify and any(one.to == channel for one in spec.notify)
        ]


class NamedChannels:
    """Says whether jobs may name the channels that they name."""

    def __init__(self, notices: NoticeRecords, kept: KeptRecords[Channel]) -> None:
        self._notices = notices
        self._kept = kept

    async def known(self, spec: JobSpec | None = None) -> Mapping[str, Channel]:
        """All channels, as they are watched; also those that this job names, if they were just made."""
        if not self._notices.are_read:
            kept, _ = await self._kept.all()
            return {one.name: one.record for one in kept if one.record is not None}
        named = {one.to for one in spec.notify} if spec is not None else set()
        if not named <= self._notices.channels.keys():
            await self._notices.changes.until(lambda: named <= self._notices.channels.keys(), _ON_ITS_WAY_S)
        return self._notices.channels

    def check(
        self, spec: JobSpec, before: Mapping[str, str] | None, rights: Rights, channels: Mapping[str, Channel], *,
        is_new: bool,
    ) -> None:  # fmt: skip
        """InvalidInputError: it names a channel that is not there, or which its labels may not use. ForbiddenError: a
        command channel runs it, and the caller is no administrator of it as it is (``before``) and becomes.
        """
        check(list(self._problems(spec, channels)))
        if is_new:
            self.check_made_or_deleted(spec.name, rights, channels)
        elif (why := admin_alone_saves(spec.name, channels)) is not None and not (
            rights.may(Role.ADMIN, before) and rights.may(Role.ADMIN, spec.labels)
        ):
            raise ForbiddenError(why)

    def check_made_or_deleted(self, job: str, rights: Rights, channels: Mapping[str, Channel]) -> None:
        """ForbiddenError: a command channel runs what has this name, and the caller does not administer everything.

        A name that is free has no labels yet by which anybody else could be its administrator.
        """
        if not rights.has_everywhere(Role.ADMIN):
            for channel in _run_by(job, channels):
                raise ForbiddenError(
                    f"job {job} gets the messages of channel {channel}: making and deleting it needs the role admin on "
                    "everything; ask an administrator of etcron"
                )

    def _problems(self, spec: JobSpec, channels: Mapping[str, Channel]) -> Iterable[Problem]:
        for place, one in enumerate(spec.notify):
            channel, field = channels.get(one.to), f"notify[{place}].to"
            if channel is None:
                meant = nearest(one.to, channels)
                remedy = f"did you mean {meant}?" if meant else "make it first: etcron channel add"
                yield Problem(field=field, message=f"there is no channel {one.to}", remedy=remedy)
            elif not channel.may_be_used_by(spec.labels):
                allowed = spelled(channel.labels or EVERYTHING)
                message = f"channel {one.to} may be used by jobs with {allowed} alone"
                remedy = "give the job such labels, or name another channel"
                yield Problem(field=field, message=message, remedy=remedy)


def admin_alone_saves(job: str, channels: Mapping[str, Channel]) -> str | None:
    """Why editors of a job may not save it; None: they may."""
    for channel in _run_by(job, channels):
        return (
            f"job {job} gets the messages of channel {channel}: saving it needs the role admin on it, as it is and as "
            "it becomes; ask an administrator of etcron"
        )
    return None


def _run_by(job: str, channels: Mapping[str, Channel]) -> list[str]:
    """The channels whose messages this job gets."""
    return [name for name, one in channels.items() if one.kind is ChannelKind.COMMAND and one.job == job]


def _listed(what: str, names: list[str]) -> str:
    """``jobs a, b and 3 more``."""
    if not names:
        return ""
    shown = ", ".join(names[:_TOLD])
    more = f" and {len(names) - _TOLD:,} more" if len(names) > _TOLD else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"
