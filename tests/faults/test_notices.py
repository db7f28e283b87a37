"""Senders that die: everything is told, and twice only what a server had taken and nobody had noted."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.chaos.scenarios.notices import telling
from tests.support.waiting import wait_until

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


async def test_sender_frozen_before_it_sends_does_not_send_what_another_has_sent_meanwhile(tmp_path: Path) -> None:
    async with telling(tmp_path, channels=1, managers=2, managers_started=1) as story:
        frozen, successor = story.cluster.managers
        await story.restart(frozen, failpoint="before_notice_sent:stop")
        (notice,) = await story.put(1)
        assert frozen.popen is not None
        process = psutil.Process(frozen.popen.pid)
        await wait_until(lambda: process.status() == psutil.STATUS_STOPPED, description="it is frozen")
        successor.start()
        await story.all_told()
        process.resume()
        await wait_until(lambda: "is over: the lease is gone" in frozen.log, description="it knows that it was away")
        await frozen.end()  # in good order, so what it was about to do is done
        assert story.receiver.ids == [notice.id]


async def test_whatever_breaks_while_notices_come_everything_is_told(tmp_path: Path) -> None:
    async with telling(tmp_path, channels=8, managers=2) as story:
        await story.under_faults(events=60, faults=3, seed=26)
        assert await story.violations() == []
