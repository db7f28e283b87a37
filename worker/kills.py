"""The kills as this worker sees them: each names one run, and applies only to a run that is older than the kill."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.txn import KeyValue

_log = logging.getLogger(__name__)


class Kills:
    """Run id to kill, kept in step by a mirror of ``kills/``; tells its listener of each new one."""

    def __init__(
        self, keys: Keys, *, on_kill: Callable[[Kill], None], is_believed: Callable[[Kill], bool] = lambda _: True
    ) -> None:
        """``is_believed``: asked each time, for what it depends on may come later than the kill."""
        self._is_believed = is_believed
        self._keys = keys
        self._on_kill = on_kill
        self.by_run: dict[RunId, Kill] = {}

    def of(self, run_id: RunId, fence: int) -> Kill | None:
        """The kill that applies to this run."""
        kill = self.believed(run_id)
        return kill if kill is not None and kill.reaches(fence) else None

    def believed(self, run_id: RunId) -> Kill | None:
        """The kill of this run, where there is one that ends it."""
        kill = self.by_run.get(run_id)
        return kill if kill is not None and self._is_believed(kill) else None

    def job_changed(self, name: str) -> None:
        """Kills that were not believed may be now."""
        for run_id in [one for one in self.by_run if one.job_name == name]:
            if (kill := self.believed(run_id)) is not None:
                self._on_kill(kill)

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in."""
        for change in changes:
            if change.new is not None:
                self.take(change.new)
            else:
                self._forget(change.key)

    def take(self, kv: KeyValue) -> None:
        """One kill, as it stands in etcd."""
        self._forget(kv.key)
        try:
            run_id = self._keys.run_of(kv.key)
            kill = Kill.from_json(kv.value, run_id=run_id, revision=kv.create_revision)
        except ValueError as error:
            extra = {"action": "kill.set_aside", "key": kv.key}
            _log.warning("the kill %r is set aside: %s", kv.key, error, extra=extra)
            return
        self.by_run[run_id] = kill
        if self._is_believed(kill):
            self._on_kill(kill)

    def _forget(self, key: str) -> None:
        try:
            self.by_run.pop(self._keys.run_of(key), None)
        except ValueError:
            return  # it had been set aside
