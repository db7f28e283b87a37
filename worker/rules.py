"""The rules of notices as this worker has seen them in etcd: what they ask for beside problems."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from common.clock import Clock
from common.etcd import Change, EtcdClient, Mirror
from common.notices.rules import RULE, Rule
from common.notices.wanted import Wanted
from common.protocol.keys import Keys

_log = logging.getLogger(__name__)

READ_WITHIN_S: Final = 10.0
"""A worker whose role does not let it read rules goes on without them."""


class Rules:
    """Kept in step by a mirror, which belongs into the TaskGroup."""

    def __init__(self, client: EtcdClient, keys: Keys, *, clock: Clock) -> None:
        self._by_key: dict[str, Rule] = {}
        self.wanted = Wanted()
        self.mirror = Mirror(client, keys.rules, self._on_changes, clock=clock)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._by_key.pop(change.key, None)
            try:
                if change.new is not None:
                    self._by_key[change.key] = RULE.from_json(change.new.value).record
            except ValueError as error:
                key = ascii(change.key)  # it may be no text
                _log.warning("%s is left out: %s", key, error, extra={"action": "rule.odd", "key": key})
        self.wanted = Wanted(self._by_key.values())
