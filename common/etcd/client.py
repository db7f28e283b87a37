"""The client: typed calls to etcd with a deadline each, over several members, that never hide a doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import inf
from types import TracebackType
from typing import Any, Self

from common.clock import Clock, SystemClock
from common.errors import EtcdAccessError, EtcdCompactedError, EtcdFullError, EtcdLeaseGoneError, Problem
from common.etcd import _rpc
from common.etcd.auth import SUPERUSER, Auth, EtcdUser
from common.etcd.calls import AnswerTooLargeError, Calls, Stream
from common.etcd.endpoints import Endpoints
from common.etcd.paging import Paging
from common.etcd.txn_messages import found, only_read, range_request, reading_request, txn_request, txn_result
from common.etcd.types import Lease, Page, Status, key_value, range_of, to_bytes
from common.protocol.txn import (
    MAX_READS,
    Get,
    GetKey,
    GetPrefix,
    KeyRevisions,
    KeyValue,
    Put,
    Txn,
    TxnResult,
)
from common.tls import TlsFiles

_PAGE_BYTES = 4 * 1024 * 1024
"""What a page of `read_prefix` should have at most, going by the pages before it."""
_FIRST_PAGE = 256
"""Keys of the first page of `read_prefix`, of whose size nothing is known."""


class EtcdClient:
    """Calls to etcd: each has a deadline, and each error says what is known of the request.

    A *read* is linearizable. It is tried at another member when one fails, within its deadline; then it raises
    UnavailableError. A *write* is sent once:

    * UnavailableError: certainly not carried out: it was never sent, or every member turned it away unread;
    * EtcdRefusedError (or EtcdAccessError, EtcdLeaseGoneError, EtcdCompactedError): certainly not carried out, etcd
      refused it;
    * EtcdInDoubtError: anything else, also when a call is cancelled; send the identical transaction again to settle it.

    A call whose *token* etcd refuses is sent a second time with a new one: the first was certainly not carried out.

    Use as an async context manager, or call `close`; everything in the event loop in which it is first used.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        timeout: float = 30.0,
        tls: TlsFiles | None = None,
        user: EtcdUser | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`endpoints`: `host:port`, or with `tls` `https://host:port`. ConfigError: one that cannot be used."""
        self.timeout_s = timeout
        clock = clock if clock is not None else SystemClock()
        self._endpoints = Endpoints(endpoints, clock=clock, tls=tls)
        self._scheme = "http" if tls is None else "https"
        self._auth = Auth(user, clock)
        self.is_limited = user is not None and user.name != SUPERUSER
        """Whether it has a user that needs permissions: then others may have fewer."""
        self._calls = Calls(self._endpoints, self._auth, timeout_s=timeout, clock=clock)
        self.is_full = False
        """Whether etcd's database was full at the newest write of this client that needed room there."""
        self.mutations = 0
        """Puts and deletions that transactions of this client have carried out, as far as etcd has answered."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`host:port` of every member that was given."""
        return self._endpoints.addresses

    @property
    def urls(self) -> tuple[str, ...]:
        """The same, each with `http://` or, where it is asked by TLS, `https://`."""
        return tuple(f"{self._scheme}://{address}" for address in self.endpoints)

    @property
    def endpoint(self) -> str:
        """The member in use now."""
        return self._endpoints.current

    @property
    def user_is_ignored(self) -> bool:
        """Whether etcd has answered that its authentication is off, although there is a user."""
        return self._auth.is_off

    async def tls_problems(self) -> list[Problem]:
        """What TLS has against the members, for each that can be asked."""
        problems = [await self._endpoints.tls_problem(address) for address in self.endpoints]
        return [problem for problem in problems if problem is not None]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every connection; calls that are going are cancelled (CancelledError), so end their tasks first."""
        await self._endpoints.close()

    # Reading

    async def get(self, key: str, *, revision: int = 0, within_s: float = inf) -> KeyValue | None:
        """The key as it is now, or was at `revision`; None: it does not exist.

        EtcdCompactedError: that revision has been compacted away. ``within_s``: where the client's timeout is too long.
        """
        request = _rpc.messages.RangeRequest(key=to_bytes(key), revision=revision)
        response = await self._calls.read("range", request, what=f"get {key}", within_s=within_s)
        return key_value(response.kvs[0]) if response.kvs else None

    async def get_many(self, keys: Sequence[str]) -> dict[str, KeyValue]:
        """Those of the keys that exist. One request, so one revision, for each 127 keys in the order given."""
        return {kv.key: kv async for result, at in self._read_many(Get, keys) if (kv := result.one(at)) is not None}

    async def get_keys(self, keys: Sequence[str]) -> dict[str, KeyRevisions]:
        """As `get_many`, without values and leases."""
        return {kv.key: kv async for result, at in self._read_many(GetKey, keys) if (kv := result.key(at)) is not None}

    async def _read_many(self, read: type[Get | GetKey], keys: Sequence[str]) -> AsyncIterator[tuple[TxnResult, int]]:
        """For each key a result, and where in it the key is."""
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), MAX_READS):
            result = await self.txn(Txn((), [read(key) for key in wanted[start : start + MAX_READS]]))
            for index in range(len(result.results)):
                yield result, index

    async def read_prefix(
        self, prefix: str, *, page: int = 1000, revision: int = 0, outlives_compaction: bool = False
    ) -> AsyncIterator[Page]:
        """Every key under the prefix in order, in pages of at most `page`, all as they were at one revision.

        The revision is that of the first page (each page names it), or the given one. There is at least one page, of
        no keys where the prefix has none. Pages are made smaller where values are large, so that no answer is larger
        than a client takes. EtcdCompactedError: the revision was compacted away between two pages; start again. Or,
        where it `outlives_compaction`, the rest is as it was at a later one.
        """
        paging, limit, is_first = Paging(to_bytes(prefix)), min(page, _FIRST_PAGE), True
        while not paging.done:
            request = _rpc.messages.RangeRequest(key=paging.start, range_end=paging.end, limit=limit, revision=revision)
            try:
                response = await self._calls.read("range", request, what=f"read {prefix}")
            except AnswerTooLargeError:
                limit = max(1, limit // 4)
                continue
            except EtcdCompactedError:
                if not outlives_compaction:
                    raise
                paging, revision = Paging(to_bytes(prefix), start=paging.start), 0
                continue
            revision = revision or response.header.revision
            kvs = response.kvs
            paging.took([kv.key for kv in kvs], count=response.count)
            if kvs or is_first:
                is_first = False
                yield Page(revision=revision, kvs=tuple(map(key_value, kvs)))
                limit = max(1, min(page, limit * 4, _PAGE_BYTES * len(kvs) // max(1, response.ByteSize())))

    async def read_prefixes(self, *prefixes: str) -> list[list[KeyValue]]:
        """Every key under each prefix, all as they were at one revision; where they have few keys by one question.

        EtcdCompactedError: as `read_prefix`.
        """
        questions = [GetPrefix(prefix, limit=_FIRST_PAGE) for prefix in prefixes]
        try:
            answer = await self.txn(Txn((), questions))
            revision, first = answer.revision, answer.results
        except AnswerTooLargeError:
            revision, first = (await self.txn(Txn((), [GetKey(prefixes[0])]))).revision, (None,) * len(prefixes)
        return [
            list(kvs) if isinstance(kvs, tuple) and len(kvs) < _FIRST_PAGE
            else [kv async for page in self.read_prefix(prefix, revision=revision) for kv in page.kvs]
            for prefix, kvs in zip(prefixes, first, strict=True)
        ]  # fmt: skip

    async def get_between(self, first: str, last: str, *, limit: int) -> tuple[tuple[KeyValue, ...], bool]:
        """The first `limit` keys from `first` to `last`, both included, in order; and whether there are more."""
        end = to_bytes(last) + b"\0"
        request = _rpc.messages.RangeRequest(key=to_bytes(first), range_end=end, limit=limit)
        response = await self._calls.read("range", request, what=f"read {first} to {last}")
        return tuple(map(key_value, response.kvs)), bool(response.more)

    async def get_greatest(self, prefix: str, *, limit: int) -> tuple[KeyValue, ...]:
        """The keys under the prefix with the greatest values, by their bytes, the greatest first; etcd sorts them."""
        first, end = range_of(prefix)
        request = _rpc.messages.RangeRequest(
            key=first, range_end=end, limit=limit, sort_order="DESCEND", sort_target="VALUE"
        )
        response = await self._calls.read("range", request, what=f"read the greatest of {prefix}")
        return tuple(map(key_value, response.kvs))

    async def count(self, prefix: str) -> int:
        """How many keys start with the prefix."""
        first, end = range_of(prefix)
        request = _rpc.messages.RangeRequest(key=first, range_end=end, count_only=True)
        return int((await self._calls.read("range", request, what=f"count {prefix}")).count)

    # Writing

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """Writes the key, whatever it holds; returns the revision. Detaches it from any other lease."""
        request = _rpc.messages.PutRequest(key=to_bytes(key), value=value, lease=lease)
        return int((await self._stored("put", request, what=f"put {key}")).header.revision)

    async def delete(self, key: str) -> bool:
        """Deletes the key, whatever it holds; whether there was one."""
        request = _rpc.messages.DeleteRangeRequest(key=to_bytes(key))
        return bool((await self._calls.write("delete", request, what=f"delete {key}")).deleted)

    async def txn(self, txn: Txn) -> TxnResult:
        """Carried out whole, at one revision. Where it does not write, another member is asked if one does not answer.

        ValueError: more compares or operations than etcd takes (reads alone: `MAX_READS`), or two writes to one key.
        """
        what = _summary(txn)
        if (read := only_read(txn)) is not None:
            response = await self._calls.read("range", range_request(read), what=what)
            return TxnResult(succeeded=True, revision=response.header.revision, results=(found(read, response),))
        if txn.writes:
            needs_room = any(isinstance(one, Put) for one in (*txn.then, *txn.otherwise))
            write = self._stored if needs_room else self._calls.write
            response = await write("txn", txn_request(txn), what=what)
        else:
            response = await self._calls.read("txn", reading_request(txn), what=what)
        result = txn_result(txn, response)
        self.mutations += sum(one.writes for one in (txn.then if result.succeeded else txn.otherwise))
        return result

    async def _stored(self, method: str, request: Any, *, what: str) -> Any:
        """The answer to a write that needs room: a full etcd refuses it, but not a deletion."""
        try:
            answer = await self._calls.write(method, request, what=what)
        except EtcdFullError:
            self.is_full = True
            raise
        self.is_full = False
        return answer

    # Leases

    async def lease_grant(self, ttl_s: int, *, lease_id: int = 0) -> Lease:
        """A new lease; etcd chooses the id where none is given.

        A grant in doubt leaves at most a lease that expires by itself.
        """
        request = _rpc.messages.LeaseGrantRequest(TTL=ttl_s, ID=lease_id)
        response = await self._stored("lease_grant", request, what="a lease")
        return Lease(id=response.ID, ttl_s=response.TTL)

    async def lease_revoke(self, lease_id: int) -> None:
        """Ends the lease and deletes its keys; one that is gone already is fine."""
        try:
            request = _rpc.messages.LeaseRevokeRequest(ID=lease_id)
            await self._calls.write("lease_revoke", request, what=f"the end of lease {lease_id:x}")
        except EtcdLeaseGoneError:
            return

    async def lease_keep_alive(self, lease_id: int) -> bool:
        """Whether the lease still exists; if so, it has its full TTL again. Once: a session keeps a stream open."""
        stream = await self.keep_alive_stream()
        try:
            request = _rpc.messages.LeaseKeepAliveRequest(ID=lease_id)
            return bool((await stream.exchange(request, timeout_s=self.timeout_s)).TTL > 0)
        finally:
            stream.close()

    # Streams

    async def keep_alive_stream(self) -> Stream:
        """A stream of keep-alives (LeaseKeepAliveRequest and -Response), to the member in use."""
        return await self._calls.stream("lease_keep_alive", what="keep-alives")

    async def watch_stream(self) -> Stream:
        """A stream of watches (WatchRequest and -Response), to the member in use."""
        return await self._calls.stream("watch", what="the watch")

    # Looking after the server

    async def compact(self, revision: int) -> None:
        """Forgets what was before `revision`. EtcdCompactedError: that was done already."""
        request = _rpc.messages.CompactionRequest(revision=revision)
        try:
            await self._calls.write("compact", request, what=f"compaction to {revision}")
        except EtcdAccessError as error:
            remedy = "grant the role root to this user, or set compactionMinutes to 0 and let etcd compact by itself"
            raise EtcdAccessError(Problem(field="etcdUser", message=error.problem.message, remedy=remedy)) from error

    async def status(self, endpoint: str | None = None) -> Status:
        """The state of the member in use, or of the given one of `endpoints`.

        EtcdAccessError: some versions of etcd (3.5.28 to 3.5.30, 3.6) tell it to users with the role root alone.
        """
        address = endpoint or self.endpoint
        status, alarms = await self._calls.ask(
            address,
            ("status", _rpc.messages.StatusRequest()),
            ("alarm", _rpc.messages.AlarmRequest()),
            what="the question for its status",
        )
        kinds = _rpc.messages.AlarmType
        return Status(
            endpoint=address,
            version=status.version,
            db_size_bytes=status.dbSize,
            db_size_in_use_bytes=status.dbSizeInUse,
            member=status.header.member_id,
            leader=status.leader,
            revision=status.header.revision,
            alarms=tuple(sorted({kinds.Name(alarm.alarm) for alarm in alarms.alarms})),
        )


def _summary(txn: Txn) -> str:
    """A transaction in a few words, for messages."""
    then = txn.then
    first = repr(then[0].prefix if isinstance(then[0], GetPrefix) else then[0].key) if then else "none"
    return f"a transaction of {len(txn.compares)} compares and {len(then)} operations (the first on {first})"
