"""Users, their rights and their credentials, as etcd has them: held in memory, in step by a watch.

    mirror of <prefix>-auth/ --> users, services, bindings, tokens, sessions, links
                                     |
    a token or a session ------------+--> its owner (Identity) --> what it allows (Rights)

A right that is taken away in etcd is gone here with the watch event, and what runs on it (an open stream of events) is
ended at once. No call asks etcd: identifying its caller costs a look into a dictionary.

While etcd is silent, its last state holds: for changes for 10 seconds, for reading for five minutes.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from common.access.accounts import Service, User
from common.access.callers import Identity, Via
from common.access.credentials import LoginSession, SessionWay, Token, digest_of
from common.access.rights import OWNER, Binding, Rights, guarded_labels
from common.access.subjects import Subject, SubjectKind
from common.clock import Clock
from common.errors import LoginNeededError, UnavailableError
from common.etcd import Change, EtcdClient, Mirror, MirrorTimings
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import KeyValue
from manager.watch.catalog import Changes

_log = logging.getLogger(__name__)

T = TypeVar("T")

CHANGES_S: Final = 10.0
"""After so long without a word of etcd, changes are refused: a right may have been taken away."""
READS_S: Final = 300.0
"""And reads."""
_STALE_S: Final = 5.0
_FIRST_READING_S: Final = 2.0
_TIMINGS: Final = MirrorTimings(progress_s=1.0, silence_s=8.0)
_LOOK_S: Final = 0.5
"""How often expired sessions and tokens are looked for."""
_ON_ITS_WAY_S: Final = 0.2
_MOST_REMEMBERED: Final = 10_000

Ended = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned(Generic[T]):
    """A record, with the revisions of its key, which distinguish it from a later one of the same name."""

    record: T
    made_at: int
    """The revision of etcd at which the key was made."""
    changed_at: int
    lease: int
    digest: str = field(default="", repr=False)
    """Of a session's secret."""

    @classmethod
    def of(cls, kv: KeyValue, record: T, *, digest: str = "") -> Versioned[T]:
        return cls(record=record, made_at=kv.create_revision, changed_at=kv.mod_revision, lease=kv.lease, digest=digest)


class Directory:
    """Everything under ``<prefix>-auth/``."""

    def __init__(self, etcd: EtcdClient, keys: AccessKeys, *, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self.users: dict[str, Versioned[User]] = {}
        self.services: dict[str, Versioned[Service]] = {}
        self.bindings: dict[str, Binding] = {}
        self.tokens: dict[str, Versioned[Token]] = {}
        """By id."""
        self.sessions: dict[str, Versioned[LoginSession]] = {}
        """By the digest of their secret."""
        self._session_of: dict[str, str] = {}
        self._unreadable: set[Subject] = set()
        """Users whose record cannot be read: as if they were disabled."""
        self._by_subject: dict[Subject, list[Binding]] = {}
        self._guarded: frozenset[str] = frozenset()
        self._identities: dict[tuple[Via, str], Identity] = {}
        self._rights: dict[Identity, Rights] = {}
        self._watched: dict[object, tuple[Identity, Rights, Ended]] = {}
        self._changes = Changes()
        self._mirror = Mirror(etcd, keys.prefix, self._take, clock=clock, timings=_TIMINGS)

    async def run(self) -> None:
        """Watch for ever; an etcd that is away is tried again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run(), name=f"mirror {self._mirror.prefix}")
            tasks.create_task(self._look_for_ends(), name="ends of sessions and tokens")

    # How old it is

    @property
    def synced(self) -> asyncio.Event:
        """Set once it has been read."""
        return self._mirror.synced

    @property
    def revision(self) -> int:
        """What etcd had at this revision is known."""
        return self._mirror.revision

    @property
    def silent_s(self) -> float:
        """How long nothing has been heard of etcd."""
        return max(0.0, self._clock.monotonic() - self._mirror.last_alive)

    @property
    def stale_since_ms(self) -> int | None:
        """Since when (wall clock) nothing has been heard; None: what is known is what there is."""
        silent_s = self.silent_s
        return None if silent_s < _STALE_S else self._clock.wall_ms() - int(silent_s * 1000)

    async def ready(self, changes: bool = False) -> None:
        """Return where what is known is new enough to let a caller in by it; UnavailableError."""
        if not self._mirror.synced.is_set():
            try:
                async with asyncio.timeout(_FIRST_READING_S):
                    await self._mirror.synced.wait()
            except TimeoutError:
                raise UnavailableError(
                    "users and their rights have not been read from etcd since this manager started: etcd is away, or "
                    "it takes a moment"
                ) from None
        silent_s = self.silent_s
        if silent_s > (CHANGES_S if changes else READS_S):
            what = "nothing may be changed" if changes else "nobody is let in"
            raise UnavailableError(
                f"etcd has been silent for {silent_s:.0f} s, so a right may have been taken away meanwhile: {what} "
                "until it answers again"
            )

    async def has_reached(self, revision: int, *, within_s: float = 1.0) -> bool:
        """Whether everything up to this revision is known; waits for it."""
        mirror = self._mirror
        return await self._changes.until(
            lambda: max(mirror.revision, mirror.newest_mod_revision) >= revision, within_s
        )  # fmt: skip

    # Whose credential it is

    async def wait_for_token(self, token_id: str) -> None:
        """Returns once there is this token, or a moment later: another manager may have made it just now."""
        await self._changes.until(lambda: token_id in self.tokens, _ON_ITS_WAY_S)

    async def wait_for_session(self, digest: str) -> None:
        """As `wait_for_token`."""
        await self._changes.until(lambda: digest in self.sessions, _ON_ITS_WAY_S)

    def by_token(self, token_id: str, digest: str) -> Identity:
        """Whose token this is; LoginNeededError: there is no such token (any more)."""
        held = self.tokens.get(token_id)
        if held is None or not hmac.compare_digest(held.record.digest, digest) or self._is_over(held.record.expires_ms):
            raise LoginNeededError("the token is not valid, or not any more: make a new one")
        if (known := self._identities.get((Via.TOKEN, token_id))) is not None:
            return known
        owner, token = held.record.owner, held.record
        if not self._is_good(owner, since=held.made_at):
            raise LoginNeededError(f"the token is not valid: {owner} is disabled, or there is none any more")
        identity = Identity(
            name=f"{owner.name} (token {token.name})", subjects=self.subjects_of(owner), via=Via.TOKEN,
            credential=token.id,
        )  # fmt: skip
        return self._remember(Via.TOKEN, token_id, identity)

    def by_session(self, digest: str) -> tuple[Identity, Versioned[LoginSession]]:
        """Whose session this is; LoginNeededError: there is no such session (any more)."""
        held = self.sessions.get(digest)
        if held is None or self._is_over(held.record.expires_ms):
            raise LoginNeededError("the session is over: log in again")
        if (known := self._identities.get((Via.SESSION, digest))) is not None:
            return known, held
        if not self.is_good_session(held):
            raise LoginNeededError(
                "the session is over: its user is disabled, has another password, or is there no more; log in again"
            )
        return self._remember(Via.SESSION, digest, self.identity_of(held.record)), held

    def identity_of(self, session: LoginSession) -> Identity:
        """Whose session it is."""
        subject, groups = session.subject, {Subject(SubjectKind.GROUP, name) for name in session.groups}
        name = subject.name if subject.kind is SubjectKind.USER else f"{subject.kind} {subject.name}"
        return Identity(
            name=name, subjects=self.subjects_of(subject) | groups, via=Via.SESSION, credential=session.id
        )  # fmt: skip

    def is_good_session(self, held: Versioned[LoginSession]) -> bool:
        """Whether it is valid."""
        session = held.record
        if self._is_over(session.expires_ms):
            return False
        if session.role is not None:
            return True
        if session.way is SessionWay.OIDC:
            return self._is_of_provider(session.subject)
        if not self._is_good(session.subject, since=held.made_at):
            return False
        user = self.users.get(session.subject.name) if session.proof is not None else None
        return session.proof is None or (
            user is not None and user.record.password is not None and digest_of(user.record.password) == session.proof
        )

    def _is_of_provider(self, subject: Subject) -> bool:
        """Whether a login provider's user is still good: there need be no record, but one that is disabled,
        unreadable or has a password, and so is another user's, ends it. A record may be younger than the session.
        """
        user = self.users.get(subject.name)
        if user is None:
            return subject not in self._unreadable
        return not user.record.disabled and user.record.password is None

    def subjects_of(self, subject: Subject) -> frozenset[Subject]:
        """What its bindings may be of: a user counts as their groups, too."""
        held = self.users.get(subject.name) if subject.kind is SubjectKind.USER else None
        groups = () if held is None else held.record.groups
        return frozenset({subject, *(Subject(SubjectKind.GROUP, name) for name in groups)})

    def _is_good(self, subject: Subject, *, since: int) -> bool:
        """Whether a credential of this subject, made at this revision, is still good.

        Another user may have got the name of a deleted one: what was made before them is not theirs.
        """
        match subject.kind:
            case SubjectKind.USER:
                user = self.users.get(subject.name)
                return user is not None and not user.record.disabled and user.made_at <= since
            case SubjectKind.SERVICE:
                service = self.services.get(subject.name)
                return service is not None and not service.record.disabled and service.made_at <= since
            case _:
                return True

    def _remember(self, via: Via, credential: str, identity: Identity) -> Identity:
        if len(self._identities) >= _MOST_REMEMBERED:
            self._identities.clear()
        self._identities[via, credential] = identity
        return identity

    def _is_over(self, expires_ms: int) -> bool:
        return self._clock.wall_ms() >= expires_ms

    # What they may do

    def rights_of(self, identity: Identity) -> Rights:
        """By the bindings of all that the caller counts as; a token or a session may do no more than it was made for.

        Nothing where the user or the service account is disabled.
        """
        known = self._rights.get(identity)
        if known is not None:
            return known
        if len(self._rights) >= _MOST_REMEMBERED:
            self._rights.clear()
        rights = self._rights[identity] = self._rights_of(identity)
        return rights

    def _rights_of(self, identity: Identity) -> Rights:
        if identity.via is Via.OWNER:
            return OWNER
        session = self.session(identity.credential or "") if identity.via is Via.SESSION else None
        if session is not None and session.record.role is not None:
            return OWNER.capped(session.record.role)
        if any(self._is_disabled(subject) for subject in identity.subjects):
            return Rights()
        rights = self.rights_by_bindings(identity.subjects)
        match identity.via:
            case Via.TOKEN:
                token = self.tokens.get(identity.credential or "")
                if token is None:
                    return Rights()
                return rights if token.record.role is None else rights.capped(token.record.role)
            case Via.SESSION:
                return Rights() if session is None else rights
            case _:
                return rights

    def rights_by_bindings(self, subjects: frozenset[Subject]) -> Rights:
        """What the bindings give to a caller who counts as these."""
        return Rights(tuple(binding.grant for binding in self.bindings_of(subjects)), self._guarded)

    def bindings_of(self, subjects: frozenset[Subject]) -> list[Binding]:
        """The bindings of all of these, by id."""
        found = [binding for subject in subjects for binding in self._by_subject.get(subject, ())]
        return sorted(found, key=lambda binding: binding.id)

    def _is_disabled(self, subject: Subject) -> bool:
        match subject.kind:
            case SubjectKind.USER:
                user = self.users.get(subject.name)
                return subject in self._unreadable or (user is not None and user.record.disabled)
            case SubjectKind.SERVICE:
                service = self.services.get(subject.name)
                return service is None or service.record.disabled
            case _:
                return False

    def session(self, session_id: str) -> Versioned[LoginSession] | None:
        """The session with this public id."""
        digest = self._session_of.get(session_id)
        return None if digest is None else self.sessions.get(digest)

    # Ends of sessions, tokens and rights

    @contextmanager
    def watched(self, identity: Identity, ended: Ended) -> Iterator[None]:
        """Meanwhile, ``ended`` is called at once when the caller is not known any more, or may do other things."""
        handle = object()
        self._watched[handle] = (identity, self.rights_of(identity), ended)
        try:
            yield
        finally:
            self._watched.pop(handle, None)

    def is_known(self, identity: Identity) -> bool:
        """Whether the credential by which the caller came is still good."""
        try:
            if identity.via is Via.TOKEN:
                held = self.tokens.get(identity.credential or "")
                return held is not None and self.by_token(held.record.id, held.record.digest) == identity
            if identity.via is Via.SESSION:
                session = self.session(identity.credential or "")
                return session is not None and self.by_session(session.digest)[0] == identity
        except LoginNeededError:
            return False
        return True

    def _notify_ends(self) -> None:
        is_silent = self.silent_s > READS_S
        for handle, (identity, rights, ended) in list(self._watched.items()):
            is_too_old = is_silent and identity.via is not Via.OWNER  # whose rights are not etcd's
            if is_too_old or not self.is_known(identity) or self.rights_of(identity) != rights:
                del self._watched[handle]
                ended()

    async def _look_for_ends(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._notify_ends()

    # Keeping in step

    def _take(self, changes: Sequence[Change]) -> None:
        kinds = set()
        for change in changes:
            kind, _, name = change.key[len(self._keys.prefix) :].partition("/")
            kinds.add(kind)
            try:
                self._take_one(kind, name, change.new)
            except ValueError as error:
                self._set_aside(kind, name, error)
        if "bindings" in kinds:
            by_subject: defaultdict[Subject, list[Binding]] = defaultdict(list)
            for binding in self.bindings.values():
                by_subject[binding.subject].append(binding)
            self._by_subject, self._guarded = dict(by_subject), guarded_labels(self.bindings.values())
        self._identities.clear()
        self._rights.clear()
        self._notify_ends()
        self._changes.notify()

    def _take_one(self, kind: str, name: str, kv: KeyValue | None) -> None:
        match kind:
            case "users":
                _put(self.users, name, None if kv is None else Versioned.of(kv, User.from_json(kv.value, name=name)))
                self._unreadable.discard(Subject(SubjectKind.USER, name))
            case "services":
                service = None if kv is None else Versioned.of(kv, Service.from_json(kv.value, name=name))
                _put(self.services, name, service)
            case "bindings":
                binding = None if kv is None else Binding.from_json(kv.value, id=name)
                _put(self.bindings, name, binding)
            case "tokens":
                _put(self.tokens, name, None if kv is None else Versioned.of(kv, Token.from_json(kv.value, id=name)))
            case "sessions":
                self._take_session(name, kv)
            case _:
                pass  # links are asked of etcd; the heads of audit chains are not for here

    def _take_session(self, digest: str, kv: KeyValue | None) -> None:
        before = self.sessions.pop(digest, None)
        if before is not None:
            self._session_of.pop(before.record.id, None)
        if kv is not None:
            session = LoginSession.from_json(kv.value)
            self.sessions[digest] = Versioned.of(kv, session, digest=digest)
            self._session_of[session.id] = digest

    def _set_aside(self, kind: str, name: str, error: ValueError) -> None:
        """What cannot be read grants nothing, and is no login."""
        held: Mapping[str, dict[str, Any]] = {
            "users": self.users, "services": self.services, "bindings": self.bindings, "tokens": self.tokens,
        }  # fmt: skip
        if kind == "sessions":
            self._take_session(name, None)
        else:
            held[kind].pop(name, None)
        if kind == "users":
            with suppress(ValueError):  # no user can have this name
                self._unreadable.add(Subject(SubjectKind.USER, name))
        shown = "" if kind == "sessions" else f" {name[:60]!r}"
        extra = {"action": "access.unreadable", "kind": kind, "error": str(error)}
        _log.error("%s%s in etcd cannot be read, and counts for nothing: %s", kind, shown, error, extra=extra)


def _put(held: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        held.pop(name, None)
    else:
        held[name] = value
