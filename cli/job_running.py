"""`etcron job run`: a run at once (or at an instant), and, where wished, the wait for its end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Final

from cli.arguments import Verbs, add_command, add_output, add_reason, add_server, count, pairs_of
from cli.client import PATIENCE_S, Client, Document, Patience, job_path, run_path
from cli.errors import CommandError, ExitStatus
from cli.printing import one_line, print_json, print_output, say, tell
from cli.runs import verdict, why
from cli.times import parse_iso, took

_FIRST_LOOK_S: Final = 0.1
_LONGEST_LOOK_S: Final = 2.0
_SOON_S: Final = 5.0
"""For so long nobody wonders where the record of a run that has ended stays."""


def add_to(verbs: Verbs) -> None:
    """The command's own command line."""
    run = add_command(
        verbs, "run", _run, does="run a job now, whatever its schedule says (also while it is paused)",
        examples=(
            "etcron job run backup",
            "etcron job run import --arg=--full --env LEVEL=debug --wait",
            "etcron job run report --at 2026-12-24T18:00:00+01:00",
            "etcron job run crawl --dedupe-key page-17 --dedupe-seconds 300",
        ),
    )  # fmt: skip
    run.add_argument("name", metavar="NAME")
    run.add_argument(
        "--arg", action="append", metavar="A", help="an argument for the command, e.g. --arg=--full (repeatable)"
    )
    run.add_argument("--env", action="append", metavar="K=V", help="a variable for this run alone (repeatable)")
    run.add_argument("--at", metavar="ISO", help="then, not now; this machine's time zone where it has no offset")
    run.add_argument("--dedupe-key", metavar="KEY", help="the same key within its seconds gives the same run")
    run.add_argument("--dedupe-seconds", type=count(1, 10**9), metavar="N", help="how long the key counts")
    run.add_argument(
        "--wait", action="store_true", help="wait for its end, print its output; status 1 unless it succeeded"
    )
    add_reason(run)
    add_server(run)
    add_output(run)


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.dedupe_seconds is not None) and arguments.dedupe_key is None:
        raise CommandError("--dedupe-seconds: goes with --dedupe-key KEY; give both", ExitStatus.USAGE)
    with Client.of(arguments) as client:
        at = None if arguments.at is None else parse_iso("--at", arguments.at).isoformat()
        wish = {
            "args": arguments.arg, "env": pairs_of("--env", arguments.env) or None, "at": at,
            "reason": arguments.reason, "dedupeKey": arguments.dedupe_key, "dedupeSeconds": arguments.dedupe_seconds,
        }  # fmt: skip
        said = {name: value for name, value in wish.items() if value is not None}
        answer = client.post(job_path(arguments.name, "run"), said)
        # Of a broadcast job there is one run for each worker.
        run_ids = [str(run_id) for run_id in answer.get("runIds") or [answer["runId"]]]
        if answer.get("deduplicated"):
            say(f"the same run as before: {arguments.dedupe_key} has been used within its time")
        if arguments.wait:
            return _wait(client, run_ids, as_json=arguments.output == "json")
    if arguments.output == "json":
        print_json(answer)
    else:
        tell(*run_ids)
    return ExitStatus.OK


def _wait(client: Client, run_ids: Sequence[str], *, as_json: bool) -> int:
    """Follow the runs to their verdicts. Their output goes to stdout, what became of them to stderr."""
    say(f"{', '.join(run_ids)}: waiting for the end (Ctrl-C ends the waiting, not the run)")
    runs = []
    for run_id in run_ids:
        run = wait_for_end(client, run_id)
        runs.append(run)
        if not as_json:
            print_output(str(run.get("output") or ""))
        reason = f": {why(run)}" if why(run) else ""
        on = f" on {run['worker']}" if run.get("worker") else ""
        length = f" (took {took(run['startTime'], run.get('endTime'))}{on})" if run.get("startTime") else ""
        say(one_line(f"{run_id}: {verdict(run)}{reason}{length}"))
    if as_json:
        print_json(runs[0] if len(runs) == 1 else runs)
    return ExitStatus.OK if all(run.get("status") == "success" for run in runs) else ExitStatus.NO


def wait_for_end(
    client: Client,
    run_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Document:
    """The run once it has its verdict. CommandError (unavailable) after a minute without an answer, or the record."""
    pause_s, patience, state = _FIRST_LOOK_S, Patience(monotonic), ""
    without_record = _WithoutRecord(run_id)
    while True:
        try:
            run: Document = client.get(run_path(run_id))
            patience.heard()
        except CommandError as error:
            if not patience.bears(error):
                raise CommandError(
                    f"{error}\nthe run is {run_id}: it goes on, look at it later", error.status
                ) from error
        else:
            if run.get("state") == "finished" or run.get("status"):
                return run
            without_record.seen(str(run.get("state")), patience.heard_at)
            if run.get("state") != state:
                # Each step of its life is looked at closely, a long one with patience.
                state, pause_s = str(run.get("state")), _FIRST_LOOK_S
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)


class _WithoutRecord:
    """Since when a run has ended whose verdict nobody can read yet: its record waits on a worker for the log store."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._since: float | None = None
        self._is_told = False

    def seen(self, state: str, now: float) -> None:
        """Say so once. CommandError (unavailable) after a minute of it."""
        if state != "ended":
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since > PATIENCE_S:
            raise CommandError(
                f"{self._run_id} has ended, and what became of it cannot be read: its record waits on its worker for "
                f"the log store\nlook at it later: etcron run show '{self._run_id}'",
                ExitStatus.UNAVAILABLE,
            )
        if now - self._since > _SOON_S and not self._is_told:
            self._is_told = True
            say(f"{self._run_id} has ended; its record, which has the verdict, waits for the log store")
