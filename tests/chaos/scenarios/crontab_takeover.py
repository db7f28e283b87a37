"""Debian's cron and etcron beside each other: a line of a crontab changes hands and comes back, each minute runs once.

The command writes who started it, and when. Takes six minutes.
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

LINE = "* * * * * root echo ${ETCRON_JOB:-cron} $(date +\\%s) >> "


async def etcron(*arguments: str, home: Path, server: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "ETCRON_SERVER": server,
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "cli", *arguments]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ, check=False)


async def test_each_minute_runs_once(tmp_path: Path) -> None:
    home = tmp_path / "cron"
    home.mkdir()
    tmp_path.chmod(0o755)
    home.chmod(0o755)
    prepare(home)
    evidence, crontab = tmp_path / "evidence", home / "cron.d" / "lines"
    evidence.touch()
    crontab.write_text(f'MAILTO=""\n# Each minute\n{LINE}{evidence}\n')
    daemon = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ALONE, "sh", str(home)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def started() -> list[tuple[str, int]]:
        return [(who, int(at) // 60) for who, at in map(str.split, evidence.read_text().splitlines())]

    async def until(who: str, times: int) -> None:
        before = sum(one == who for one, _ in started())
        await wait_until(
            lambda: sum(one == who for one, _ in started()) >= before + times,
            description=f"{who} has started it {times} times: {started()}", timeout=70 * times, at_most_every_s=0.2,
        )  # fmt: skip

    try:
        async with running_up(tmp_path) as up:
            sync = ("crontab", "sync", str(crontab), "--system", "--live")
            await until("cron", 1)
            took = await etcron(*sync, "--takeover", "--untested", home=tmp_path, server=up.url)
            assert took.returncode == 0, took
            assert crontab.read_text().count(TAKEN) == 1
            await until("each-minute", 2)
            gave = await etcron(*sync, "--give-back", home=tmp_path, server=up.url)
            assert gave.returncode == 0, gave
            assert crontab.read_text().count(TAKEN) == 0
            await until("cron", 2)
    finally:
        daemon.kill()
        daemon.wait()
    minutes = Counter(minute for _, minute in started())
    assert set(minutes.values()) == {1}, started()
    assert sorted(minutes) == list(range(min(minutes), max(minutes) + 1)), started()
