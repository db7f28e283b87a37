"""Channels and rules in files: compared with what there is, and saved before the jobs that name them; never pruned."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.client import Client, Document, access_path, if_match
from cli.job_views import differences
from cli.manifests.files import Manifest
from cli.manifests.plan import Action
from cli.progress import tracked
from common.errors import InvalidInputError
from common.notices.channels import CHANNEL
from common.notices.forms import Form
from common.notices.rules import RULE

FORMS: Final[Mapping[str, Form[Any]]] = {"channels": CHANNEL, "rules": RULE}
_NAMED_BY_A_JOB: Final = re.compile(r"notify\[([0-9]+)\]\.to")


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
    """The steps, channels first, and every mistake that needs no manager to be found."""
    steps, mistakes = [], list[str]()
    for kind, form in FORMS.items():
        for manifest in tracked([one for one in manifests if one.kind == kind], "comparing"):
            fields = {field: value for field, value in manifest.document.items() if field != "name"}
            try:
                after = form.write(form.read(fields))
            except InvalidInputError as error:
                mistakes += [
                    f"{manifest.place_of(one.field)}: {manifest.name}: {one}" for one in error.problems
                ]  # fmt: skip
                continue
            there = client.find(access_path(kind, manifest.name))
            before = {field: there[field] for field in form.members if field in there} if there else {}
            changes = tuple(differences(before, after))
            steps.append(RecordStep(
                kind=kind, name=manifest.name, place=manifest.place, document=fields, changes=changes,
                revision=0 if there is None else int(there["revision"]),
                action=Action.CREATE if there is None else Action.CHANGE if changes else Action.KEEP,
            ))  # fmt: skip
    return steps, mistakes


def without_those_to_come(
    errors: Iterable[Document], job: Mapping[str, Any], manifests: Collection[Manifest]
) -> list[Document]:
    """The mistakes in a job but for its naming channels that stand in the files, too."""
    channels = {one.name for one in manifests if one.kind == "channels"}

    def is_to_come(error: Document) -> bool:
        found = _NAMED_BY_A_JOB.fullmatch(str(error.get("field")))
        entry = job["notify"][int(found[1])] if found else {}
        return isinstance(entry, dict) and entry.get("to") in channels

    return [one for one in errors if not is_to_come(one)]


def save(client: Client, step: RecordStep) -> tuple[str, list[str]]:
    """What became of it, and what to think of beside it. ProblemError."""
    if step.action is Action.KEEP:
        return "unchanged", []
    path, headers = access_path(step.kind, step.name), if_match(step.revision)
    answer = client.call("PUT", path, step.document, headers=headers).document
    return "created" if step.action is Action.CREATE else "changed", list(answer.get("warnings") or ())
