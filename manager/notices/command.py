"""Channels that are a job: each message asks for one run of it, which gets the message in its environment."""

from __future__ import annotations

from typing import Final

from common.access.rights import OWNER
from common.errors import ConflictError, EtcronError, InvalidInputError, NotFoundError
from common.notices.channels import Channel
from common.notices.joining import Message
from manager.notices.ways import PutOffError, RefusedError, Result
from manager.use_cases.run_now import NoWorkerError, RunNow, Wanted

_MOST_BYTES: Final = 65_536
_DEDUPE_S: Final = 86_400


class Command:
    """The job may be run by whoever may make such a channel: the channel asks with all rights."""

    def __init__(self, run_now: RunNow) -> None:
        self._run_now = run_now

    async def send(self, name: str, channel: Channel, message: Message) -> Result:
        """As `Way`: it is accepted once the run is asked for, however often that is said."""
        job = channel.job or ""
        wanted = Wanted(
            env=environment(name, message), dedupe_key=f"notice/{message.id}", dedupe_s=_DEDUPE_S,
            reason=f"notice {message.id}",
        )  # fmt: skip
        try:
            await self._run_now.ask(job, wanted, by=f"channel {name}", rights=OWNER, address=f"channel {name}")
        except EtcronError as error:
            is_final = isinstance(error, NotFoundError | ConflictError | InvalidInputError)
            refusal = RefusedError if is_final and not isinstance(error, NoWorkerError) else PutOffError
            raise refusal(f"no run of {job} was asked for: {error}") from None
        return Result(accepted=(job,))


def environment(channel: str, message: Message) -> dict[str, str]:
    """What the run gets, at most 64 KiB: what is longest is cut, or left out where half of it is worth nothing."""
    found = {
        "ETCRON_NOTICE_ID": message.id, "ETCRON_NOTICE_CHANNEL": channel,
        "ETCRON_NOTICE_SUBJECT": message.content.subject, "ETCRON_NOTICE_TEXT": message.content.text,
    }  # fmt: skip
    left = _MOST_BYTES - sum(len(name) + len(value.encode()) for name, value in found.items())
    facts = message.content.facts
    if len("ETCRON_NOTICE_JSON") + len(facts.encode()) <= left:
        found["ETCRON_NOTICE_JSON"] = facts
    return found
