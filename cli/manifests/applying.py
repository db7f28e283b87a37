"""Applying: read the files, check everything, show the plan or carry it out."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cli.client import Client, ProblemError, error_lines
from cli.errors import CommandError, ExitStatus
from cli.job_views import change_lines
from cli.manifests.carrying import carry_out, check, make_plan, pruned_fires
from cli.manifests.files import Manifest, read_manifests
from cli.manifests.plan import Action, Step, Wanted, adopted, pruned_with_care, with_owner
from cli.manifests.records import FORMS, RecordStep, by_channels_of_files, channels_of, plan_records, save
from cli.printing import complain, one_line, print_json, quoted, tell, warn
from cli.progress import tracked

_SHOWN = 50
_NAMED = 10
_SIGNS: Final = {Action.CREATE: "+", Action.CHANGE: "~", Action.KEEP: "=", Action.PRUNE: "-"}
_TO_DO: Final = {
    Action.CREATE: "to create", Action.CHANGE: "to change", Action.KEEP: "unchanged", Action.PRUNE: "to prune",
}  # fmt: skip
_RESULTS: Final = ("created", "changed", "unchanged", "pruned", "failed", "not pruned")


def apply(arguments: argparse.Namespace) -> int:
    """`etcron job apply`; its exit status."""
    if arguments.prune and not arguments.owner:
        raise CommandError("--prune: needs --owner NAME, which says whose jobs may be deleted", ExitStatus.USAGE)
    if arguments.yes is not None and not arguments.prune:
        raise CommandError("--yes: says how many jobs --prune may delete, which is not given", ExitStatus.USAGE)
    manifests = read_manifests([path for paths in arguments.files for path in paths])
    with Client.of(arguments) as client:
        records, mistakes = plan_records(client, manifests)
        wanted = _checked(client, manifests, arguments.owner, mistakes)
        steps = make_plan(client, wanted, owner=arguments.owner, prune=arguments.prune)
        if names := adopted(steps):
            now = "would belong" if arguments.dry_run else "now belongs" if len(names) == 1 else "now belong"
            warn([f"had no owner, and {now} to {arguments.owner}: {_named(names)}"])
        if arguments.dry_run:
            _show(client, steps, records, as_json=arguments.output == "json")
            return ExitStatus.OK
        if arguments.yes != len(names := pruned_with_care(steps)) and names:
            raise CommandError(
                f"nothing was changed: this would delete {len(names)} of {arguments.owner}'s jobs: {_named(names)}\n"
                f"See them with --dry-run. To delete them, add --yes {len(names)}",
                ExitStatus.REFUSED,
            )
        return _carry_out(client, steps, records, as_json=arguments.output == "json")


def _show(client: Client, steps: Sequence[Step], records: Sequence[RecordStep], *, as_json: bool) -> None:
    """What would be done."""
    for step in (one for one in steps if one.action is Action.PRUNE):
        warn(f"{step.name}: {skipped}" for skipped in pruned_fires(client, step))
    if as_json:
        print_json(_document(steps, records, {}, is_dry=True))
        return
    for record in (one for one in records if one.action is not Action.KEEP):
        tell(f"{_SIGNS[record.action]} {record.title}  ({record.place})")
        tell(*(one_line(line) for line in change_lines(record.changes, indent="    ")))
    for step in steps:
        if step.action is not Action.KEEP:
            tell(*step_lines(step))
    tell(plan_summary([*records, *steps]))


def _checked(
    client: Client, manifests: Sequence[Manifest], owner: str | None, mistakes: list[str]
) -> list[Wanted]:  # fmt: skip
    """The jobs, once the manager has found nothing wrong with any of them. CommandError with every mistake.

    ``mistakes``: those in channels and rules.
    """
    wanted, channels = [], channels_of(manifests)
    for manifest in tracked([one for one in manifests if one.kind == "jobs"], "checking"):
        try:
            document = with_owner(manifest.document, owner)
        except ValueError as error:
            mistakes.append(f"{manifest.place_of('labels')}: {manifest.name}: {error}")
            continue
        one = Wanted(name=manifest.name, document=document, place=manifest.place)
        errors, warnings = check(client, one)
        errors = by_channels_of_files(errors, document, channels)
        mistakes += [
            f"{manifest.place_of(str(one_error.get('field')))}: {manifest.name}: {line}"
            for one_error, line in zip(errors, error_lines(errors), strict=True)
        ]
        warn(f"{manifest.place}: {manifest.name}: {warning}" for warning in warnings)
        wanted.append(one)
    if mistakes:
        more = [f"... and {len(mistakes) - _SHOWN} more"] if len(mistakes) > _SHOWN else []
        raise CommandError("\n".join(["nothing was changed:", *mistakes[:_SHOWN], *more]), ExitStatus.REFUSED)
    return wanted


def _carry_out(
    client: Client, steps: Sequence[Step], records: Sequence[RecordStep], *, as_json: bool
) -> int:  # fmt: skip
    results: dict[str, str] = {}
    saved: dict[str, str] = {}
    for record in tracked(records, "saving"):
        try:
            saved[record.title], warnings = save(client, record)
        except ProblemError as error:
            raise CommandError(f"{record.place}: {record.title}: {error}\nno job was changed", error.status) from error
        warn(f"{record.place}: {record.title}: {warning}" for warning in warnings)
        if saved[record.title] != "unchanged" and not as_json:
            tell(f"{record.title}: {saved[record.title]}")

    def done(step: Step, result: str) -> None:
        results[step.name] = result
        if result != "unchanged" and not as_json:
            tell(f"{step.name}: {result}")

    try:
        failed = carry_out(client, steps, done=done)
    except CommandError as error:
        message = (
            f"{error}\n{len(results)} of {len(steps)} jobs were done ({outcome(results)}); apply again for the rest"
        )
        raise CommandError(message, error.status) from error
    for one in failed:
        complain(f"{one.step.place or 'prune'}: {one.step.name}: {one.error}")
    if failed:
        saves = any(one.step.action is not Action.PRUNE for one in failed)
        complain("nothing was pruned, as not all jobs could be saved" if saves else "see above")
    results |= {one.step.name: "failed" for one in failed}
    results |= {step.name: "not pruned" for step in steps if step.name not in results}
    if as_json:
        print_json(_document(steps, records, results | saved, is_dry=False))
    else:
        tell(outcome(results | saved))
    return failed[0].error.status if failed else ExitStatus.OK


# The plan, and what became of it, as text and as JSON


def step_lines(step: Step) -> list[str]:
    """One step: what changes field by field, and the next fires as they were and as they will be."""
    place = f"  ({step.place})" if step.place else ""
    lines = [f"{_SIGNS[step.action]} {step.name}{place}"]
    match step.action:
        case Action.CREATE:
            lines += [f"    {field}: {quoted(value)}" for field, _, value in step.changes]
            lines += _fires("next fires", step.fires_after, step.state_after)
        case Action.CHANGE:
            lines += change_lines(step.changes, indent="    ")
            if not step.changes:
                lines.append("    its fields cannot be compared here: the manager does it")
            if step.fires_before != step.fires_after:
                lines += _fires("next fires, now: ", step.fires_before, step.state_before)
                lines += _fires("next fires, then:", step.fires_after, step.state_after)
        case Action.PRUNE:
            lines += _fires("fires no more:", step.fires_before, step.state_before)
        case _:
            pass
    return [one_line(line) for line in lines]


def _named(names: Sequence[str]) -> str:
    """The first of them by name; of the others how many."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _document(
    steps: Iterable[Step], records: Iterable[RecordStep], results: Mapping[str, str], *, is_dry: bool
) -> Mapping[str, Any]:
    """The plan, and what became of it. A record's result is by its title, which no job can have for a name."""
    of_records: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in FORMS}
    for one in records:
        of_records[one.kind].append({
            "name": one.name, "action": str(one.action), "place": one.place, "revision": one.revision or None,
            "changes": [{"field": field, "before": before, "after": after} for field, before, after in one.changes],
            "result": results.get(one.title),
        })  # fmt: skip
    jobs = [step_document(step, result=results.get(step.name)) for step in steps]
    return {"dryRun": is_dry, **of_records, "jobs": jobs}


def plan_summary(steps: Iterable[Step | RecordStep]) -> str:
    """How many of what a dry run has found."""
    counts = Counter(step.action for step in steps)
    planned = ", ".join(f"{counts[action]} {_TO_DO[action]}" for action in Action if counts[action]) or "nothing to do"
    return f"{planned} (dry run: nothing was changed)"


def outcome(results: Mapping[str, str]) -> str:
    """How many jobs came to what."""
    counts = Counter(results.values())
    return ", ".join(f"{counts[word]} {word}" for word in _RESULTS if counts[word]) or "nothing to do"


def step_document(step: Step, *, result: str | None) -> Mapping[str, Any]:
    """One step as JSON. `result`: what became of it; None in a dry run."""
    return {
        "name": step.name,
        "action": str(step.action),
        "place": step.place or None,
        "revision": step.revision or None,
        "changes": [{"field": field, "before": before, "after": after} for field, before, after in step.changes],
        "fires": {"before": list(step.fires_before), "after": list(step.fires_after)},
        "result": result,
    }


def _fires(title: str, fires: Sequence[str], state: str) -> list[str]:
    if fires:
        return [f"    {title} {', '.join(fires)}"]
    return [f"    {title} none{' (paused)' if state == 'paused' else ''}"]
