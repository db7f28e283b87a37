"""The workers as this one sees them: who is live, who may be ranked for new fires, whose session is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from common.etcd import Change, KeyValue
from common.job import JobSpec
from common.keys import Keys
from common.member import Beat, Member
from common.placement import Candidate, Placement, bucket_of, fits

_log = logging.getLogger(__name__)


class Members:
    """Session key to member, kept in step by a mirror of ``workers/``; a changed membership is a new placement."""

    def __init__(self, keys: Keys, *, on_changed: Callable[[], None]) -> None:
        self._keys = keys
        self._on_changed = on_changed
        self._accepting: dict[str, Member] = {}
        self._sessions: dict[str, str] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self.by_key: dict[str, Member] = {}
        self.detached: frozenset[str] = frozenset()
        """The keys that hang on another lease than their name tells, or name none: they count for nothing."""
        self.placement = Placement()
        self._selected: dict[tuple[tuple[str, tuple[str, ...]], ...], Placement] = {}

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; tells the listener when who may be ranked has changed."""
        for change in changes:
            self.by_key.pop(change.key, None)
            self._sessions.pop(change.key, None)
            self.detached -= {change.key}
            if change.new is not None:
                self._take(change.key, change.new)
        oldest_first = sorted(self.by_key.values(), key=lambda one: (one.since_ms, one.session))
        self._accepting = {member.worker: member for member in oldest_first if member.accepts}
        labels = {member.worker: dict(member.labels) for member in self._accepting.values()}
        placement = Placement(Candidate(member.worker, member.slots) for member in self._accepting.values())
        if placement.candidates != self.placement.candidates or labels != self._labels:
            self.placement, self._labels = placement, labels
            self._selected.clear()
            self._on_changed()

    def placement_of(self, spec: JobSpec) -> Placement:
        """The workers that may run the job, ranked; those of one selector share a placement."""
        if not spec.workers:
            return self.placement
        selector = tuple(sorted(spec.workers.items()))
        placement = self._selected.get(selector)
        if placement is None:
            fitting = (one for one in self._accepting.values() if fits(spec.workers, one.labels))
            placement = Placement(Candidate(one.worker, one.slots) for one in fitting)
            self._selected[selector] = placement
        return placement

    def rank(self, worker: str, spec: JobSpec, fire: str) -> int | None:
        """The worker's place among those who may try this fire of the job; None where it is not among them."""
        return self.placement_of(spec).rank(worker, spec.name, fire)

    def eligible(self, spec: JobSpec) -> tuple[str, ...]:
        """The live, accepting workers that may run the job."""
        return tuple(candidate.name for candidate in self.placement_of(spec).candidates)

    def order(self, spec: JobSpec, fire: str) -> tuple[str, ...]:
        """Those who may try this fire of the job, rank 0 first."""
        return self.placement_of(spec).order(bucket_of(spec.name, fire))

    @property
    def sessions(self) -> frozenset[str]:
        """The lease ids (hex) of all sessions that have a key: attached or not, whatever its value."""
        return frozenset(self._sessions.values())

    def accepting(self) -> Mapping[str, Member]:
        """The workers that may be ranked, by name; of several sessions of one name the newest."""
        return self._accepting

    def _take(self, key: str, kv: KeyValue) -> None:
        try:
            worker, session = self._keys.session_of(key)
            self._sessions[key] = session
            if kv.lease != int(session, 16):
                self.detached |= {key}
            self.by_key[key] = Member.from_json(kv.value, worker=worker, session=session, lease=kv.lease)
        except ValueError as error:
            if key not in self._sessions or not kv.lease:
                self.detached |= {key}
            extra = {"action": "member.set_aside", "key": key}
            _log.warning("the session key %r is set aside: %s", key, error, extra=extra)


class Beats:
    """Process to its newest beat, kept in step by a mirror of ``beats/`` while this worker is steward."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.by_process: dict[str, Beat] = {}

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; one that is no beat is set aside."""
        for change in changes:
            name = change.key.removeprefix(self._keys.beats)
            self.by_process.pop(name, None)
            if change.new is None:
                continue
            try:
                self.by_process[name] = Beat.from_json(change.new.value)
            except ValueError as error:
                extra = {"action": "beat.set_aside", "key": change.key}
                _log.warning("the beat %r is set aside: %s", change.key, error, extra=extra)

    def any_free(self, names: Sequence[str]) -> bool:
        """Whether one of these workers shows a free slot."""
        return any((beat := self.by_process.get(name)) is not None and beat.free_slots > 0 for name in names)
