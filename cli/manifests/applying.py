"""Applying: read the files, check everything, show the plan or carry it out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cli.client import Client, told
from cli.errors import CommandError, ExitStatus
from cli.manifests.carrying import Failed, carry_out, check, make_plan, pruned_fires
from cli.manifests.files import Manifest, read_manifests
from cli.manifests.plan import Action, Step, Wanted, with_owner
from cli.manifests.showing import outcome, plan_summary, step_document, step_lines
from cli.printing import print_json, say, tell, warn

_SHOWN = 50


def apply(arguments: argparse.Namespace) -> int:
    """`etcron job apply`; its exit status."""
    if arguments.prune and not arguments.owner:
        raise CommandError("--prune: needs --owner NAME, which says whose jobs may be deleted", ExitStatus.USAGE)
    manifests = read_manifests([path for paths in arguments.files for path in paths])
    with Client.of(arguments) as client:
        wanted = _checked(client, manifests, arguments.owner)
        steps = make_plan(client, wanted, owner=arguments.owner, prune=arguments.prune)
        if arguments.dry_run:
            for step in (one for one in steps if one.action is Action.PRUNE):
                warn(f"{step.name}: {skipped}" for skipped in pruned_fires(client, step))
            _show(steps, as_json=arguments.output == "json")
            return ExitStatus.OK
        return _carry_out(client, steps, as_json=arguments.output == "json")


def _checked(client: Client, manifests: Sequence[Manifest], owner: str | None) -> list[Wanted]:
    """The jobs, once the manager has found nothing wrong with any of them. CommandError with every mistake."""
    wanted, mistakes = [], []
    for manifest in manifests:
        try:
            document = with_owner(manifest.document, owner)
        except ValueError as error:
            mistakes.append(f"{manifest.place_of('labels')}: {manifest.name}: {error}")
            continue
        one = Wanted(name=manifest.name, document=document, place=manifest.place)
        errors, warnings = check(client, one)
        mistakes += [
            f"{manifest.place_of(str(one_error.get('field')))}: {manifest.name}: {line}"
            for one_error, line in zip(errors, told(errors), strict=True)
        ]
        warn(f"{manifest.place}: {manifest.name}: {warning}" for warning in warnings)
        wanted.append(one)
    if mistakes:
        more = [f"... and {len(mistakes) - _SHOWN} more"] if len(mistakes) > _SHOWN else []
        raise CommandError("\n".join(["nothing was changed:", *mistakes[:_SHOWN], *more]), ExitStatus.REFUSED)
    return wanted


def _show(steps: Sequence[Step], *, as_json: bool) -> None:
    """What a run without --dry-run would do."""
    if as_json:
        print_json({"dryRun": True, "jobs": [step_document(step, result=None) for step in steps]})
        return
    for step in steps:
        if step.action is not Action.KEEP:
            tell(*step_lines(step))
    tell(plan_summary(steps))


def _carry_out(client: Client, steps: Sequence[Step], *, as_json: bool) -> int:
    results: dict[str, str] = {}

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
    _complain(failed)
    results |= {one.step.name: "failed" for one in failed}
    if as_json:
        print_json({"dryRun": False, "jobs": [step_document(step, result=results.get(step.name)) for step in steps]})
    else:
        tell(outcome(results))
    return failed[0].error.status if failed else ExitStatus.OK


def _complain(failed: Sequence[Failed]) -> None:
    for one in failed:
        say(f"etcron: {one.step.place or 'prune'}: {one.step.name}: {one.error}")
    if failed:
        say("etcron: nothing was pruned, as not all jobs could be saved" if _saves(failed) else "etcron: see above")


def _saves(failed: Sequence[Failed]) -> bool:
    return any(one.step.action is not Action.PRUNE for one in failed)
