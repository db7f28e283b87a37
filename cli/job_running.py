"""`etcron job run`: a run at once (or at an instant), and, where wished, the wait for its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cli.arguments import Verbs, add_command, add_output, add_reason, add_server, count, pairs_of
from cli.client import Client, job_path
from cli.errors import CommandError, ExitStatus
from cli.following import follow, tell_end, wait_for_end
from cli.printing import print_json, print_output, say, tell
from cli.times import parse_iso


def add_to(verbs: Verbs) -> None:
    """The command's own command line."""
    run = add_command(
        verbs, "run", _run, does="run a job now, also while it is paused",
        examples=(
            "etcron job run backup",
            "etcron job run import --arg=--full --env LEVEL=debug --follow",
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
    run.add_argument(
        "--follow", action="store_true", help="print its output while it goes on; status 1 unless it succeeded"
    )
    add_reason(run)
    add_server(run)
    add_output(run)


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.dedupe_seconds is not None) and arguments.dedupe_key is None:
        raise CommandError("--dedupe-seconds: goes with --dedupe-key KEY; give both", ExitStatus.USAGE)
    if arguments.follow and arguments.output == "json":
        raise CommandError("--follow: prints what the run prints; leave out -o json, or give --wait", ExitStatus.USAGE)
    with Client.of(arguments) as client:
        at = None if arguments.at is None else parse_iso("--at", arguments.at).isoformat()
        wish = {
            "args": arguments.arg, "env": pairs_of("--env", arguments.env) or None, "at": at,
            "reason": arguments.reason, "dedupeKey": arguments.dedupe_key, "dedupeSeconds": arguments.dedupe_seconds,
        }  # fmt: skip
        given = {name: value for name, value in wish.items() if value is not None}
        answer = client.post(job_path(arguments.name, "run"), given)
        # Of a broadcast job there is one run for each worker.
        run_ids = [str(run_id) for run_id in answer.get("runIds") or [answer["runId"]]]
        if answer.get("deduplicated"):
            say(f"the same run as before: {arguments.dedupe_key} has been used within its time")
        if arguments.follow:
            _say_what_ctrl_c_does(run_ids)
            return max(tell_end(run_id, follow(client, run_id)) for run_id in run_ids)
        if arguments.wait:
            return _wait(client, run_ids, as_json=arguments.output == "json")
    if arguments.output == "json":
        print_json(answer)
    else:
        tell(*run_ids)
    return ExitStatus.OK


def _wait(client: Client, run_ids: Sequence[str], *, as_json: bool) -> int:
    """Follow the runs to their verdicts. Their output goes to stdout, what became of them to stderr."""
    _say_what_ctrl_c_does(run_ids)
    runs, status = [], int(ExitStatus.OK)
    for run_id in run_ids:
        run = wait_for_end(client, run_id)
        runs.append(run)
        if not as_json:
            print_output(str(run.get("output") or ""))
        status = max(status, tell_end(run_id, run))
    if as_json:
        print_json(runs[0] if len(runs) == 1 else runs)
    return status


def _say_what_ctrl_c_does(run_ids: Sequence[str]) -> None:
    say(f"{', '.join(run_ids)}: waiting for the end (Ctrl-C ends the waiting, not the run)")
