"""What of notices lies in etcd: channels, rules, silences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from common.access.rights import OWNER
from common.notices.channels import CHANNEL
from common.notices.forms import Stored
from common.notices.rules import RULE
from common.notices.silences import SILENCE, AlertOf, Silence
from tests.golden.situations.changes import changes
from tests.golden.stage import NOON
from tests.support.managing import Managed

_OPS: Final = CHANNEL.read({"kind": "webhook", "url": "https://hooks.example.org/etcron"})
_ALL: Final = RULE.read({"labels": "all", "to": ["ops"]})
_HOUR: Final = Silence(jobs=("j",), from_ms=NOON, until_ms=NOON + 3_600_000, reason="repairs")


def _stored(record: Any) -> Stored[Any]:
    return Stored(record=record, created_ms=1, created_by="me", changed_ms=1)


async def a_channel(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.channel("ops"), CHANNEL.to_json(_stored(_OPS)))


async def a_rule(manager: Managed) -> None:
    await a_channel(manager)
    await manager.etcd.put(manager.keys.rule("all"), RULE.to_json(_stored(_ALL)))


async def old_silences(manager: Managed) -> None:
    over = replace(_HOUR, from_ms=1, until_ms=2)
    for number in range(2):
        await manager.etcd.put(manager.keys.silence(f"{number:012}"), SILENCE.to_json(_stored(over)))


async def a_silence(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.silence("ab"), SILENCE.to_json(_stored(_HOUR)))


async def save_channel(manager: Managed) -> None:
    await manager.parts.channels.save("ops", _OPS, by="me")


async def change_channel(manager: Managed) -> None:
    await manager.parts.channels.save("ops", replace(_OPS, description="the pager"), by="me")


async def remove_channel(manager: Managed) -> None:
    await manager.parts.channels.remove("ops", by="me")


async def save_rule(manager: Managed) -> None:
    await manager.parts.rules.save("all", _ALL, by="me", rights=OWNER)


async def remove_rule(manager: Managed) -> None:
    await manager.parts.rules.remove("all", by="me", rights=OWNER)


async def be_silent(manager: Managed) -> None:
    await manager.parts.silences.add(_HOUR, by="me", rights=OWNER)


async def acknowledge(manager: Managed) -> None:
    await manager.parts.silences.acknowledge(AlertOf(job="j", since_ms=5), reason="", by="me", rights=OWNER)


async def end_silence(manager: Managed) -> None:
    await manager.parts.silences.end("ab", by="me", rights=OWNER)


changes("channel_is_made", save_channel)
changes("channel_is_made_in_doubt", save_channel, losing=1)
changes("channel_is_changed", change_channel, prepare=a_channel)
changes("channel_that_nobody_names_is_removed", remove_channel, prepare=a_channel)
changes("channel_is_removed_in_doubt", remove_channel, prepare=a_channel, losing=1)
changes("rule_is_made_for_a_channel", save_rule, prepare=a_channel)
changes("rule_is_removed", remove_rule, prepare=a_rule)
changes("silence_is_made_and_old_ones_are_swept", be_silent, prepare=old_silences)
changes("alert_is_acknowledged", acknowledge)
changes("silence_is_ended", end_silence, prepare=a_silence)
