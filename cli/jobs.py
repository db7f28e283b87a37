"""`etcron job`: the command line of the group, and the commands that need no more than a call."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from cli import job_fires, job_running, job_saving
from cli.arguments import Parser, Verbs, add_command, add_group, add_output, add_reason, add_server, count, revision
from cli.client import Client, Document, fits_a_path, go_through, if_match, job_path
from cli.errors import CommandError, ExitStatus
from cli.job_fires import waits_of
from cli.job_views import (
    change_lines,
    differences,
    print_deleted,
    print_job,
    print_jobs,
    print_spec,
    print_versions,
)
from cli.printing import print_json, say, say_where_cut, tell, warn

_SORTS = {"name": "name", "next": "next", "last-failure": "-failure", "duration": "-duration"}
"""As the API has them: the newest failure and the longest run first."""
_STATES = ("enabled", "paused", "broken", "running", "failing")


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron job", "Jobs: save, look at, run, end, apply from files, go back to versions.")
    job_saving.add_to(verbs)
    _add_looking(verbs)
    job_fires.add_to(verbs)
    _add_switching(verbs)
    job_running.add_to(verbs)
    _add_applying(verbs)
    _add_versions(verbs)
    return group


def _add_looking(verbs: Verbs) -> None:
    listing = add_command(
        verbs, "list", _list, does="list jobs with their next fire and last result",
        examples=("etcron job list --state failing", "etcron job list --label team=billing -o json",
                  "etcron job list --sort duration --limit 10", "etcron job list --deleted"),
    )  # fmt: skip
    listing.add_argument("-q", metavar="TEXT", help="only with this text in name or command")
    listing.add_argument("--label", action="append", metavar="K[=V]", help="only with this label (repeatable)")
    listing.add_argument("--state", choices=_STATES, help="only in this state")
    listing.add_argument(
        "--sort", choices=tuple(_SORTS), default="name",
        help="in this order: name, the next fire first, the last failure first, the longest run first (name)",
    )  # fmt: skip
    listing.add_argument("--reverse", action="store_true", help="the other way round")
    listing.add_argument(
        "--deleted", action="store_true", help="deleted jobs, the last first; `restore` brings one back"
    )
    listing.add_argument("--limit", type=count(1, 1_000_000), metavar="N", help="the first N (all)")
    show = add_command(
        verbs, "show", _show, does="show a job: its state, its last run, every field",
        examples=("etcron job show backup", "etcron job show backup -o json | jq .spec > backup.json"),
    )  # fmt: skip
    show.add_argument("name", metavar="NAME")
    for command in (listing, show):
        add_server(command)
        add_output(command)


def _add_switching(verbs: Verbs) -> None:
    delete = add_command(
        verbs, "delete", _delete, does="delete jobs; their runs go on, and their records stay",
        examples=("etcron job delete old-report", "etcron job delete backup --if-match 1234"),
    )  # fmt: skip
    delete.add_argument("--if-match", type=revision, metavar="REV", help="only at this revision")
    pause = add_command(
        verbs, "pause", _pause, does="pause jobs; their runs go on",
        examples=("etcron job pause backup report --reason 'the disk is being replaced'",),
    )  # fmt: skip
    resume = add_command(
        verbs, "resume", _resume, does="resume paused jobs, from now on", examples=("etcron job resume backup",)
    )
    kill = add_command(
        verbs, "kill", _kill, does="end all runs of jobs; the next fires come as planned",
        examples=("etcron job kill backup --reason 'it hangs'",),
    )  # fmt: skip
    unblock = add_command(
        verbs, "unblock", _unblock, does="let jobs fire again that a wrong clock has blocked",
        examples=("etcron job unblock backup --reason 'the clock of host-3 was in 2031'",),
    )  # fmt: skip
    unblock.add_argument("--force", action="store_true", help="though NTP does not keep the manager's clock")
    for command in (pause, resume, kill, unblock):
        add_reason(command)
    for command in (delete, pause, resume, kill, unblock):
        command.add_argument("names", metavar="NAME", nargs="+")
        add_server(command)


def _add_versions(verbs: Verbs) -> None:
    versions = add_command(
        verbs, "versions", _versions, does="list a job's versions, who made them and when; or show one",
        examples=("etcron job versions backup", "etcron job versions backup 1234"),
    )  # fmt: skip
    versions.add_argument("name", metavar="NAME")
    versions.add_argument("revision", nargs="?", metavar="REV", help="show this one, and how the job differs from it")
    versions.add_argument("--limit", type=count(1, 100_000), default=20, metavar="N", help="at most N (20)")
    restore = add_command(
        verbs, "restore", _restore, does="bring a version of a job back, or a deleted job",
        examples=("etcron job restore backup 1234",),
    )  # fmt: skip
    restore.add_argument("name", metavar="NAME")
    restore.add_argument(
        "revision", nargs="?", metavar="REV", help="as `etcron job versions NAME` lists it (of a deleted job: its last)"
    )
    restore.add_argument("--if-match", type=revision, metavar="REV", help="only while it is at this one")
    for command in (versions, restore):
        add_server(command)
        add_output(command)


def _add_applying(verbs: Verbs) -> None:
    apply = add_command(
        verbs, "apply", _apply, does="make jobs match files (YAML or JSON); one mistake changes nothing",
        examples=(
            "etcron job apply -f jobs/ --dry-run",
            "etcron job apply -f jobs/ --owner billing --prune",
            "etcron job show backup -o json | jq .spec | etcron job apply -f - --dry-run",
        ),
    )  # fmt: skip
    apply.add_argument(
        "-f", "--file", dest="files", action="append", nargs="+", required=True, metavar="FILE",
        help="a file, a folder (with what is below it), or - for stdin (repeatable)",
    )  # fmt: skip
    apply.add_argument("--dry-run", action="store_true", help="only show what would change, and the next fires")
    apply.add_argument(
        "--owner", metavar="NAME", help="label the jobs etcron/owner=NAME; a job of another owner is refused"
    )
    apply.add_argument(
        "--prune", action="store_true", help="delete the owner's jobs that are in no file (needs --owner)"
    )
    apply.add_argument(
        "--yes",
        type=int,
        metavar="N",
        help="delete exactly N jobs, where --prune asks as they are more than 5, or 1 in 5",
    )
    add_server(apply)
    add_output(apply)


# Looking


def _list(arguments: argparse.Namespace) -> int:
    warnings: list[str] = []
    query = {"q": arguments.q, "label": arguments.label, "state": arguments.state, "sort": _sort(arguments)}
    with Client.of(arguments) as client:
        if arguments.deleted:
            return _list_deleted(client, arguments)
        rows = list(client.items("/api/v1/jobs", query, limit=arguments.limit, warnings=warnings))
    if arguments.output == "json":
        print_json(rows)
    else:
        print_jobs(rows, sort=arguments.sort)
        say_where_cut(len(rows), arguments.limit)
    warn(warnings)
    return ExitStatus.OK


def _sort(arguments: argparse.Namespace) -> str | None:
    """None: by name, as every manager lists them."""
    sort = _SORTS[arguments.sort]
    if arguments.reverse:
        sort = sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"
    return None if sort == "name" else sort


def _list_deleted(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.q or arguments.label or arguments.state or _sort(arguments):
        raise CommandError("--deleted: goes without -q, --label, --state and --sort", ExitStatus.USAGE)
    rows = list(client.items("/api/v1/deleted-jobs", {}, limit=arguments.limit, warnings=[]))
    if arguments.output == "json":
        print_json(rows)
    else:
        print_deleted(rows)
    return ExitStatus.OK


def _show(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        row = client.get(job_path(arguments.name))
        waits = [] if arguments.output == "json" else waits_of(client, arguments.name)
    if arguments.output == "json":
        print_json(row)
    else:
        print_job(row, waits)
    warn(row.get("warnings") or ())
    return ExitStatus.OK


# Switching


def _delete(arguments: argparse.Namespace) -> int:
    headers = if_match(arguments.if_match) if arguments.if_match else {}

    def delete(client: Client, name: str) -> str:
        if not headers and not fits_a_path(name):
            # A key that another program has put among the jobs may have any name, also one that no path can hold.
            (result,) = client.post("/api/v1/jobs/bulk", {"action": "delete", "names": [name]})["results"]
            if not result["ok"]:
                raise CommandError(str(result["message"]), ExitStatus.NOT_FOUND)
            return f"{name!a}: deleted"
        done = client.call("DELETE", job_path(name), headers=headers).document
        if not done["deleted"]:
            raise CommandError(f"there is no job {name}", ExitStatus.NOT_FOUND)
        warn(done.get("warnings") or ())
        return f"{name}: deleted"

    return _each(arguments, delete)


def _pause(arguments: argparse.Namespace) -> int:
    return _each(arguments, _switched("pause", "paused", "was paused already", arguments.reason))


def _resume(arguments: argparse.Namespace) -> int:
    return _each(arguments, _switched("resume", "resumed", "was not paused", arguments.reason))


def _unblock(arguments: argparse.Namespace) -> int:
    also = {"force": True} if arguments.force else {}
    done = "fires again, from now on"
    return _each(arguments, _switched("unblock", done, "was not blocked", arguments.reason, also))


def _switched(
    verb: str, done: str, was: str, reason: str | None, also: Document | None = None
) -> Callable[[Client, str], str]:
    def switch(client: Client, name: str) -> str:
        answer = client.post(job_path(name, verb), _reason(reason) | (also or {}))
        warn(answer.get("warnings") or ())
        return f"{name}: {done if answer['changed'] else was}"

    return switch


def _kill(arguments: argparse.Namespace) -> int:
    def kill(client: Client, name: str) -> str:
        answer = client.post(job_path(name, "kill"), _reason(arguments.reason))
        if not answer["killed"] and client.find(job_path(name)) is None:  # of a deleted job something may still run
            raise CommandError(f"there is no job {name}, and no run of that name was going", ExitStatus.NOT_FOUND)
        return "\n".join([str(answer["message"]), *(f"  {run}" for run in answer["killed"])])

    return _each(arguments, kill)


def _each(arguments: argparse.Namespace, act: Callable[[Client, str], str]) -> int:
    with Client.of(arguments) as client:
        return go_through(arguments.names, lambda name: act(client, name))


def _reason(reason: str | None) -> Document:
    return {} if reason is None else {"reason": reason}


# Versions


def _versions(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        if arguments.revision is not None:
            return _one_version(client, arguments)
        versions = client.get(job_path(arguments.name, "versions"))["items"][: arguments.limit]
    if arguments.output == "json":
        print_json(versions)
    else:
        print_versions(versions)
    return ExitStatus.OK


def _one_version(client: Client, arguments: argparse.Namespace) -> int:
    version = client.get(job_path(arguments.name, "versions", arguments.revision))
    if arguments.output == "json":
        print_json(version)
        return ExitStatus.OK
    there = client.find(job_path(arguments.name))
    print_spec(version.get("spec") or {})
    if there is None:
        say(f"there is no job {arguments.name} now")
        return ExitStatus.OK
    changes = differences(version.get("spec") or {}, there.get("spec") or {})
    tell()
    tell("the job is the same now" if not changes else f"since then (revision {there['revision']} now):")
    for line in change_lines(changes, indent="  "):
        tell(line)
    return ExitStatus.OK


def _restore(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        revision, version = arguments.if_match, arguments.revision
        if revision is None or version is None:
            there = client.find(job_path(arguments.name))
            revision = revision if revision is not None else there["revision"] if there else 0
            if version is None and there:
                raise CommandError(f"{arguments.name} is there: say which version, e.g. one of "
                                   f"`etcron job versions {arguments.name}`", ExitStatus.USAGE)  # fmt: skip
        if version is None:
            version = str(client.get(job_path(arguments.name, "versions"))["items"][0]["revision"])
        path = job_path(arguments.name, "versions", version, "restore")
        done = client.post(path, headers=if_match(revision))
    if arguments.output == "json":
        print_json(done)
    else:
        now = (done.get("job") or {}).get("revision")
        tell(f"{arguments.name}: restored from revision {version}" + (f" as {now}" if now else ""))
    warn(done.get("warnings") or ())
    return ExitStatus.OK


# Applying


def _apply(arguments: argparse.Namespace) -> int:
    from cli.manifests.applying import apply

    return apply(arguments)
