"""Channels and rules in files: compared with what there is, and saved before the jobs that name them; never pruned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from cli.client import Client, Document, access_path, if_match
from cli.job_views import differences
from cli.manifests.files import Manifest
from cli.manifests.plan import Action
from cli.progress import tracked
from common.access.rights import spelled
from common.access.selectors import EVERYTHING
from common.errors import InvalidInputError, nearest
from common.notices.channels import CHANNEL, Channel
from common.notices.forms import Form
from common.notices.rules import RULE, Rule

FORMS: Final[Mapping[str, Form[Any]]] = {"channels": CHANNEL, "rules": RULE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStep:
    """One channel or rule: what has to be done."""

    kind: str
    action: Action
    name: str
    place: str
    document: Document
    revision: int
    changes: tuple[tuple[str, Any, Any], ...]

    @property
    def title(self) -> str:
        return f"{self.kind.removesuffix('s')} {self.name}"


def plan_records(client: Client, manifests: Sequence[Manifest]) -> tuple[list[RecordStep], list[str]]:
    """The steps, channels first, and every mistake in them."""
    steps, mistakes = [], list[str]()
    is_there = {one.name: True for one in manifests if one.kind == "channels"}
    for kind, form in FORMS.items():
        for manifest in tracked([one for one in manifests if one.kind == kind], "comparing"):
            fields = _fields(manifest)
            try:
                record = form.read(fields)
            except InvalidInputError as error:
                mistakes += [
                    f"{manifest.place_of(one.field)}: {manifest.name}: {one}" for one in error.problems
                ]  # fmt: skip
                continue
            if isinstance(record, Rule):
                mistakes += _missing(client, record, manifest, is_there)
            after, there = form.write(record), client.find(access_path(kind, manifest.name))
            before = {field: there[field] for field in form.members if field in there} if there else {}
            changes = tuple(differences(before, after))
            steps.append(RecordStep(
                kind=kind, name=manifest.name, place=manifest.place, document=fields, changes=changes,
                revision=0 if there is None else int(there["revision"]),
                action=Action.CREATE if there is None else Action.CHANGE if changes else Action.KEEP,
            ))  # fmt: skip
    return steps, mistakes


def _fields(manifest: Manifest) -> Document:
    return {field: value for field, value in manifest.document.items() if field != "name"}


def _missing(client: Client, rule: Rule, manifest: Manifest, is_there: dict[str, bool]) -> list[str]:
    """The mistakes in naming channels that neither stand in the files nor are saved. ``is_there``: by name, as far as
    it is known; what is asked for is added.
    """
    for name in rule.to:
        if name not in is_there:
            is_there[name] = client.find(access_path("channels", name)) is not None
    known = [name for name, is_one in is_there.items() if is_one]
    return [
        f"{manifest.place_of('to')}: {manifest.name}: to[{place}]: there is no channel {name}; "
        + (f"did you mean {meant}?" if (meant := nearest(name, known)) else "make it first: etcron channel add")
        for place, name in enumerate(rule.to)
        if not is_there[name]
    ]


def channels_of(manifests: Iterable[Manifest]) -> dict[str, Channel | None]:
    """Those that stand in the files; None: with a mistake, which `plan_records` has told."""
    found = dict[str, Channel | None]()
    for one in manifests:
        if one.kind == "channels":
            found[one.name] = None
            with suppress(InvalidInputError):
                found[one.name] = CHANNEL.read(_fields(one))
    return found


def by_channels_of_files(
    errors: Iterable[Document], job: Mapping[str, Any], channels: Mapping[str, Channel | None]
) -> list[Document]:
    """The mistakes in a job; whether it may name a channel that stands in the files is for these to say."""
    labels = job["labels"] if isinstance(job.get("labels"), dict) else {}
    entries = job["notify"] if isinstance(job.get("notify"), list) else []
    named = {
        f"notify[{place}].to": to
        for place, entry in enumerate(entries)
        if isinstance(entry, dict) and isinstance(to := entry.get("to"), str) and to in channels
    }
    mistakes = [one for one in errors if one.get("field") not in named]
    if any(str(one.get("field")).startswith("labels") for one in mistakes):
        return mistakes  # which channels the job may name is known once its labels are right
    for field, to in named.items():
        if (channel := channels[to]) is not None and not channel.may_be_used_by(labels):
            message = f"channel {to} may be used by jobs with {spelled(channel.labels or EVERYTHING)} alone"
            remedy = "give the job such labels, or name another channel"
            mistakes.append({"field": field, "message": message, "remedy": remedy})
    return mistakes


def save(client: Client, step: RecordStep) -> tuple[str, list[str]]:
    """What became of it, and what to think of beside it. ProblemError."""
    if step.action is Action.KEEP:
        return "unchanged", []
    path, headers = access_path(step.kind, step.name), if_match(step.revision)
    answer = client.call("PUT", path, step.document, headers=headers).document
    return "created" if step.action is Action.CREATE else "changed", list(answer.get("warnings") or ())
