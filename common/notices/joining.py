"""Which notices of one channel go into one message, and when it goes: a channel says at most one thing in 10 s.

The first notice goes at once. What comes within the next 10 s goes together, as a digest where it is more than one
event. A message that was put together keeps its id and content, however often it has to be sent: so its server can
tell a second one. At most two are on their way, the second one once the first was put off ``STUCK`` times: then what
its server does not take of the one holds up nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from common.notices.notice import MOST_GROUPS, MOST_TOLD, Group, Notice, NoticeKind, NoticeState
from common.verdicts import EventKind

EVERY_MS: Final = 10_000
MOST_JOINED: Final = 500
"""Notices of one message; what waits beyond them goes into the next."""
STUCK: Final = 4
_FIRST_PAUSE_MS: Final = 10_000
_LONGEST_PAUSE_MS: Final = 3_600_000
_GIVEN_UP_AFTER_MS: Final = 86_400_000


class Content(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a message says, put together once."""

    subject: str
    text: str
    html: str
    facts: str
    """JSON, for programs."""
    created_ms: int = 0
    thread: str = ""
    """The same for all messages about one alert; empty: of none, or of several."""


class Message(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message on its way. ``tries`` counts those that were put off, so no clock says when it is given up."""

    id: str
    notices: tuple[str, ...]
    content: Content
    tries: int = 0
    due_ms: int = 0
    accepted: tuple[str, ...] = ()
    """Recipients that have it; they do not get it again."""
    refused: tuple[tuple[str, str], ...] = ()
    """Recipients that never will, and why."""

    @property
    def is_given_up(self) -> bool:
        """Whether it was put off for a day."""
        return sum(map(pause_ms, range(1, self.tries))) >= _GIVEN_UP_AFTER_MS

    def put_off(self, now_ms: int) -> Message:
        """The same, to be tried again later."""
        return replace(self, tries=self.tries + 1, due_ms=now_ms + pause_ms(self.tries + 1))


class Outcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of a message, until its notices say so."""

    message: str
    notices: tuple[str, ...]
    state: NoticeState
    error: str
    at_ms: int
    tries: int = 0
    due_ms: int | None = None
    """When it is tried again, where it was put off."""


class ChannelState(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a channel is. One sender has it at a time, and every step is one write of the whole."""

    channel: str
    owner: str = ""
    """The process that sends for it; empty: none. One that is gone is replaced."""
    step: int = 0
    """Grows with each write, so that one which was long on its way changes nothing any more."""
    messages: tuple[Message, ...] = ()
    """On their way."""
    done: tuple[Outcome, ...] = ()
    last_sent_ms: int = 0
    failing: bool = False
    """Whether the last message that ended has failed for good, for one of its recipients at least."""


def pause_ms(tries: int) -> int:
    """How long a message waits that has been put off so often: 10 s, 20 s, ... 1 h."""
    return int(min(_FIRST_PAUSE_MS << min(tries - 1, 20), _LONGEST_PAUSE_MS))


def wait_ms(message: Message, now_ms: int) -> int:
    """For how long the message is not to be tried. Another manager's clock may be ahead: no longer than its pause."""
    return 0 if not message.tries else max(0, min(message.due_ms - now_ms, pause_ms(message.tries)))


def quiet_ms(last_sent_ms: int, now_ms: int) -> int:
    """For how long the channel says nothing more. What was sent in the future was sent by a clock that is ahead."""
    return EVERY_MS - (now_ms - last_sent_ms) if 0 <= now_ms - last_sent_ms < EVERY_MS else 0


def rest_ms(state: ChannelState, now_ms: int, *, more_wait: bool) -> int:
    """For how long there is nothing to do for the channel. ``more_wait``: notices that are in no message."""
    if state.done:
        return 0
    if (quiet := quiet_ms(state.last_sent_ms, now_ms)) > 0:
        return quiet
    if not state.messages or (more_wait and may_begin(state.messages)):
        return 0
    return min(wait_ms(one, now_ms) for one in state.messages)


def may_begin(messages: Sequence[Message]) -> bool:
    """Whether another message may be put together beside those that are on their way."""
    return not messages or (len(messages) == 1 and messages[0].tries >= STUCK)


def message_id(first: Notice) -> str:
    """Of the message that begins with this notice; another one for each time that it is sent again by hand."""
    return first.id if not first.resends else f"{first.id}-{first.resends}"


def joined(notices: Sequence[Notice]) -> Notice:
    """What notices of one channel, oldest first, come to: one as it is, several as a digest."""
    first = notices[0]
    if len(notices) == 1:
        return first
    told = tuple(one for notice in notices for one in notice.told)
    counts: Counter[tuple[EventKind, str | None]] = Counter()
    for notice in notices:
        counts.update({(group.kind, group.worker): group.count for group in groups_of(notice)})
    if len(counts) > MOST_GROUPS:
        counts = _by_kind_alone(counts)
    groups = tuple(Group(kind=kind, worker=worker, count=n) for (kind, worker), n in counts.most_common())
    kinds = {notice.kind for notice in notices}
    is_one = len(kinds) == 1 and (not told or NoticeKind.REPEAT in kinds)
    kind = kinds.pop() if is_one else NoticeKind.DIGEST
    return replace(first, kind=kind, told=told[:MOST_TOLD], groups=groups)


def groups_of(notice: Notice) -> tuple[Group, ...]:
    """All its events, counted by kind and worker."""
    if notice.groups:
        return notice.groups
    counts = Counter((told.event.kind, told.event.worker) for told in notice.told)
    return tuple(Group(kind=kind, worker=worker, count=n) for (kind, worker), n in counts.items())


def _by_kind_alone(counts: Counter[tuple[EventKind, str | None]]) -> Counter[tuple[EventKind, str | None]]:
    found: Counter[tuple[EventKind, str | None]] = Counter()
    for (kind, _), count in counts.items():
        found[kind, None] += count
    return found
