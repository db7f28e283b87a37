"""A burst on Debian's cron: its own daemon, alone in a mount and process namespace, so that it sees only our crontab.

The package is fetched and unpacked, not installed: nothing stays behind but .tools/debian-cron.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bench.evidence import Evidence
from bench.peers import NotHereError

_TOOLS: Final = Path(__file__).parents[2] / ".tools" / "debian-cron"
_LINES_A_FILE: Final = 1_000
_READS_CRONTAB_S: Final = 5
_LIMIT_S: Final = 120

# Only in this namespace: our crontab in place of the system's, its PAM service, and no trace in /run or /var/spool.
ALONE: Final = """
set -e
mount --bind "$1/cron.d" /etc/cron.d
mount --bind "$1/pam.d" /etc/pam.d
mount -t tmpfs none /run
mount -t tmpfs none /var/spool
if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi
mkdir -p /var/spool/cron/crontabs
exec "$1/cron" -f
"""


async def burst(jobs: int, evidence: Evidence) -> float:
    """Seconds from the minute at which all are due until the last has started; NotHereError, WrongError."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        prepare(home)
        moment = _minute_after(_READS_CRONTAB_S)
        _write_crontabs(home / "cron.d", moment, [evidence.command(number) for number in range(jobs)])
        daemon = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ALONE, "sh", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            await _still_there(daemon)
            due = moment.timestamp()
            await asyncio.sleep(max(0.0, due - time.time()))
            await evidence.all_started(jobs, due + _LIMIT_S)
        finally:
            daemon.kill()
            daemon.communicate()
    evidence.check(jobs)
    return evidence.last_start() - due


def prepare(home: Path) -> None:
    """The daemon and what it needs, in a folder of its own."""
    if os.geteuid() != 0:
        raise NotHereError("only root can give cron a namespace of its own")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        raise NotHereError("no namespace can be made here (unshare)")
    unpacked = _unpacked()
    shutil.copy(unpacked / "usr/sbin/cron", home / "cron")
    shutil.copytree("/etc/pam.d", home / "pam.d")
    shutil.copy(unpacked / "etc/pam.d/cron", home / "pam.d/cron")
    (home / "cron.d").mkdir()


def _unpacked() -> Path:
    """Debian's package, unpacked under .tools."""
    root = _TOOLS / "root"
    if not (root / "usr/sbin/cron").exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise NotHereError("this is no Debian (apt-get, dpkg)")
        root.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(
            ["apt-get", "--quiet", "download", "cron"], cwd=_TOOLS, capture_output=True, text=True, check=False
        )
        if fetched.returncode:
            raise NotHereError(f"apt-get download cron: {fetched.stderr.strip().splitlines()[-1:]}")
        subprocess.run(["dpkg", "-x", next(_TOOLS.glob("cron_*.deb")), root], check=True)
    return root


def _minute_after(seconds: int) -> datetime:
    """The next full minute that is at least so far away."""
    soon = datetime.now().astimezone() + timedelta(seconds=seconds + 60)
    return soon.replace(second=0, microsecond=0)


def _write_crontabs(folder: Path, moment: datetime, commands: Sequence[str]) -> None:
    """Several files: Debian's cron reads no more than 10,000 lines of one."""
    when = f"{moment.minute} {moment.hour} {moment.day} {moment.month} *"
    for start in range(0, len(commands), _LINES_A_FILE):
        lines = [f"{when} root {command}" for command in commands[start : start + _LINES_A_FILE]]
        text = "\n".join(['MAILTO=""', "SHELL=/bin/sh", *lines, ""])
        (folder / f"burst-{start // _LINES_A_FILE}").write_text(text)


async def _still_there(daemon: subprocess.Popen[bytes]) -> None:
    await asyncio.sleep(1)
    if daemon.poll() is not None:
        assert daemon.stderr is not None
        raise NotHereError(f"cron does not run here: {daemon.stderr.read().decode(errors='replace').strip()}")
