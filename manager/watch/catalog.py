"""The jobs as a watch on etcd has shown them: every list, search and count is answered from here, without any server.

It may be behind by what is on its way, and by an outage while etcd is away. So it is for looking at, and never the base
of an edit: an edit reads etcd. One bad key harms no other: it is listed with its problem.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Final, Self, TypeAlias

from common.access.rights import Rights, Sight
from common.cursors import decode_cursor, encode_cursor, no_cursor
from common.errors import InvalidInputError
from common.etcd import Change
from common.jobs.job import JobSpec
from common.protocol.keys import Keys
from common.protocol.saved_job import SavedJob
from common.protocol.signatures import Trust
from common.protocol.txn import KeyValue
from common.schedules.schedule import dispatch_ms
from manager.watch.next_fires import NextFires, Overdue

_MOST_SIGHTS: Final = 16
"""For so many different sets of rights the names are kept in step; each is a list of up to all names."""
_OF_JOBS: Final = "j"
"""What a cursor of this list begins with."""
_AT_ONCE: Final = 2_000
"""Jobs that are looked at without a pause."""
Need: TypeAlias = tuple[int, tuple[tuple[str, tuple[str, ...]], ...]]
"""The slots and labels that a job asks for."""


class ListState(StrEnum):
    """What a list of jobs can be narrowed to."""

    ENABLED = "enabled"
    PAUSED = "paused"
    BROKEN = "broken"
    """Its value in etcd is not a job."""
    RUNNING = "running"
    """A run of it is going, whatever else it is."""
    FAILING = "failing"
    """Its newest record says a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """A job as etcd held it at its revision."""

    name: str
    revision: int
    create_revision: int
    saved: SavedJob | None
    """None: the value is not a job."""
    problem: str | None
    text: str
    """What a search looks into: name, command and labels, case folded."""

    @classmethod
    def read(cls, name: str, kv: KeyValue) -> Self:
        """Read the value; one that does not parse is shown with its problem."""
        saved, problem, text = None, None, name
        try:
            saved = SavedJob.from_json(kv.value, name=name)
            labels = (f"{label}={value}" for label, value in saved.spec.labels.items())
            text = "\n".join((name, saved.spec.command_line, *labels))
        except InvalidInputError as error:
            problem = str(error)
        return cls(
            name=name, revision=kv.mod_revision, create_revision=kv.create_revision, saved=saved, problem=problem,
            text=text.casefold(),
        )  # fmt: skip

    @property
    def labels(self) -> Mapping[str, str] | None:
        """None: they cannot be read."""
        return None if self.saved is None else self.saved.spec.labels

    def is_seen_by(self, rights: Rights) -> bool:
        """Whether a caller may know that it is there; of what is no job only who administers everything may."""
        return rights.sees_unlabelled if self.saved is None else rights.sees(self.saved.spec.labels)

    @property
    def state(self) -> ListState:
        """Enabled, paused or broken."""
        if self.saved is None:
            return ListState.BROKEN
        return ListState.ENABLED if self.saved.spec.enabled else ListState.PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs: all conditions must hold; the default is every job."""

    text: str = ""
    """In the name, the command or a label, whatever its case."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """Each with its value, or None: any value."""
    state: ListState | None = None
    among: Container[str] | None = None
    """Their names are in here (those that run, those that fail); None: whatever their names."""

    @property
    def takes_all(self) -> bool:
        return self == JobQuery()

    def takes(self, job: KnownJob) -> bool:
        if self.state is not None and self.state is not job.state:
            return False
        if self.among is not None and job.name not in self.among:
            return False
        if self.text and self.text not in job.text:
            return False
        labels = job.saved.spec.labels if job.saved else {}
        return all(name in labels and value in (None, labels[name]) for name, value in self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPage:
    """Some jobs in the order of their names, how many there are in all, and where the next page starts."""

    jobs: Sequence[KnownJob]
    total: int
    next_cursor: str | None
    paused: int = 0
    """So many that are paused were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenNames:
    """What callers with these rights may know of, kept in step."""

    rights: Rights
    names: list[str]
    states: Counter[ListState]


class Changes:
    """Tells those who wait that something has changed, so that they look again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Everybody who waits looks again."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition holds, at the latest after so many seconds; it is asked again at each change."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._event.wait()
        except TimeoutError:
            return condition()
        return True


class Catalog:
    """Name to job, kept in step by a mirror of ``jobs/``; tells its listener of every change."""

    def __init__(self, keys: Keys, *, on_changed: Callable[[str, Sequence[Mapping[str, str] | None]], None]) -> None:
        """``on_changed`` hears of a job, and which labels it had and has (None: they cannot be read)."""
        self._keys = keys
        self._on_changed = on_changed
        self._jobs: dict[str, KnownJob] = {}
        self._names: list[str] = []  # sorted
        self._seen_by: dict[Sight, _SeenNames] = {}
        """What some callers may know of, the most recently asked for last."""
        self.states: Counter[ListState] = Counter()
        """How many are enabled, paused and broken."""
        self.broken: set[str] = set()
        self.trust: Trust | None = None
        """Whose signatures are looked for; None: nowhere, and no job is reported as unsigned."""
        self.unsigned: dict[str, str] = {}
        """Jobs that no known key has signed, and why, as far as a look at them tells."""
        self.needs: dict[Need, dict[str, None]] = {}
        """The enabled jobs that ask for labels or slots, by what they ask for."""
        self.changes = Changes()
        self.edition = 0
        """Another number whenever any job has changed."""
        self.next_fires = NextFires(self._next_fire, self._names)
        self.overdue = Overdue(self._owed_fire, self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._jobs

    def get(self, name: str) -> KnownJob | None:
        """The job as it was last seen."""
        return self._jobs.get(name)

    def seen(self, name: str, rights: Rights) -> KnownJob | None:
        """The same for a caller: None also where they may not know of it."""
        job = self._jobs.get(name)
        return job if job is not None and job.is_seen_by(rights) else None

    def _next_fire(self, name: str, after_ms: int) -> int | None:
        job = self._jobs.get(name)
        if job is None or job.saved is None or not job.saved.spec.enabled:
            return None
        return job.saved.spec.schedule.open_fires.next_after_ms(max(after_ms, job.saved.anchor_ms))

    def _owed_fire(self, name: str, after_ms: int) -> int | None:
        """When it is to start; of broadcasts no fire is owed."""
        at_ms, job = self._next_fire(name, after_ms), self._jobs.get(name)
        if at_ms is None or job is None or job.saved is None or job.saved.spec.broadcast:
            return None
        if not job.saved.spec.jitter_s:  # its schedule need not be made once more
            return at_ms
        return dispatch_ms(name, job.saved.spec.schedule, job.saved.spec.jitter_s, at_ms)

    async def each(self) -> AsyncIterator[tuple[str, JobSpec]]:
        """Every job that can be read, as it is when its turn comes; between some of them others use the loop."""
        for place, name in enumerate(list(self._names)):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            job = self._jobs.get(name)
            if job is not None and job.saved is not None:
                yield name, job.saved.spec

    async def each_seen(self, query: JobQuery, rights: Rights) -> AsyncIterator[KnownJob]:
        """As `each`, with broken ones: those that are wanted and that a caller may know of, in the order of names."""
        async for part in self.parts_seen(query, rights):
            for job in part:
                yield job

    async def parts_seen(self, query: JobQuery, rights: Rights) -> AsyncIterator[list[KnownJob]]:
        """The same, many at a time, which of a hundred thousand costs a fifth."""
        names, takes_all = list(self.names_seen(rights)), query.takes_all
        for start in range(0, len(names), _AT_ONCE):
            await asyncio.sleep(0)
            get = self._jobs.get if self.sees_all(rights) else partial(self.seen, rights=rights)
            yield [
                job for name in names[start : start + _AT_ONCE]
                if (job := get(name)) is not None and (takes_all or query.takes(job))
            ]  # fmt: skip

    def sees_all(self, rights: Rights) -> bool:
        """Whether a caller may know of every job that there is, so that nothing need be filtered."""
        return rights.sees_all and (not self.broken or rights.sees_unlabelled)

    def names_seen(self, rights: Rights) -> Sequence[str]:
        """The names of the jobs that a caller may know of, in order.

        Made once for all who may know of the same, then kept in step; not to be changed, nor kept across an await.
        """
        return self._names if self.sees_all(rights) else self._seen(rights).names

    def states_seen(self, rights: Rights) -> Mapping[ListState, int]:
        """How many of these are enabled, paused and broken."""
        return self.states if self.sees_all(rights) else self._seen(rights).states

    def _seen(self, rights: Rights) -> _SeenNames:
        rights = rights.snapshot()  # what is made by them is kept for all callers with this sight
        sight = rights.sight
        known = self._seen_by.pop(sight, None)
        if known is None:
            names = self._read_seen(rights)
            known = _SeenNames(rights=rights, names=names, states=Counter(self._jobs[name].state for name in names))
            while len(self._seen_by) >= _MOST_SIGHTS:
                del self._seen_by[next(iter(self._seen_by))]
        self._seen_by[sight] = known  # the last to go
        return known

    def _read_seen(self, rights: Rights) -> list[str]:
        sees, broken = dict[int, bool](), rights.sees_unlabelled
        names = []
        for name in self._names:
            labels = self._jobs[name].labels
            if labels is None:
                is_seen = broken
            elif (known := sees.get(id(labels))) is not None:  # jobs of one form share them
                is_seen = known
            else:
                is_seen = sees[id(labels)] = rights.sees(labels)
            if is_seen:
                names.append(name)
        return names

    def _keep_seen(self, name: str, before: KnownJob | None, after: KnownJob | None) -> None:
        for seen in self._seen_by.values():
            was = before if before is not None and before.is_seen_by(seen.rights) else None
            now = after if after is not None and after.is_seen_by(seen.rights) else None
            if was is not None:
                seen.states[was.state] -= 1
            if now is not None:
                seen.states[now.state] += 1
            if (was is None) != (now is None):
                place = bisect_left(seen.names, name)
                if now is None:
                    del seen.names[place]
                else:
                    seen.names.insert(place, name)

    def problem_of(self, name: str) -> str | None:
        """Why a job is broken."""
        return None if (job := self._jobs.get(name)) is None else job.problem

    async def page(
        self, query: JobQuery, rights: Rights, *, cursor: str | None, limit: int, hides_paused: bool = False
    ) -> CatalogPage:
        """The next `limit` jobs after the cursor, of those that a caller may know of; the total is of these alone.

        InvalidInputError where the cursor is not one of ours.
        """
        after = None if cursor is None else _name_in(cursor)
        following: Iterable[KnownJob]
        if query.takes_all:
            names = self.names_seen(rights)
            first = 0 if after is None else bisect_right(names, after)
            following = (self._jobs[names[at]] for at in range(first, len(names)))
            total, paused = len(names), self.states_seen(rights)[ListState.PAUSED]
        else:
            following, total, paused = list[KnownJob](), 0, 0
            async for part in self.parts_seen(query, rights):
                following += part if after is None else [job for job in part if job.name > after]
                total += len(part)
                paused += sum(job.state is ListState.PAUSED for job in part)
        if hides_paused:
            following = (job for job in following if job.state is not ListState.PAUSED)
        else:
            paused = 0
        jobs = list(islice(following, limit + 1))
        more = len(jobs) > limit
        return CatalogPage(
            jobs=jobs[:limit], total=total - paused, paused=paused,
            next_cursor=encode_cursor(_OF_JOBS + jobs[limit - 1].name) if more else None,
        )  # fmt: skip

    async def matching(self, query: JobQuery, rights: Rights) -> Sequence[str]:
        """The names of all that are wanted and that a caller may know of, in order."""
        if query.takes_all:
            return tuple(self.names_seen(rights))
        return [job.name async for job in self.each_seen(query, rights)]

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in."""
        for change in changes:
            name = change.key.removeprefix(self._keys.jobs)
            before = self._jobs.get(name)
            if change.new is not None:
                self._take(KnownJob.read(name, change.new))
            elif (known := self._jobs.pop(name, None)) is not None:
                del self._names[bisect_left(self._names, name)]
                self._uncount(known)
            after = self._jobs.get(name)
            self._keep_seen(name, before, after)
            self.next_fires.changed(name)
            self.overdue.changed(name)
            self._on_changed(name, [job.labels for job in (before, after) if job is not None])
        self.edition += 1
        self.changes.notify()

    def _take(self, job: KnownJob) -> None:
        if (known := self._jobs.get(job.name)) is None:
            self._names.insert(bisect_left(self._names, job.name), job.name)
        else:
            self._uncount(known)
        self._jobs[job.name] = job
        self.states[job.state] += 1
        if job.saved is None:
            self.broken.add(job.name)
            return
        if self.trust is not None and (fault := self.trust.key_fault(job.saved.signature)) is not None:
            self.unsigned[job.name] = fault
        if (need := _need(job)) is not None:
            self.needs.setdefault(need, {})[job.name] = None

    def _uncount(self, known: KnownJob) -> None:
        self.states[known.state] -= 1
        self.broken.discard(known.name)
        self.unsigned.pop(known.name, None)
        if (need := _need(known)) is not None:
            self.needs[need].pop(known.name)
            if not self.needs[need]:
                del self.needs[need]


def _need(job: KnownJob) -> Need | None:
    """What it asks of a worker; None: nothing that one could lack, or nothing now."""
    if job.saved is None or not job.saved.spec.enabled:
        return None
    spec = job.saved.spec
    return (spec.slots, tuple(sorted(spec.workers.items()))) if spec.workers or spec.slots > 1 else None


def _name_in(cursor: str) -> str:
    """The name to go on after; InvalidInputError where the text is no cursor."""
    place = decode_cursor(cursor, errors="surrogateescape")
    if place[:1] != _OF_JOBS or len(place) < 2:
        raise no_cursor()
    return place[1:]
