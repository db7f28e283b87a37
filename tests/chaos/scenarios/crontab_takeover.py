"""Debian's cron and etcron beside each other: lines of a crontab change hands and come back, each runs once a minute.

A command writes who started which, and for which minute. Of most lines each fire has a random delay, so that many go
on at any moment. Takes some ten minutes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.peers.debian_cron import ALONE, prepare
from common.crontab.lines import TAKEN
from tests.support.running_up import ROOT, running_up
from tests.support.waiting import wait_until

LINE = """\
# Line {0}
* * * * * root echo {0} ${{ETCRON_JOB:+etcron}} $((${{ETCRON_PLAN_MS:-$(date +\\%s)000}} / 60000)) >> {1}
"""
LINES = range(9)
AT_ONCE = "0"
"""The line without a delay."""


async def etcron(*arguments: str, home: Path, server: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": f"{home}/cron/bin:/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "ETCRON_SERVER": server,
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ, check=False)


async def test_each_minute_runs_once(tmp_path: Path) -> None:
    home = tmp_path / "cron"
    home.mkdir()
    tmp_path.chmod(0o755)
    home.chmod(0o755)
    prepare(home)
    (home / "bin").mkdir()
    (home / "bin" / "dpkg-query").write_text("#!/bin/sh\nprintf 'installed 3.0pl1'\n")  # it is unpacked, not installed
    (home / "bin" / "dpkg-query").chmod(0o755)
    evidence, crontab = tmp_path / "evidence", home / "cron.d" / "lines"
    evidence.touch()
    lines = [LINE.format(number, evidence) for number in LINES]
    crontab.write_text("".join(['MAILTO=""\n', lines[0], "RANDOM_DELAY=1\n", *lines[1:]]))
    daemon = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ALONE, "sh", str(home)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def started() -> list[tuple[str, str, int]]:
        """Line, who, and minute."""
        found = (line.split() for line in evidence.read_text().splitlines())
        return [(number, who[0] if who else "cron", int(minute)) for number, *who, minute in found]

    async def until(who: str, times: int) -> None:
        def so_far() -> int:
            return sum(one[:2] == (AT_ONCE, who) for one in started())

        before = so_far()
        await wait_until(
            lambda: so_far() >= before + times, description=f"{who} has started it {times} times: {started()}",
            timeout=70 * times, at_most_every_s=0.2,
        )  # fmt: skip

    try:
        async with running_up(tmp_path) as up:
            sync = ("crontab", "sync", str(crontab), "--system", "--live")
            await until("cron", 1)
            took = await etcron(*sync, "--takeover", "--untested", home=tmp_path, server=up.url)
            assert took.returncode == 0, took
            assert crontab.read_text().count(TAKEN) == len(LINES)
            await until("etcron", 2)
            gave = await etcron(*sync, "--give-back", home=tmp_path, server=up.url)
            assert gave.returncode == 0, gave
            assert "has a random delay, and starts by" in gave.stderr
            assert "neither runs it" not in gave.stderr
            assert crontab.read_text().count(TAKEN) == 0
            await until("cron", 2)
    finally:
        daemon.kill()
        daemon.wait()
    for number in LINES:
        minutes = Counter(minute for one, _, minute in started() if one == str(number))
        assert set(minutes.values()) == {1}, (number, started())
        assert sorted(minutes) == list(range(min(minutes), max(minutes) + 1)), (number, started())
