"""Rules: saved and removed. A rule that no silence covers, and one for the system, is an administrator's."""

from __future__ import annotations

from common.access.rights import Rights, Role
from common.errors import InvalidInputError, Problem, nearest
from common.notices.rules import Rule
from common.protocol import record_edits as edits
from common.protocol.keys import Keys
from common.protocol.txn import Guards
from manager.use_cases.notice_records import Judge, Kept, KeptRecords, SavedRecord
from manager.watch.catalog import Catalog


class RuleService:
    """Saves and removes rules."""

    def __init__(self, kept: KeptRecords[Rule], keys: Keys, catalog: Catalog) -> None:
        self.kept = kept
        self._keys = keys
        self._catalog = catalog

    async def save(
        self, name: str, rule: Rule, *, by: str, rights: Rights, if_match: int | None = None
    ) -> SavedRecord[Rule]:
        """InvalidInputError: a channel is not there. ForbiddenError. Else as `KeptRecords.put`."""
        judge = self._judge(rights, rule)
        kept, before = await self.kept.put(name, rule, by=by, judge=judge, if_match=if_match)
        return SavedRecord(kept=kept, before=before, warnings=tuple(await self._warnings(rule)))

    async def remove(self, name: str, *, by: str, rights: Rights, if_match: int | None = None) -> Kept[Rule]:
        """What it was."""
        return await self.kept.remove(name, by=by, judge=self._judge(rights), if_match=if_match)

    def _judge(self, rights: Rights, rule: Rule | None = None) -> Judge[Rule]:
        """``rule``: what is to be there; None: nothing."""

        async def judge(before: Rule | None) -> Guards:
            is_an_administrator_s = any(one is not None and (one.required or one.system) for one in (before, rule))
            rights.check_everywhere(Role.ADMIN if is_an_administrator_s else Role.EDITOR)
            if rule is None:
                return ()
            await self._refuse_missing(rule)
            return edits.channels_are_there(self._keys, rule.to)

        return judge

    async def _refuse_missing(self, rule: Rule) -> None:
        etcd, prefix = self.kept.records.etcd, self._keys.channels
        there = await etcd.get_many([self._keys.channel(channel) for channel in rule.to])
        missing = [one for one in rule.to if self._keys.channel(one) not in there]
        if not missing:
            return
        known = [kv.key.removeprefix(prefix) async for kv in self.kept.records.all_under(prefix)]
        problems = []
        for channel in missing:
            meant = nearest(channel, known)
            remedy = f"did you mean {meant}?" if meant else "make it first: etcron channel add"
            problems.append(
                Problem(field=f"to[{rule.to.index(channel)}]", message=f"there is no channel {channel}", remedy=remedy)
            )
        raise InvalidInputError(problems)

    async def _warnings(self, rule: Rule) -> list[str]:
        if rule.labels is None or rule.labels.is_all:
            return []
        async for _, spec in self._catalog.each():
            if rule.labels.matches(spec.labels):
                return []
        return ["it selects no job that there is now"]
