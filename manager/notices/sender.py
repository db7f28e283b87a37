"""Sends what waits: takes a channel, puts a message together, sends it, and notes what came of it.

A turn on a channel is: claim it; finish what its last sender left; send the one message that is due, or put the next
one together first; let the channel go. All that counts is one document (`ChannelState`), written only while it is ours:

    put together    the message stands in it, whole; a crash behind that sends the same one
    noted           it is done; a crash before that sends it once more, with the same id
    settled         its notices say so; a crash before that says it again

A channel whose sender is gone (its beat in etcd) is taken over, whatever any clock says. So a sender whose session has
not been confirmed for its TTL since it took up the message sends it no more: another may have done so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from common.clock import Clock
from common.errors import EtcdError, EtcronError, ForbiddenError, UnavailableError
from common.etcd import EtcdClient, Session
from common.notices.channels import CHANNEL, ChannelKind
from common.notices.events import Event
from common.notices.joining import (
    MOST_JOINED,
    STUCK,
    ChannelState,
    Message,
    Outcome,
    may_begin,
    message_id,
    quiet_ms,
    rest_ms,
    wait_ms,
)
from common.notices.notice import Notice, NoticeState
from common.process import failpoints
from common.protocol.keys import Keys
from common.runlog import RunLog
from common.runlog.outbox import outbox_documents
from common.verdicts import EventKind
from manager.background.presence import Presence
from manager.notices.plain import line
from manager.notices.rendering import Renderer
from manager.notices.ways import WITHIN_S, PutOffError, RefusedError, Result, Way
from manager.watch.notices import NoticeRecords

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_WITHOUT_CHANNELS_S: Final = 60.0
"""Between two looks where there are none: a notice may wait for one that was removed, written by who is gone."""
_AGAIN_S: Final = 1.0
"""After the log store or etcd did not answer."""
_TAKEN_S: Final = 3.0
"""Between two looks at a channel that another has."""
_AFTER_A_FAULT_S: Final = 60.0
_AT_A_TIME: Final = 100
"""A mail server that hangs keeps its own channels, and no others."""
_LAST_S: Final = 3.0
"""For what is being sent when the process is asked to stop."""
_FORGET_EVERY_S: Final = 3600.0
_UNWRITTEN_S: Final = 30.0
"""The notifier waits for it."""


class TakenOverError(EtcronError):
    """The channel has another sender now, or may have: nothing was written, or sent."""


class Looks:
    """When a sender looks for what waits: always, but seldom where there are no channels and nothing was found."""

    def __init__(self) -> None:
        self._not_before_s = 0.0

    def are_due(self, now_s: float, *, has_channels: bool, is_woken: bool) -> bool:
        """Whether it looks now; what has woken it counts until a look has ended."""
        if has_channels or is_woken:
            self._not_before_s = now_s
        return now_s >= self._not_before_s

    def found(self, channels: Sequence[str], now_s: float) -> None:
        """A look has ended, with these channels to serve."""
        self._not_before_s = now_s if channels else now_s + _WITHOUT_CHANNELS_S


class Sender:
    """Sends for all channels, beside any number of others."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, runlog: RunLog, presence: Presence, records: NoticeRecords, *, name: str,
        renderer: Renderer, ways: Mapping[ChannelKind, Way], is_clock_off: Callable[[], bool], clock: Clock,
    ) -> None:  # fmt: skip
        """``name``: of this process; ``presence`` shows to the others that it lives. ``is_clock_off``: then nothing is
        too old."""
        self._etcd = etcd
        self._keys = keys
        self._runlog = runlog
        self._notices = runlog.notices
        self._presence = presence
        self._records = records
        self._name = name
        self._renderer = renderer
        self._ways = ways
        self._is_clock_off = is_clock_off
        self._clock = clock
        self._woken = asyncio.Event()
        self._looks = Looks()
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self.sent: dict[tuple[str, str], int] = {}
        """How many messages ended, by the kind of channel and what came of them."""

    def wake(self) -> None:
        """Something waits: it is looked for at once."""
        self._not_before.clear()
        self._woken.set()

    async def send_unwritten(self, notice: Notice) -> bool:
        """Sends what cannot be written down, as the log store is away; whether anybody has it."""
        try:
            message = Message(id=notice.id, notices=(), content=await self._renderer.content([notice]))
            async with asyncio.timeout(_UNWRITTEN_S):
                _, result, _ = await self._given(notice.channel, message)
        except (UnavailableError, EtcdError, TimeoutError):
            return False
        return bool(result.accepted)

    async def run(self) -> None:
        """Send for ever. Nothing is forgotten at the start: NTP may not have set the clock."""
        prepared, away, forget_at = False, False, self._clock.monotonic() + _FORGET_EVERY_S
        try:
            while True:
                is_woken = self._woken.is_set()
                self._woken.clear()
                now = self._clock.monotonic()
                is_due = self._looks.are_due(now, has_channels=self._records.has_channels, is_woken=is_woken)
                try:
                    if not prepared:
                        await self._notices.prepare()
                        prepared = True
                    if is_due:
                        await self._begin_turns()
                    forgets = self._clock.monotonic() >= forget_at and not self._is_clock_off()
                    if forgets and not await self._notices.forget(self._clock.wall_ms()):
                        forget_at = self._clock.monotonic() + _FORGET_EVERY_S
                    away = False
                except UnavailableError as error:
                    if not away:
                        _log.warning("notices wait: %s", error, extra={"action": "notices.waiting"})
                    away = True
                await self._until_woken()
        finally:
            # What a server has answered meanwhile is noted: else it would be sent once more.
            if turns := list(self._turns.values()):
                await asyncio.wait(turns, timeout=_LAST_S)
                for turn in turns:
                    turn.cancel()
                await asyncio.wait(turns)

    async def _until_woken(self) -> None:
        """A second at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._woken.wait()

    async def _begin_turns(self) -> None:
        if not self._presence.is_shown:
            return  # others could not tell that we live
        now = self._clock.monotonic()
        channels = await self._notices.channels_to_serve()
        self._looks.found(channels, now)
        self._not_before = {one: self._not_before[one] for one in channels if one in self._not_before}
        due = sorted((self._not_before.get(one, 0.0), one) for one in channels if one not in self._turns)
        for not_before, channel in due[: _AT_A_TIME - len(self._turns)]:
            if not_before <= now:
                self._turns[channel] = asyncio.create_task(self._begun(channel), name=f"notices of {channel}")

    async def _begun(self, channel: str) -> None:
        rest_s = await self._turn(channel)
        self._not_before[channel] = self._clock.monotonic() + rest_s
        del self._turns[channel]

    async def _turn(self, channel: str) -> float:
        """Serve the channel once; for how many seconds there is nothing to do for it then."""
        extra = {"action": "notices.interrupted", "channel": channel}
        try:
            while (session := self._presence.session) is not None:
                seen = await self._notices.state(channel)
                if seen is not None and (rest_s := await self._rest_s(seen)) > 0:
                    return rest_s
                state = await self._claim(channel)
                if state.owner != self._name:
                    return _TAKEN_S
                if not await self._served(await self._finish(state), session):
                    return _TAKEN_S  # what waits cannot be read: another version's manager may send it
            return _AGAIN_S
        except (UnavailableError, EtcdError, TakenOverError) as error:
            _log.debug("channel %s is served later: %s", channel, error, extra=extra)
            return _AGAIN_S
        except Exception:  # one channel must not take the process down, and the others with it
            _log.exception("channel %s is served later: a reason that was not foreseen", channel, extra=extra)
            return _AFTER_A_FAULT_S

    async def _rest_s(self, state: ChannelState) -> float:
        more_wait = bool(state.messages) and bool(await self._notices.waiting(state.channel, 1))
        now_ms = self._clock.wall_ms()
        # What comes meanwhile is seen in time, whatever the pause of a message.
        return (
            min(rest_ms(state, now_ms, more_wait=more_wait), max(1000 * _TAKEN_S, quiet_ms(state.last_sent_ms, now_ms)))
            / 1000
        )

    async def _claim(self, channel: str) -> ChannelState:
        state = await self._notices.claim(channel, self._name)
        if state.owner not in ("", self._name) and await self._etcd.get(self._keys.beat(state.owner)) is None:
            extra = {"action": "channel.taken_over", "channel": channel, "from": state.owner}
            _log.info("channel %s is taken over from %s, which is gone", channel, state.owner, extra=extra)
            state = await self._notices.claim(channel, self._name, instead_of=state.owner)
        return state

    async def _finish(self, state: ChannelState) -> ChannelState:
        """What the last sender had noted goes into the notices, too."""
        for outcome in state.done:
            await self._notices.settle(outcome)
        for message in state.messages:
            await self._notices.put_into(message.notices, message.id)
        await self._notices.let_go(state)
        return replace(state, done=())

    async def _served(self, state: ChannelState, session: Session) -> bool:
        """Send the message that is due and let the channel go; False: there was none."""
        due = list[Message]()
        if not await self._rest_s(state):
            state = await self._with_next(state)
            now_ms = self._clock.wall_ms()
            due = sorted((one for one in state.messages if not wait_ms(one, now_ms)), key=lambda one: one.tries)
        if due:
            state = await self._sent(state, due[0], session)
        await self._write(replace(state, owner="", step=state.step + 1))
        return bool(due)

    async def _with_next(self, state: ChannelState) -> ChannelState:
        """With the message of what waits, put together and written down, where there may be one more."""
        if not may_begin(state.messages):
            return state
        known = {one for message in state.messages for one in message.notices}
        waiting = [one for one in await self._notices.waiting(state.channel, MOST_JOINED) if one.id not in known]
        if not waiting:
            return state
        message = Message(
            id=message_id(waiting[0]), notices=tuple(one.id for one in waiting),
            content=await self._renderer.content(waiting),
        )  # fmt: skip
        state = replace(state, messages=(*state.messages, message), step=state.step + 1)
        await self._write(state)
        await self._notices.put_into(message.notices, message.id)
        return state

    async def _sent(self, state: ChannelState, message: Message, session: Session) -> ChannelState:
        """Sent, and what came of it noted, and written into its notices. TakenOverError."""
        if failpoints.armed:
            failpoints.hit("before_notice_sent")
        kind, result, why = await self._given(state.channel, message, session)
        if failpoints.armed:
            failpoints.hit("after_notice_sent")
        noted, outcome = came_to(state, message, result, why, now_ms=self._clock.wall_ms())
        noted = replace(noted, step=noted.step + 1)
        # A user who removes a channel ends the alert that it fails: one of the same name may fail anew.
        if noted.failing != state.failing or (kind and outcome.state is NoticeState.FAILED):
            documents = outbox_documents([_event_of(noted, outcome)], outcome.at_ms)
            try:
                await _surely(partial(self._runlog.outbox.put, documents))
            except ForbiddenError as error:  # a message is not sent again and again for want of a right
                extra = {"action": "outbox.forbidden", "channel": state.channel}
                _log.error("whether channel %s fails is not told: %s", state.channel, error, extra=extra)
        # However long the log store is away: what a server has taken must not be sent again.
        await _surely(partial(self._write, noted))
        await self._notices.settle(outcome)
        self.sent[kind, str(outcome.state)] = self.sent.get((kind, str(outcome.state)), 0) + 1
        extra = {"action": f"notice.{outcome.state}", "channel": state.channel, "notice": message.id}
        level = logging.INFO if outcome.state is NoticeState.SENT else logging.WARNING
        _log.log(level, "message %s to channel %s: %s %s", message.id, state.channel, outcome.state, outcome.error,
                 extra=extra)  # fmt: skip
        return replace(noted, done=())

    async def _given(
        self, name: str, message: Message, session: Session | None = None
    ) -> tuple[str, Result, PutOffError | RefusedError | None]:
        """The kind of channel, what came of it, and what speaks against it.

        ``session``: by which others have known, since the channel was claimed, that its sender lives. TakenOverError.
        """
        kv = await self._etcd.get(self._keys.channel(name))
        if kv is None:
            return "", Result(), RefusedError(f"there is no channel {name} any more")
        try:
            channel = CHANNEL.from_json(kv.value).record
        except ValueError as error:
            return "", Result(), RefusedError(f"channel {name} cannot be read: save it anew ({line(str(error))})")
        if session is not None and not session.healthy:
            raise TakenOverError
        try:
            async with asyncio.timeout(WITHIN_S):
                return str(channel.kind), await self._ways[channel.kind].send(name, channel, message), None
        except TimeoutError:
            return str(channel.kind), Result(), PutOffError(f"no answer within {WITHIN_S:g} s")
        except (PutOffError, RefusedError) as error:
            return str(channel.kind), Result(), error
        except Exception as error:  # one channel's server must not take the process down
            extra = {"action": "notice.failed", "channel": name}
            _log.exception("a message to channel %s: a reason that was not foreseen", name, extra=extra)
            return str(channel.kind), Result(), PutOffError(f"it cannot be sent: {type(error).__name__}")

    async def _write(self, state: ChannelState) -> None:
        """UnavailableError: the log store did not answer. TakenOverError."""
        if not await self._notices.write(state, owner=self._name):
            raise TakenOverError


async def _surely(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await work()
        except UnavailableError:
            await asyncio.sleep(_AGAIN_S)


def _event_of(state: ChannelState, outcome: Outcome) -> Event:
    """That the channel fails, or that it does no longer."""
    kind = EventKind.NOTICES_FAILING
    if state.failing:
        return Event(kind=kind, at_ms=outcome.at_ms, subject=state.channel, reason=outcome.error[:500])
    return Event(kind=EventKind.RECOVERED, at_ms=outcome.at_ms, subject=f"{kind}/{state.channel}")


def came_to(
    state: ChannelState, message: Message, result: Result, why: PutOffError | RefusedError | None, *, now_ms: int
) -> tuple[ChannelState, Outcome]:
    """How far the channel is behind a try of this message, and what its notices say. Pure."""
    message = replace(
        message, accepted=(*message.accepted, *result.accepted),
        refused=(*message.refused, *result.refused.items()),
    )  # fmt: skip
    others = tuple(one for one in state.messages if one.id != message.id)
    reasons = [*(f"{who}: {words}" for who, words in message.refused), str(why or ""), result.put_off]
    error = line("; ".join(filter(None, reasons)), 1000)
    later = message.put_off(now_ms)

    def outcome(of: NoticeState, due_ms: int | None = None) -> Outcome:
        return Outcome(
            message=message.id, notices=message.notices, state=of, error=error, at_ms=now_ms, due_ms=due_ms,
            tries=later.tries if due_ms is not None else message.tries,
        )  # fmt: skip

    if (isinstance(why, PutOffError) or result.put_off) and not later.is_given_up:
        failing = state.failing or later.tries >= STUCK
        return replace(state, messages=(*others, later), failing=failing), outcome(NoticeState.SENDING, later.due_ms)
    ended = outcome(NoticeState.SENT if message.accepted else NoticeState.FAILED)
    failing = ended.state is NoticeState.FAILED or bool(error)  # a message with an error has not reached everybody
    return replace(state, messages=others, done=(ended,), last_sent_ms=now_ms, failing=failing), ended
