"""``python -m cli.processes.login_link CONFIG FILE``: makes a link that logs a browser in once, into FILE.

A process of its own, as `etcd_user` is. The link is in a file of its user alone, never among arguments.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from cli.processes.data_dir import write_text_privately

GOOD_FOR_S = 600


async def login_link(config: Path, file: Path) -> str | None:
    """The link, which is in the file, too; None: etcd does not take one now, or the machine is out of processes."""
    command = (sys.executable, "-P", "-m", "cli.processes.login_link", str(config), str(file))
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    except OSError:
        return None
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return printed.decode().strip() if process.returncode == 0 else None


def main(config_file: str, file: str) -> int:
    """The process."""
    from cli.admin import link_url
    from common.configuration.config import load_manager_config
    from common.errors import EtcronError
    from manager.access.recovery import make_owner_link
    from manager.access.sessions import LONGEST_S

    try:
        config = load_manager_config(Path(config_file), {})
        secret = asyncio.run(
            make_owner_link(config, reason="etcron up", good_for_s=GOOD_FOR_S, session_s=LONGEST_S)
        )  # fmt: skip
        link = link_url(config, secret)
        write_text_privately(Path(file), link)
    except EtcronError:
        return 1
    print(link)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
