"""What is sent to people: a document each in ``notices``, and one for each channel in ``channel_states``.

A notice is waiting, in a message that is being sent, sent, or failed. The state of a channel holds its messages whole,
and is written as a whole by the one sender that has the channel: so a message's step is one write, and a sender that
was replaced meanwhile writes nothing. What notices say of their message follows that, and may be written again.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
import pymongo
from msgspec.structs import replace
from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError, DuplicateKeyError, WriteConcernError

from common.cursors import decode_cursor, encode_cursor, no_cursor
from common.notices.joining import ChannelState, Outcome
from common.notices.notice import Notice, NoticeState
from common.runlog.client import Client, Document, asking, faults_of
from common.runlog.documents import storable, to_bson

_log = logging.getLogger(__name__)

KEPT_MS: Final = 30 * 86_400_000
KEPT: Final = 100_000
"""Of those that were sent, and of those that have failed. What waits is never too much."""
_SECONDS: Final = 5.0
_INDEX_SECONDS: Final = 600.0
_COUNTED: Final = 1000
_FORGOTTEN_AT_ONCE: Final = 500
_NOTICE: Final = "notice/"
_CHANNEL: Final = "channel/"
"""Prefixed: nx-27017 takes text that looks like a number or a date for one."""
_OLDEST_FIRST: Final = [("pageKey", pymongo.ASCENDING)]
_NEWEST_FIRST: Final = [("pageKey", pymongo.DESCENDING)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePage:
    """Newest first."""

    items: tuple[Notice, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeCounts:
    """How many there are of a state, up to 1,000, and since when the oldest waits."""

    by_state: Mapping[NoticeState, int]
    oldest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounts:
    """How many notices of a channel wait or are on their way, and how many of the newest have failed."""

    waiting: int = 0
    failed: int = 0
    last_error: str = ""
    """Of the newest that has one."""
    last_sent_ms: int = 0
    is_failing: bool = False
    """Its messages have been put off for minutes, or are refused."""


class Notices:
    """Both collections. Every call ends within its deadline, as UnavailableError where the store did not do it."""

    def __init__(self, client: Client, store: AsyncDatabase[Document]) -> None:
        self._client = client
        self._notices: AsyncCollection[Document] = store.get_collection("notices")
        self._states: AsyncCollection[Document] = store.get_collection("channel_states")

    async def prepare(self) -> None:
        """The indexes are there; it may be repeated."""
        found_by = [["state", "channel"], ["state"], ["channel"], []]
        indexes = [IndexModel([*((name, pymongo.ASCENDING) for name in names), *_OLDEST_FIRST]) for names in found_by]
        async with asking(self._client, _INDEX_SECONDS):
            await self._notices.create_indexes(indexes)

    async def put(self, notices: Sequence[Notice]) -> None:
        """Each of them is there; one that was there already stays as it is."""
        if not notices:
            return
        documents = [to_bson(_document(notice)) for notice in notices]
        async with asking(self._client, _SECONDS, writes=True):
            try:
                await self._notices.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                if unconfirmed := error.details.get("writeConcernErrors"):
                    raise WriteConcernError(str(unconfirmed[0].get("errmsg"))) from error
                for place, why in faults_of(error.details, len(documents)).refused.items():
                    extra = {"action": "notice.refused", "notice": notices[place].id, "why": why}
                    _log.error("the log store does not take a notice: %s", why, extra=extra)

    async def get(self, notice_id: str) -> Notice | None:
        """The notice; None: there is none."""
        async with asking(self._client, _SECONDS):
            document = await self._notices.find_one({"_id": _NOTICE + notice_id})
        return None if document is None else _read(document)

    async def page(
        self, *, state: NoticeState | None = None, channel: str | None = None, cursor: str | None = None,
        limit: int = 50,
    ) -> NoticePage:  # fmt: skip
        """The newest ones below the cursor. InvalidInputError where it is none of this list."""
        selector = _of(state, channel)
        if cursor is not None:
            selector["pageKey"] = {"$lt": _page_key_in(cursor)}
        async with asking(self._client, _SECONDS):
            found = self._notices.find(selector, sort=_NEWEST_FIRST, limit=limit + 1, batch_size=limit + 1)
            documents = await found.to_list()
        more = encode_cursor(documents[limit - 1]["pageKey"]) if len(documents) > limit else None
        items = tuple(notice for one in documents[:limit] if (notice := _read(one)) is not None)
        return NoticePage(items=items, next_cursor=more)

    async def send_again(self, notice_id: str) -> bool:
        """One that was sent or has failed waits anew; False: it is not there, or not so far."""
        change = {
            "$set": {"state": str(NoticeState.WAITING), "error": "", "message": "", "tries": 0, "dueMs": None},
            "$inc": {"resends": 1},
        }
        ended = [str(NoticeState.SENT), str(NoticeState.FAILED)]
        async with asking(self._client, _SECONDS, writes=True):
            result = await self._notices.update_one({"_id": _NOTICE + notice_id, "state": {"$in": ended}}, change)
        return result.modified_count == 1

    async def counts(self) -> NoticeCounts:
        """For metrics."""
        by_state: dict[NoticeState, int] = {}
        oldest: list[int] = []
        async with asking(self._client, _SECONDS):
            for state in (NoticeState.WAITING, NoticeState.SENDING, NoticeState.FAILED):
                found = self._notices.find(_of(state, None), {"createdMs": 1}, sort=_OLDEST_FIRST, limit=_COUNTED)
                documents = await found.to_list()
                by_state[state] = len(documents)
                if documents and state is not NoticeState.FAILED:
                    oldest.append(documents[0]["createdMs"])
        return NoticeCounts(by_state=by_state, oldest_ms=min(oldest, default=None))

    async def by_channel(self) -> Mapping[str, ChannelCounts]:
        """How far each channel is, by the newest 2,000 notices that were not sent."""
        unsent = {"$in": [str(NoticeState.WAITING), str(NoticeState.SENDING), str(NoticeState.FAILED)]}
        shown = {"channel": 1, "state": 1, "error": 1}
        async with asking(self._client, _SECONDS):
            found = self._notices.find({"state": unsent}, shown, sort=_NEWEST_FIRST, limit=2 * _COUNTED)
            documents = await found.to_list()
            states = await self._states.find({}, {"lastSentMs": 1, "failing": 1}, limit=_COUNTED).to_list()
        counts = {
            str(one["_id"]).removeprefix(_CHANNEL): ChannelCounts(
                last_sent_ms=one.get("lastSentMs", 0), is_failing=one.get("failing") is True
            )
            for one in states
        }
        for one in documents:
            channel = str(one.get("channel")).removeprefix(_CHANNEL)
            before, has_failed = counts.get(channel, ChannelCounts()), one.get("state") == str(NoticeState.FAILED)
            counts[channel] = dataclasses.replace(
                before, waiting=before.waiting + (not has_failed), failed=before.failed + has_failed,
                last_error=before.last_error or str(one.get("error", "")),
            )  # fmt: skip
        return counts

    async def forget(self, now_ms: int) -> int:
        """Some of those that are too old, or too many, are gone; how many. And channels that were long not used.

        A notice that has waited for so long is removed too, and logged: its channel may be gone, or it is unreadable.
        """
        unused = {"owner": {"$eq": ""}, "messages": {"$eq": []}, "lastSentMs": {"$lt": now_ms - KEPT_MS}}
        async with asking(self._client, _SECONDS):
            await self._states.delete_many(unused)
            old = f"{now_ms - KEPT_MS:016d}"
            ended = [str(NoticeState.SENT), str(NoticeState.FAILED)]
            gone = await self._forget_until(old, {"state": {"$in": ended}})
            if (untold := await self._forget_until(old, {"state": {"$nin": ended}})) > 0:
                extra = {"action": "notice.too_old", "count": untold}
                _log.warning("%s notices that waited for 30 days were removed without being sent", untold, extra=extra)
            gone += untold
            for state in (NoticeState.SENT, NoticeState.FAILED):
                of_state = _of(state, None)
                beyond = self._notices.find(
                    of_state, {"_id": 0, "pageKey": 1}, sort=_NEWEST_FIRST, skip=KEPT, limit=1
                )  # fmt: skip
                for newest in await beyond.to_list():
                    gone += await self._forget_until(newest["pageKey"], of_state)
        return gone

    async def _forget_until(self, newest: str, selector: Document) -> int:
        """The oldest of these are gone, up to the newest one that goes; one that is sent again meanwhile is not."""
        up_to = {**selector, "pageKey": {"$lte": newest}}
        found = self._notices.find(up_to, {"_id": 1}, sort=_OLDEST_FIRST, limit=_FORGOTTEN_AT_ONCE)
        old = [document["_id"] for document in await found.to_list()]
        if not old:
            return 0
        return (await self._notices.delete_many({**selector, "_id": {"$in": old}})).deleted_count

    # Of senders

    async def channels_to_serve(self) -> list[str]:
        """The channels of which notices wait, or are on their way: a query for each of them, and two."""
        channels: set[str] = set()
        async with asking(self._client, _SECONDS):
            for state in (NoticeState.WAITING, NoticeState.SENDING):
                behind = ""
                while True:
                    selector = {"state": {"$eq": str(state)}, "channel": {"$gt": behind}}
                    found = await self._notices.find_one(selector, {"channel": 1}, sort=[("channel", 1)])
                    if found is None:
                        break
                    behind = str(found["channel"])
                    channels.add(behind.removeprefix(_CHANNEL))
        return sorted(channels)

    async def waiting(self, channel: str, limit: int) -> list[Notice]:
        """The channel's oldest notices that wait."""
        async with asking(self._client, _SECONDS):
            found = self._notices.find(_of(NoticeState.WAITING, channel), sort=_OLDEST_FIRST, limit=limit)
            documents = await found.to_list()
        return [notice for one in documents if (notice := _read(one)) is not None]

    async def state(self, channel: str) -> ChannelState | None:
        """How far the channel is, whichever manager has it; None: nothing was ever sent to it."""
        async with asking(self._client, _SECONDS):
            document = await self._states.find_one({"_id": _CHANNEL + channel})
        return None if document is None else _state(document)

    async def claim(self, channel: str, owner: str, *, instead_of: str = "") -> ChannelState:
        """How far the channel is; it is the caller's from now on, where its ``owner`` says so.

        ``instead_of``: who is known to be gone.
        """
        own: Document = {"_id": _CHANNEL + channel}
        async with asking(self._client, _SECONDS):
            while (there := await self._states.find_one(own)) is not None:
                state = _state(there)
                if state.owner not in (owner, instead_of, ""):
                    return state
                # One step more than a write that is still on its way may have: its owner does not know of it.
                taken = {"owner": owner, "step": state.step + 2}
                as_seen = {name: {"$eq": there.get(name)} for name in taken}
                if (await self._states.update_one({**own, **as_seen}, {"$set": taken})).matched_count:
                    return replace(state, **taken)
            state = ChannelState(channel=channel, owner=owner)
            try:
                await self._states.insert_one(_state_document(state))
            except DuplicateKeyError:
                there = await self._states.find_one(own)
                return state if there is None else _state(there)
            return state

    async def write(self, state: ChannelState, *, owner: str) -> bool:
        """The channel is so far; False: it is another's now, or further: nothing was written. It may be repeated."""
        mine = {"_id": _CHANNEL + state.channel, "owner": {"$eq": owner}, "step": {"$lte": state.step}}
        async with asking(self._client, _SECONDS):
            result = await self._states.replace_one(mine, _state_document(state))
        return result.matched_count == 1

    async def put_into(self, notices: Sequence[str], message: str) -> None:
        """Those that wait are part of this message."""
        change = {"$set": {"state": str(NoticeState.SENDING), "message": message}}
        selector = {"_id": {"$in": [_NOTICE + one for one in notices]}, "state": str(NoticeState.WAITING)}
        async with asking(self._client, _SECONDS):
            await self._notices.update_many(selector, change)

    async def let_go(self, state: ChannelState) -> None:
        """Those that are in no message of their channel, whatever they say, wait again."""
        known = {message.id for message in state.messages} | {outcome.message for outcome in state.done}
        selector = {**_of(NoticeState.SENDING, state.channel), "message": {"$nin": sorted(known)}}
        change = {"$set": {"state": str(NoticeState.WAITING), "message": ""}}
        async with asking(self._client, _SECONDS):
            await self._notices.update_many(selector, change)

    async def settle(self, outcome: Outcome) -> None:
        """The notices of a message say what came of it; but for those that are to be sent again meanwhile."""
        change: Document = {
            "state": str(outcome.state), "message": outcome.message, "error": outcome.error, "tries": outcome.tries,
            "dueMs": outcome.due_ms,
        }  # fmt: skip
        if outcome.state is NoticeState.SENT:
            change["sentMs"] = outcome.at_ms
        ids = [_NOTICE + one for one in outcome.notices]
        async with asking(self._client, _SECONDS):
            await self._notices.update_many(
                {"_id": {"$in": ids}, "message": {"$eq": outcome.message}}, {"$set": change}
            )


def _document(notice: Notice) -> Document:
    document: Document = storable(notice.to_document())
    del document["id"]
    key = f"{notice.created_ms:016d}/{notice.id}"
    return {**document, "_id": _NOTICE + notice.id, "channel": _CHANNEL + notice.channel, "pageKey": key}


def _read(document: Document) -> Notice | None:
    """None where another program has written it: it harms no other, and is logged."""
    try:
        return Notice.from_document({
            **document, "id": str(document["_id"]).removeprefix(_NOTICE),
            "channel": str(document["channel"]).removeprefix(_CHANNEL),
        })  # fmt: skip
    except (KeyError, ValueError) as error:
        _say_odd(str(document.get("_id")), str(error))
        return None


@lru_cache(maxsize=1000)
def _say_odd(which: str, why: str) -> None:
    """Logged once, however often it is read."""
    extra = {"action": "notice.odd", "id": which}
    _log.error("%s in the collection notices is none of ours: %s", which, why, extra=extra)


def _state_document(state: ChannelState) -> Document:
    document: Document = storable(msgspec.to_builtins(state))
    return {"_id": _CHANNEL + state.channel, **document}


def _state(document: Document) -> ChannelState:
    """What cannot be read begins anew: its notices are put together once more."""
    try:
        return msgspec.convert(document, ChannelState)
    except msgspec.MsgspecError as error:
        channel = str(document["_id"]).removeprefix(_CHANNEL)
        extra = {"action": "channel.odd", "channel": channel}
        _log.error("the state of channel %s cannot be read, and begins anew: %s", channel, error, extra=extra)
        return replace(ChannelState(channel=channel), owner=str(document.get("owner", "")))


def _of(state: NoticeState | None, channel: str | None) -> Document:
    selector: Document = {}
    if state is not None:
        selector["state"] = {"$eq": str(state)}
    if channel is not None:
        selector["channel"] = {"$eq": _CHANNEL + channel}
    return selector


def _page_key_in(cursor: str) -> str:
    key = decode_cursor(cursor)
    if not (key[:16].isdecimal() and key[16:17] == "/"):
        raise no_cursor()
    return key
