"""Senders that die: everything is told, and twice only what a server had taken and nobody had noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.scenarios.notices import telling

pytestmark = pytest.mark.slow


async def test_sender_killed_between_the_server_s_answer_and_its_note_tells_it_once_more_with_the_same_id(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path, channels=1, managers=2, managers_started=1) as story:
        await story.restart(story.cluster.managers[0], failpoint="after_notice_sent:kill")
        (notice,) = await story.put(1)
        await story.died(story.cluster.managers[0])
        story.cluster.managers[1].start()
        await story.all_told()
        assert story.receiver.ids == [notice.id] * 2
        assert story.receiver.got[0].raw == story.receiver.got[1].raw


async def test_whatever_breaks_while_notices_come_everything_is_told(tmp_path: Path) -> None:
    async with telling(tmp_path, channels=8, managers=2) as story:
        await story.under_faults(events=60, faults=3, seed=26)
        assert await story.violations() == []
