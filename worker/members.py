"""The workers as this one sees them: who is live, who may be ranked for new fires, whose session is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from common.etcd import Change
from common.keys import Keys
from common.member import Member
from common.placement import Candidate, Placement

_log = logging.getLogger(__name__)


class Members:
    """Session key to member, kept in step by a mirror of ``workers/``; a changed membership is a new placement."""

    def __init__(self, keys: Keys, *, on_changed: Callable[[], None]) -> None:
        self._keys = keys
        self._on_changed = on_changed
        self.by_key: dict[str, Member] = {}
        self.placement = Placement()

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; tells the listener when who may be ranked has changed."""
        for change in changes:
            self.by_key.pop(change.key, None)
            if change.new is not None:
                self._take(change.key, change.new.value, change.new.lease)
        placement = Placement(self._candidates())
        if placement.candidates != self.placement.candidates:
            self.placement = placement
            self._on_changed()

    @property
    def sessions(self) -> frozenset[str]:
        """The lease ids (hex) of all sessions that have a key, attached or not."""
        return frozenset(member.session for member in self.by_key.values())

    def accepting(self) -> dict[str, Member]:
        """The workers that may be ranked, by name."""
        return {member.worker: member for member in self.by_key.values() if member.accepts}

    def _take(self, key: str, value: bytes, lease: int) -> None:
        try:
            worker, session = self._keys.session_of(key)
            self.by_key[key] = Member.from_json(value, worker=worker, session=session, lease=lease)
        except ValueError as error:
            extra = {"action": "member.set_aside", "key": key}
            _log.warning("the session key %r is set aside: %s", key, error, extra=extra)

    def _candidates(self) -> list[Candidate]:
        return [Candidate(member.worker, member.slots) for member in self.accepting().values()]
