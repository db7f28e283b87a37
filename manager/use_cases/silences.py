"""Silences: made and ended. One never changes, but that an acknowledgement takes the place of the job's last one."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from common.access.rights import Rights, Role
from common.access.selectors import Selector
from common.errors import ClockOffError, ConflictError, ForbiddenError, NotFoundError
from common.etcd.settle import Patience, answered
from common.notices.silences import LONGEST_MS, MOST_SILENCES, SILENCE, AlertOf, Silence
from common.protocol import record_edits as edits
from common.protocol.keys import Keys
from common.protocol.txn import Guards, KeyValue
from manager.use_cases.notice_records import NEW, Kept, KeptRecords
from manager.use_cases.records import Damaged, Records
from manager.watch.catalog import Catalog

_log = logging.getLogger(__name__)

MOST_OF_A_CALLER: Final = 200
"""Silences, a tenth of all. Of acknowledgements a caller has at most one for each job that they operate."""
_KEPT_MS: Final = 86_400_000
"""Behind its end."""
_SWEPT_AT_ONCE: Final = 60
"""A compare and a deletion each: etcd takes 128 of both in one transaction."""


class SilenceService:
    """Makes and ends silences."""

    def __init__(
        self, records: Records, keys: Keys, catalog: Catalog, *, refuse_wrong_clock: Callable[[], Awaitable[None]]
    ) -> None:
        """``refuse_wrong_clock``: raises ClockOffError where this clock may not say which silences are over."""
        self.kept = KeptRecords[Silence](records, SILENCE, keys.silences, what="silence", most=MOST_SILENCES)
        self._catalog = catalog
        self._refuse_wrong_clock = refuse_wrong_clock

    async def add(self, silence: Silence, *, by: str, rights: Rights) -> Kept[Silence]:
        """NotFoundError, ForbiddenError: the caller may not silence all that it selects. ConflictError: they have their
        share."""
        self.check(silence, rights)
        if await self._sweep(by) >= MOST_OF_A_CALLER:
            raise ConflictError(
                f"you have {MOST_OF_A_CALLER:,} silences, which is the most of one caller: end some, or name the "
                "labels of many jobs in one"
            )
        kept, _ = await self.kept.put(secrets.token_hex(6), silence, by=by, judge=_nothing, if_match=NEW)
        return kept

    async def acknowledge(
        self, alert: AlertOf, *, reason: str, by: str, rights: Rights
    ) -> Kept[Silence]:  # fmt: skip
        """This alert of the job is quiet until it is over, 30 days at most."""
        now_ms = self.kept.records.clock.wall_ms()
        silence = Silence(alert=alert, from_ms=now_ms, until_ms=now_ms + LONGEST_MS, reason=reason)
        self.check(silence, rights)
        await self._sweep(by)
        kept, _ = await self.kept.put(acknowledgement_id(alert.job), silence, by=by, judge=_nothing)
        return kept

    async def end(self, silence_id: str, *, by: str, rights: Rights) -> Kept[Silence]:
        """What it was. NotFoundError, ForbiddenError: as `add`."""

        async def judge(silence: Silence | None) -> Guards:
            if silence is None:
                rights.check_everywhere(Role.ADMIN)
            else:
                if not self.sees(silence, rights):
                    raise NotFoundError(f"there is no silence {silence_id[:128]}")
                if len(self.jobs_seen(silence, rights)) < len(_jobs_of(silence)):
                    raise ForbiddenError(f"silence {silence_id} is of more jobs than you may silence")
                self.check(silence, rights)
            return ()

        return await self.kept.remove(silence_id, by=by, judge=judge)

    def check(self, silence: Silence, rights: Rights) -> None:
        """Return where the caller has the role operator on each job that it selects; NotFoundError, ForbiddenError."""
        if silence.labels is not None and not rights.may_all(Role.OPERATOR, silence.labels):
            raise ForbiddenError(
                "a silence needs the role operator on each job that it selects: name jobs, or labels that all lie "
                "within a binding of yours; or ask an administrator of etcron"
            )
        for job in _jobs_of(silence):
            known = self._catalog.seen(job, rights)
            if known is None:
                if job not in self._catalog and rights.has_everywhere(Role.OPERATOR):
                    continue  # it is gone, or is made soon
                raise NotFoundError(f"there is no job {job}")
            rights.check(Role.OPERATOR, known.labels, f"job {job}")

    def sees(self, silence: Silence, rights: Rights) -> bool:
        """Whether the caller may know of it: it may cover a job that they see."""
        if rights.sees_all:
            return True
        if silence.labels is not None:
            return any(_may_meet(grant.labels, silence.labels) for grant in rights.grants)
        return bool(self.jobs_seen(silence, rights))

    def jobs_seen(self, silence: Silence, rights: Rights) -> list[str]:
        """Of the jobs that it names those that the caller may know of."""
        named = _jobs_of(silence)
        return [job for job in named if rights.sees_all or self._catalog.seen(job, rights) is not None]

    async def _sweep(self, by: str) -> int:
        """Removes silences that ended a day ago, and, where the caller has their share, all of theirs that have ended.
        None goes while this manager's clock is off. How many the caller has then, without acknowledgements."""
        records, now_ms = self.kept.records, self.kept.records.clock.wall_ms()
        over, ended, theirs = list[KeyValue](), list[KeyValue](), 0
        async for kv in records.all_under(self.kept.prefix):
            found = self.kept.read(kv).found
            if isinstance(found, Damaged):
                continue
            silence = found.record
            if silence.until_ms + _KEPT_MS < now_ms:
                over.append(kv)
            elif silence.alert is None and _owner(found.created_by) == _owner(by):
                theirs += 1
                if silence.until_ms <= now_ms:
                    ended.append(kv)
        try:
            await self._refuse_wrong_clock()
        except ClockOffError:
            return theirs
        if theirs >= MOST_OF_A_CALLER:
            over, theirs = [*over, *ended], theirs - len(ended)
        for start in range(0, len(over), _SWEPT_AT_ONCE):
            patience = Patience.until(records.deadline(), records.clock, "old silences may be there still ({})".format)
            await answered(
                partial(records.etcd.txn, edits.sweep_as_read(over[start : start + _SWEPT_AT_ONCE])), patience
            )
        return theirs


def acknowledgement_id(job: str) -> str:
    """A job has one at a time."""
    return hashlib.sha256(job.encode()).hexdigest()[:12]


async def _nothing(_: Silence | None) -> Guards:
    return ()


def _owner(by: str) -> str:
    """Whose share it takes: a caller has one, whichever token they come with."""
    return by.partition(" (token ")[0]


def _jobs_of(silence: Silence) -> tuple[str, ...]:
    return silence.jobs if silence.alert is None else (silence.alert.job,)


def _may_meet(one: Selector, other: Selector) -> bool:
    """Whether something may be reached by both."""
    if one.wanted is None or other.wanted is None:
        return True
    return all(values & other.wanted.get(label, values) for label, values in one.wanted.items())
