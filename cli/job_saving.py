"""`etcron job save`: one job from flags, from a file, or from what it is now."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from cli.arguments import Verbs, add_command, add_output, add_server, pairs_of, revision, seconds
from cli.client import Answer, Client, Document, ProblemError, if_match, job_path
from cli.errors import CommandError, ExitStatus
from cli.job_views import change_lines, differences, is_by_the_clock, why_no_fire
from cli.printing import print_json, say, tell, warn

_FIELDS: Final = {
    "command": ("--command", "COMMAND"), "cronExpr": ("--cron", "EXPR"), "every": ("--every", "TIME"),
    "after": ("--after", "TIME"), "at": ("--at", "ISO"), "timezone": ("--tz", "ZONE"),
    "overlap": ("--overlap", "POLICY"),
}  # fmt: skip
"""The flags of fields; the fields themselves have what they mean."""
_TRIGGERS: Final = ("cronExpr", "every", "after", "at")
_OF_ONE_TRIGGER: Final = {"offset": "every"}
"""Fields that stand beside one trigger alone, and go with it."""


def add_to(verbs: Verbs) -> None:
    """The command's own command line."""
    save = add_command(
        verbs, "save", _save, does="create a job, or replace it; with --edit change only what is given",
        examples=(
            "etcron job save backup --command '/usr/local/bin/backup' --cron '0 30 2 * * * *' --tz Europe/Berlin",
            "etcron job save backup --edit --timeout 600 --label team=ops --set misfire.policy=skip",
            "etcron job save -f backup.json",
        ),
    )  # fmt: skip
    save.add_argument("name", metavar="NAME", nargs="?", help="may be left out where the file has it")
    flags = {
        field: save.add_argument(flag, dest=f"field_{field}", metavar=metavar)
        for field, (flag, metavar) in _FIELDS.items()
    }
    flags["timeoutSeconds"] = save.add_argument("--timeout", type=seconds, metavar="SECONDS")
    flags["env"] = save.add_argument("--env", action="append", metavar="K=V")
    flags["labels"] = save.add_argument("--label", action="append", metavar="K=V")
    save.explain = lambda: _explain(flags)
    save.add_argument(
        "--set", action="append", metavar="FIELD=VALUE", help="any other field, JSON or a text, e.g. misfire.limit=3"
    )
    state = save.add_mutually_exclusive_group()
    state.add_argument(
        "--paused", dest="enabled", action="store_false", default=None, help="it does not fire until it is resumed"
    )
    state.add_argument(
        "--enabled", dest="enabled", action="store_true", default=None, help="it fires, even if it was paused"
    )
    save.add_argument("-f", "--file", metavar="FILE", help="a job in JSON or YAML (- for stdin); flags come on top")
    how = save.add_mutually_exclusive_group()
    how.add_argument("--edit", action="store_true", help="change the existing job, and only what is given")
    how.add_argument("--create", action="store_true", help="refuse (status 4) if a job of this name exists")
    how.add_argument("--if-match", type=revision, metavar="REV", help="only while the job is at this revision")
    add_server(save)
    add_output(save)


def _explain(flags: Mapping[str, argparse.Action]) -> None:
    """What the fields mean, by the definition of a job; that takes a while to load, and only a help needs it."""
    from common.jobs.job import JobSpec
    from common.jobs.kinds import Choice, members_of

    for field, flag in flags.items():
        member = members_of(JobSpec)[field]
        if isinstance(member.kind, Choice):
            more = f": {member.kind.limits}"
        else:
            more = " (repeatable)" if isinstance(member.example, dict) else f"; e.g. {member.example}"
        flag.help = f"{member.meaning}{more}".replace("`", "").replace("%", "%%")


def _save(arguments: argparse.Namespace) -> int:
    given = _given(arguments)
    name = given.get("name")
    if not isinstance(name, str):
        raise CommandError("name: is missing; write `etcron job save NAME ...`", ExitStatus.USAGE)
    with Client.of(arguments) as client:
        document, headers = _intended(client, name, given, arguments)
        try:
            answer = client.call("PUT", job_path(name), without_nulls(document), headers=headers)
        except ProblemError as error:
            if arguments.create and error.document.get("code") == "stale-revision":
                raise CommandError(
                    f"there is a job {name} already; change it without --create", error.status
                ) from error
            raise
    _tell(name, answer, arguments.output, is_zone_named=document.get("timezone") is not None)
    return ExitStatus.OK


def _intended(
    client: Client, name: str, given: Document, arguments: argparse.Namespace
) -> tuple[Document, dict[str, str]]:
    """What to save, and the headers that say on which condition.

    Where ``enabled`` is not given the job stays paused or enabled: an edit never resumes a paused job by the way.
    """
    if arguments.create:
        return given, if_match(0)
    there = client.get(job_path(name)) if arguments.edit else client.find(job_path(name))
    spec: Document = (there or {}).get("spec") or {}
    headers = if_match(arguments.if_match) if arguments.if_match else {}
    if arguments.edit:
        return merged(spec, given), if_match(there["revision"])
    if "enabled" in given or spec.get("enabled") is not False:
        return given, headers
    return {**given, "enabled": False}, headers or if_match(there["revision"])


def merged(spec: Document, given: Document) -> Document:
    """The spec with the given fields on top: objects member by member, a new trigger instead of the old one.

    What belongs to a trigger stays while that does, whichever of the two is given first.
    """
    new = [trigger for trigger in _TRIGGERS if given.get(trigger) is not None]
    gone = {trigger for trigger in _TRIGGERS if new and trigger not in new}
    gone |= {field for field, trigger in _OF_ONE_TRIGGER.items() if trigger in gone}
    return _on_top({field: value for field, value in spec.items() if field not in gone}, given)


def _on_top(below: Document, given: Document) -> Document:
    result = dict(below)
    for field, value in given.items():
        old = result.get(field)
        result[field] = _on_top(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def without_nulls(document: Document) -> Document:
    """A field that is null is one that is not given: it takes its default."""
    return {
        field: without_nulls(value) if isinstance(value, dict) else value
        for field, value in document.items()
        if value is not None
    }


def _given(arguments: argparse.Namespace) -> Document:
    """What file and flags say of the job."""
    given: Document = {}
    if path := arguments.file:
        from cli.manifests.files import read_manifests

        found = read_manifests([path])
        if len(found) != 1:
            message = f"{path}: has {len(found)} jobs; save takes one, `etcron job apply -f {path}` takes several"
            raise CommandError(message, ExitStatus.USAGE)
        given = dict(found[0].document)
    if arguments.name is not None:
        given["name"] = arguments.name
    flags = {field: getattr(arguments, f"field_{field}") for field in _FIELDS}
    flags |= {"timeoutSeconds": arguments.timeout, "enabled": arguments.enabled}
    flags |= {"env": pairs_of("--env", arguments.env), "labels": pairs_of("--label", arguments.label)}
    given = merged(given, {field: value for field, value in flags.items() if value not in (None, {})})
    for text in arguments.set or ():
        given = merged(given, setting(text))
    return given


def setting(text: str) -> Document:
    """`misfire.limit=3` as {"misfire": {"limit": 3}}; a value that is not JSON is a text."""
    path, equals, raw = text.partition("=")
    names = path.split(".", 1)
    if not equals or not all(names):
        raise CommandError(f"--set: {text!r} names no field; write --set FIELD=VALUE", ExitStatus.USAGE)
    value: Any = raw
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(raw)
        json.dumps(found, allow_nan=False)  # Python's own reader takes NaN and 1e999
        value = found
    for name in reversed(names):
        value = {name: value}
    return dict(value)


def _tell(name: str, answer: Answer, output: str, *, is_zone_named: bool) -> None:
    document = answer.document
    warn(document.get("warnings") or ())
    if output == "json":
        print_json(document)
        return
    job = document.get("job") or {}
    done = "created" if answer.status == 201 else "changed" if document["changed"] else "unchanged"
    tell(f"{name}: {done}" + (f" (revision {job['revision']})" if job else ""))
    if done == "changed":
        for line in change_lines(differences(document.get("before") or {}, job.get("spec") or {}), indent="  "):
            tell(line)
    spec = job.get("spec") or {}
    if (zone := spec.get("timezone")) and is_by_the_clock(spec):
        say(f"time zone: {zone}" + ("" if is_zone_named else " (defaultTimezone of the managers; --tz names another)"))
    fire = job.get("nextFire")
    say(f"next fire: {fire['local'].replace('T', ' ')}" if fire else f"no next fire: {why_no_fire(job)}")
