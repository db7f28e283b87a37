"""`etcron worker drain --wait`: until nothing goes on there any more, as before an upgrade."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from cli.client import Client, Document
from cli.errors import CommandError, ExitStatus
from cli.patience import Patience
from cli.printing import one_line, say

_LOOK_S: Final = 1.0


def wait_until_drained(
    client: Client,
    names: Iterable[str],
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Nothing goes on on these workers, or they are not live any more. What is waited for is said, each time anew.

    CommandError: one takes fires again (conflict), or nothing was heard for a minute (unavailable).
    """
    left, patience, told = set(names), Patience(monotonic), ""
    idle: dict[str, int] = {}
    while True:
        try:
            page = client.get("/api/v1/workers")
            if page.get("warnings"):  # etcd is away: what is shown is old
                raise CommandError(str(page["warnings"][0]), ExitStatus.UNAVAILABLE)
            patience.heard()
        except CommandError as error:
            if not patience.bears(error):
                raise
        else:
            workers = {one.get("name"): one for one in page["items"] if one.get("name") in left}
            left = {name for name in left if name in workers and _goes_on(workers[name], idle)}
            words = ", ".join(f"{name} ({_running(workers[name])})" for name in sorted(left))
            if not left:
                return
            if words != told:
                told = words
                say(one_line(f"waiting for what runs on {words}; Ctrl-C ends the waiting, not the drain"))
        sleep(_LOOK_S)


def _goes_on(worker: Document, idle: dict[str, int]) -> bool:
    """CommandError: somebody has undrained it. ``idle``: the beats by which workers had nothing to run any more.

    It takes two of them: the first may have been put before a run that was claimed just before the drain.
    """
    if not worker.get("drained"):
        raise CommandError(f"{worker['name']} is not drained any more: somebody has undrained it", ExitStatus.CONFLICT)
    beat = worker.get("beat")
    if worker.get("state") == "draining" or beat is None:
        idle.pop(worker["name"], None)
        return worker.get("state") == "draining"
    return bool(idle.setdefault(worker["name"], beat["wallMs"]) == beat["wallMs"])


def _running(worker: Document) -> str:
    running = (worker.get("beat") or {}).get("running")
    return "not known yet" if running is None else f"{running} running"
