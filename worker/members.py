"""The workers as this one sees them: who is live, who may be ranked for new fires, whose session is gone.

A changed membership has every fire looked at again (``LooksAfresh``): at once, but for one worker that flaps once a
minute at most. A look reads the marks of all jobs. A worker whose disk, clock or session comes and goes would have
every other one read them each time. Until the look comes, what it leaves undecided is what any fire is whose first
rank has died: the next rank takes it after its hedge, or the steward offers it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from common.clock import Clock
from common.etcd import Change
from common.jobs.job import JobSpec
from common.protocol.keys import Keys
from common.protocol.member import Beat, Member, is_worker_name
from common.protocol.placement import Candidate, Placement, bucket_of, is_eligible
from common.protocol.planned_job import PlannedJob
from common.protocol.txn import KeyValue

_log = logging.getLogger(__name__)

_Selector: TypeAlias = tuple[int, tuple[tuple[str, tuple[str, ...]], ...]]
"""The slots and labels that a job asks for."""


class Members:
    """Session key to member, kept in step by a mirror of ``workers/``; a changed membership is a new placement."""

    def __init__(
        self,
        keys: Keys,
        worker: str,
        *,
        on_changed: Callable[[], None],
        on_seen: Callable[[Collection[Member]], None] | None = None,
    ) -> None:
        """``worker``: whose ranks are asked for. ``on_seen`` is given all that are live, after each change and before
        ``on_changed``."""
        self._keys = keys
        self._worker = worker
        self._on_changed = on_changed
        self._on_seen = on_seen
        self._accepting: dict[str, Member] = {}
        self._sessions: dict[str, str] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self.by_key: dict[str, Member] = {}
        self.detached: frozenset[str] = frozenset()
        """The keys that hang on another lease than their name tells, or name none: they count for nothing."""
        self.placement = Placement()
        self._selected: dict[_Selector, Placement] = {}
        self._formers: dict[_Selector, Placement] = {}
        """Those of the membership before."""

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; tells the listener when who may be ranked has changed."""
        for change in changes:
            self.by_key.pop(change.key, None)
            self._sessions.pop(change.key, None)
            self.detached -= {change.key}
            if change.new is not None:
                self._take(change.key, change.new)
        if self._on_seen is not None:
            self._on_seen(self.by_key.values())
        oldest_first = sorted(self.by_key.values(), key=lambda one: (one.since_ms, one.session))
        self._accepting = {member.worker: member for member in oldest_first if member.accepts}
        labels = {member.worker: dict(member.labels) for member in self._accepting.values()}
        candidates = (Candidate(member.worker, member.slots) for member in self._accepting.values())
        placement = Placement(candidates, former=self.placement)
        if placement.candidates != self.placement.candidates or labels != self._labels:
            self.placement, self._labels = placement, labels
            self._formers, self._selected = self._selected, {}
            self._on_changed()

    def placement_of(self, spec: JobSpec) -> Placement:
        """The workers with its labels, and with slots enough, ranked; jobs that ask for the same share a placement."""
        if not spec.workers and spec.slots == 1:
            return self.placement
        selector = (spec.slots, tuple(sorted(spec.workers.items())))
        placement = self._selected.get(selector)
        if placement is None:
            fitting = (one for one in self._accepting.values() if is_eligible(spec, one.labels, one.slots))
            candidates = (Candidate(one.worker, one.slots) for one in fitting)
            new = Placement(candidates, former=self._formers.get(selector))
            # The one of the same candidates that is there already, for it remembers much; else the new one.
            there = (self.placement, *self._selected.values())
            placement = next((one for one in there if one.candidates == new.candidates), new)
            self._selected[selector] = placement
        return placement

    def rank(self, job: PlannedJob, fire: str) -> int | None:
        """0 or 1, or `LATER`, where this worker may try this fire of the job; None where it may not."""
        if job.of_worker is not None:
            return 0 if self._worker in self.eligible(job) and self._worker == job.of_worker else None
        return self.placement_of(job.spec).rank(self._worker, job.name, fire)

    def place(self, job: PlannedJob, fire: str, *, last: str | None = None) -> int | None:
        """This worker's place among all who may try this fire, from 0; None where it may not. ``last``: a worker that
        comes after all others."""
        order = sorted(self.order(job, fire), key=lambda name: name == last)
        return order.index(self._worker) if self._worker in order else None

    def eligible(self, job: PlannedJob) -> frozenset[str]:
        """The live, accepting workers that may run the job; of a worker's own sequence, that worker alone."""
        names = self.placement_of(job.spec).names
        return names if job.of_worker is None else names & {job.of_worker}

    def order(self, job: PlannedJob, fire: str) -> tuple[str, ...]:
        """Those who may try this fire of the job, rank 0 first."""
        if job.of_worker is not None:
            return tuple(self.eligible(job))
        return self.placement_of(job.spec).order(bucket_of(job.name, fire))

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
            if not is_worker_name(worker):
                raise ValueError("no worker may be called so")
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

    def any_free(self, names: Iterable[str], slots: int = 1) -> bool:
        """Whether one of these workers shows so many free slots."""
        return any((beat := self.by_process.get(name)) is not None and beat.free_slots >= slots for name in names)

    def all_taken(self, names: Iterable[str], slots: int = 1) -> bool:
        """Whether those of these workers that have beaten, one of them at least, all show fewer free slots."""
        free = [beat.free_slots for name in names if (beat := self.by_process.get(name)) is not None]
        return bool(free) and max(free) < slots


EVERY_S: Final = 60.0


class LooksAfresh:
    """Given each change of the workers that accept fires; has ``look`` called."""

    def __init__(self, look: Callable[[], None], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._known: dict[str, tuple[object, ...]] = {}
        self._looked: dict[str, float] = {}
        """Because of whom, and when, within the last minute."""
        self._waiting: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def changed(self, accepting: Mapping[str, Member]) -> None:
        """These accept fires now."""
        known = {name: (member.slots, *sorted(member.labels.items())) for name, member in accepting.items()}
        changed = {name for name in known.keys() | self._known.keys() if known.get(name) != self._known.get(name)}
        self._known = known
        now = self._clock.monotonic()
        self._looked = {name: at for name, at in self._looked.items() if now < at + EVERY_S}
        if changed <= self._looked.keys():
            self._waiting |= changed
            if self._waiting and self._timer is None:
                due_s = min(self._looked[name] for name in self._waiting) + EVERY_S - now
                self._timer = asyncio.get_running_loop().call_later(due_s, self._look_now, ())
        else:
            self._look_now(changed)

    def _look_now(self, changed: Iterable[str]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.monotonic()
        self._looked.update(dict.fromkeys((*changed, *self._waiting), now))
        self._waiting.clear()
        self._look()
