"""What alerts are open, in ``BUCKETS`` documents: all that the notifier has to know again when another one takes over.

Each has the epoch of the notifier that wrote it. A term begins by putting a later one into all of them: a former
notifier, frozen meanwhile, writes nothing from then on. It is no revision of etcd: those of a restored one are lower.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from pymongo import ReplaceOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from common.errors import UnavailableError
from common.notices.alerts import Alert, Standing
from common.runlog.client import Client, Document, asking, bulk

_log = logging.getLogger(__name__)

BUCKETS: Final = 64
MOST_ENDED: Final = 50
"""That are remembered, of each bucket."""
_SECONDS: Final = 5.0
_WATCH: Final = "watch"


class Bucket(Struct, frozen=True, kw_only=True):
    """Some of all standings, by their keys (`common.notices.alerts.key_of`), and alerts that have ended, newest
    first."""

    standings: Mapping[str, Standing] = field(default_factory=dict)
    ended: tuple[Alert, ...] = ()
    unread: Mapping[str, msgspec.Raw] = field(default_factory=dict)
    """Standings that only a later version can read: they stay as they are."""

    def with_ended(self, alerts: Iterable[Alert]) -> Bucket:
        """These have ended since, in this order."""
        return replace(self, ended=(*reversed(list(alerts)), *self.ended)[:MOST_ENDED])


class Watch(Struct, frozen=True, kw_only=True):
    """When a notifier looked at the jobs last, and when none did before: that time counts for no silent job."""

    looked_ms: int = 0
    gaps: tuple[tuple[int, int], ...] = ()


def bucket_of(key: str) -> int:
    """The number of the bucket that it is in."""
    return zlib.crc32(key.encode(errors="surrogatepass")) % BUCKETS


class Alerts:
    """The collection. Every call ends within its deadline, as UnavailableError where the store did not do it."""

    def __init__(self, client: Client, collection: AsyncCollection[Document]) -> None:
        self._client = client
        self._collection = collection

    async def read(self) -> list[Bucket]:
        """All of them, by their numbers."""
        async with asking(self._client, _SECONDS):
            found = {document["_id"]: document async for document in self._collection.find({})}
        return [_read(found.get(_id(number), {})) for number in range(BUCKETS)]

    async def epoch(self) -> int:
        """The latest that any of them has; 0: there is none."""
        async with asking(self._client, _SECONDS):
            found = [document.get("epoch") async for document in self._collection.find({}, {"epoch": 1})]
        return max((epoch for epoch in found if isinstance(epoch, int)), default=0)

    async def take(self, epoch: int) -> bool:
        """Notifiers of earlier epochs can write nothing any more. False: a bucket has this one or a later.

        Of all who take the same one, one at most succeeds. UnavailableError: the log store takes none.
        """
        operations = [
            UpdateOne(_ours(number, epoch - 1), {"$set": {"epoch": epoch}}, upsert=True) for number in range(BUCKETS)
        ]
        async with asking(self._client, _SECONDS):
            _, faults = await bulk(self._collection, operations)
        for why in faults.refused.values():
            raise UnavailableError(f"the log store does not take alerts: {why}")
        return not faults.duplicates

    async def write(self, buckets: Mapping[int, Bucket], epoch: int) -> bool:
        """These are as they are here. False: a later epoch has them, and they were not all written."""
        if not buckets:
            return True
        operations = [
            ReplaceOne(_ours(number, epoch), _document(number, bucket, epoch), upsert=True)
            for number, bucket in buckets.items()
        ]
        async with asking(self._client, _SECONDS):
            _, faults = await bulk(self._collection, operations)
        for why in faults.refused.values():
            _log.error("the log store does not take alerts: %s", why, extra={"action": "alerts.refused", "why": why})
        return not faults.duplicates

    async def watch(self) -> Watch:
        """When a notifier looked last."""
        async with asking(self._client, _SECONDS):
            document = await self._collection.find_one({"_id": _WATCH})
        try:
            return Watch() if document is None else msgspec.convert(document, Watch)
        except msgspec.ValidationError:
            return Watch()

    async def put_watch(self, watch: Watch) -> None:
        """The same, for the next reader."""
        document: dict[str, Any] = {"_id": _WATCH, **msgspec.to_builtins(watch)}  # nx-27017 takes none of the filter
        async with asking(self._client, _SECONDS):
            await self._collection.replace_one({"_id": _WATCH}, document, upsert=True)


def open_alerts(buckets: Sequence[Bucket]) -> list[Alert]:
    """All that are open, the newest first."""
    found = [one.alert for bucket in buckets for one in bucket.standings.values() if one.alert is not None]
    return sorted(found, key=lambda alert: (-alert.since_ms, alert.id))


def ended_alerts(buckets: Sequence[Bucket]) -> list[Alert]:
    """Those that ended last, the newest first."""
    found = [alert for bucket in buckets for alert in bucket.ended]
    return sorted(found, key=lambda alert: (-(alert.end_ms or 0), alert.id))


def _id(number: int) -> str:
    return f"bucket/{number:02d}"


def _ours(number: int, epoch: int) -> Document:
    """With an upsert: where a later epoch is there, its id is a duplicate."""
    return {"_id": _id(number), "epoch": {"$lte": epoch}}


def _document(number: int, bucket: Bucket, epoch: int) -> Document:
    """As JSON text: what is in it is of no use to the log store, and may have any keys."""
    standings: dict[str, object] = {**bucket.unread, **bucket.standings}
    return {
        "_id": _id(number), "epoch": epoch, "standings": msgspec.json.encode(standings).decode(),
        "ended": msgspec.json.encode(bucket.ended).decode(),
    }  # fmt: skip


_STANDING: Final = msgspec.json.Decoder(Standing)
_ENDED: Final = msgspec.json.Decoder(Alert)
_T = TypeVar("_T")


def _read(document: Mapping[str, Any]) -> Bucket:
    """What is damaged begins anew: open problems are sent once more when they happen again."""
    try:
        standings = msgspec.json.decode(document.get("standings", "{}"), type=dict[str, msgspec.Raw])
        ended = msgspec.json.decode(document.get("ended", "[]"), type=list[msgspec.Raw])
    except (msgspec.MsgspecError, TypeError) as error:
        _say_odd(document, error)
        return Bucket()
    known = {key: standing for key, raw in standings.items() if (standing := _one(document, _STANDING, raw))}
    return Bucket(
        standings=known,
        ended=tuple(alert for raw in ended if (alert := _one(document, _ENDED, raw))),
        unread={key: raw.copy() for key, raw in standings.items() if key not in known},
    )


def _one(document: Mapping[str, Any], decoder: msgspec.json.Decoder[_T], raw: msgspec.Raw) -> _T | None:
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        _say_odd(document, error)
        return None


def _say_odd(document: Mapping[str, Any], error: Exception) -> None:
    extra = {"action": "alerts.odd", "id": str(document.get("_id"))}
    _log.error("%s in the collection alerts cannot be read: %s", document.get("_id"), error, extra=extra)
