"""``/api/v1/jobs/{name}/versions``: what a job was before, what changed from one to the next, and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.masks import shown_spec
from common.access.rights import OWNER, Rights, Role
from common.cursors import no_cursor
from common.errors import ConflictError, InvalidInputError, NotFoundError, Problem
from common.jobs.reader import check_name, parse_job
from common.json_text import dumps
from common.protocol.edits import StaleRevisionError
from common.protocol.saved_job import EditKind, JobVersion, SavedJob, Signed, changed_fields
from common.protocol.signatures import Seal
from common.protocol.txn import KeyValue
from manager.access.audited import annotate, annotate_change
from manager.access.needs import needs
from manager.api.jobs import row_at, stale
from manager.api.schemas import whole
from manager.background.versions import Deletion, deletion_of, sees_version
from manager.http.bodies import REASON
from manager.http.inputs import if_match
from manager.http.queries import Cursor, Limit, Meaning, Query, single
from manager.parts import PARTS, answer, caller, rights
from manager.watch.catalog import KnownJob

_VERSIONS = "/api/v1/jobs/{name}/versions"
_SMALL_CHANGE = 500
"""So many characters of before and after together are listed; larger ones are shown by a comparison."""
_CURSOR: Final = re.compile("[0-9]{1,18}-[0-9]{1,18}")
_DELETIONS: Final = 500
"""So many are looked at for a page; the caller may not know of some, and others are there again."""


class CompareQuery(Query):
    to: Annotated[str | None, single(whole(1, 10**18 - 1)), Meaning("Another revision; the current one.")]


def _behind(cursor: str) -> Deletion:
    """Where the page before ended."""
    if _CURSOR.fullmatch(cursor) is None:
        raise no_cursor()
    ended_ms, _, revision = cursor.partition("-")
    return int(ended_ms), int(revision)


class DeletedQuery(Query):
    cursor: Cursor
    limit: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """One version, the current one or a former one."""

    revision: int
    spec: Mapping[str, Any]
    saved_ms: int
    saved_by: str | None
    made_with: EditKind | None
    """None: the version before it is not kept any more."""
    paused_reason: str | None = None
    current: bool = False
    unsigned: str | None = None
    """Where the manager signs: why no manager's signature vouches for it."""


def add_routes(app: web.Application) -> None:
    """The calls on versions."""
    app.router.add_get("/api/v1/deleted-jobs", list_deleted)
    app.router.add_get(_VERSIONS, list_versions)
    app.router.add_get(f"{_VERSIONS}/{{revision}}", show_version)
    app.router.add_get(f"{_VERSIONS}/{{revision}}/compare", compare_versions)
    app.router.add_post(f"{_VERSIONS}/{{revision}}/restore", restore_version)


@needs(Role.VIEWER)
async def list_versions(request: web.Request) -> web.Response:
    """Every version that is known, newest first: who, when, and what changed; a deleted job has them still."""
    name = _name(request)
    former = await _former(request, name)
    known = await _known(request, name, former)
    deleted = None
    if former and not known[0].current:
        deleted = {"ms": former[0].ended_ms, "by": former[0].ended_by}
    whole = [_whole(one.spec, rights(request)) for one in known]
    items = [_item(one, known[index + 1] if index + 1 < len(known) else None) for index, one in enumerate(known)]
    for index, item in enumerate(items):
        changes = [(field, whole[index + 1].get(field), whole[index].get(field)) for field in item["changed"]]
        item["changes"] = [
            {"field": field, "before": before, "after": after}
            for field, before, after in changes
            if before != after and len(dumps([before, after])) <= _SMALL_CHANGE
        ]
    return answer({"items": items, "nextCursor": None, "deleted": deleted})


@needs(Role.VIEWER)
async def list_deleted(request: web.Request) -> web.Response:
    """Jobs that were deleted and are not there again, the last first: what a restore brings back.

    A page may be short, or empty, and have a next.
    """
    parts, asked = request.app[PARTS], DeletedQuery.read(request)
    begins = None if asked.cursor is None else _behind(await parts.cursors.opened(asked.cursor))
    looked, is_all = await parts.versions.deleted(_DELETIONS, begins)
    items, last = list[JobVersion](), begins
    for one in looked:
        if len(items) == asked.limit:
            is_all = False
            break
        last = deletion_of(one)
        if not sees_version(one, rights(request)) or parts.watching.catalog.seen(one.job, rights(request)) is not None:
            continue
        # On the first page there are none further ahead.
        if begins is None or deletion_of((await parts.versions.of(one.job))[0]) == last:
            items.append(one)
    cursor = None if is_all or last is None else f"{last[0]}-{last[1]}"
    if cursor is not None and not rights(request).sees_all:
        cursor = await parts.cursors.sealed(cursor)  # the last that was looked at may be hidden from the caller
    return answer({
        "items": [
            {"name": one.job, "deletedMs": one.ended_ms, "deletedBy": one.ended_by, "revision": one.revision,
             "description": one.spec.get("description") or "", "labels": one.spec.get("labels") or {}}
            for one in items
        ],
        "nextCursor": cursor,
    })  # fmt: skip


@needs(Role.VIEWER)
async def show_version(request: web.Request) -> web.Response:
    """One version with its whole spec."""
    name = _name(request)
    known = await _known(request, name, await _former(request, name))
    index, version = _find(known, request.match_info["revision"])
    older = known[index + 1] if index + 1 < len(known) else None
    return answer({**_item(version, older), "spec": _whole(version.spec, rights(request))})


@needs(Role.VIEWER)
async def compare_versions(request: web.Request) -> web.Response:
    """The fields that differ between one version and another (``to``; the current one when left out)."""
    name = _name(request)
    to = CompareQuery.read(request).to
    known = await _known(request, name, await _former(request, name))
    _, one = _find(known, request.match_info["revision"])
    _, other = _find(known, to) if to is not None else (0, known[0])
    fields = changed_fields(_whole(one.spec, OWNER), _whole(other.spec, OWNER))
    before, after = _whole(one.spec, rights(request)), _whole(other.spec, rights(request))
    changes = [{"field": field, "before": before.get(field), "after": after.get(field)} for field in fields]
    return answer({"from": one.revision, "to": other.revision, "changes": changes})


@needs(Role.EDITOR)
async def restore_version(request: web.Request) -> web.Response:
    """Save the job as it was in that version, paused or not as it was then; also one that has been deleted."""
    parts, name = request.app[PARTS], _name(request)
    revision = if_match(request)
    annotate(request, reason=(await REASON.read(request, parts.read_timeout_s)).reason)
    known = await _known(request, name, await _former(request, name))
    _, version = _find(known, request.match_info["revision"])
    labels = version.spec.get("labels") or {}
    rights(request).check(Role.EDITOR, labels, f"version {version.revision}", missing=_no_version(version.revision))
    _refuse_unsigned(name, version)
    try:
        saved = await parts.jobs.save(
            parse_job(version.spec),
            by=caller(request),
            rights=rights(request),
            if_match=revision,
            change=EditKind.RESTORE,
        )
    except StaleRevisionError as error:
        return await stale(request, error)
    before = saved.before.saved
    annotate_change(request, before.spec if before else None, saved.spec, restored=version.revision)
    document = {
        "job": await row_at(request, name, saved.revision), "changed": saved.changed, "warnings": list(saved.warnings),
        "restored": version.revision,
    }  # fmt: skip
    return answer(document, status=200 if saved.before.job else 201, headers={"ETag": f'"{saved.revision}"'})


def _refuse_unsigned(name: str, version: _Spec) -> None:
    """A restore signs what is restored: not what anything else may have put into the log store."""
    if version.unsigned is None:
        return
    raise ConflictError(
        f"job {name!r} was not restored: version {version.revision} {version.unsigned}, and this manager signs what it "
        "restores; look at the version, then save it as a job"
    )


def _name(request: web.Request) -> str:
    return check_name(request.match_info["name"])


async def _former(request: web.Request, name: str) -> list[JobVersion]:
    """Those that the caller may know of, as if there were no others."""
    return [one for one in await request.app[PARTS].versions.of(name) if sees_version(one, rights(request))]


async def _known(request: web.Request, name: str, former: Sequence[JobVersion]) -> list[_Spec]:
    """The current version, where there is one, and the former ones; NotFoundError where there is none at all.

    One that the caller may not know of is as one that there is not.
    """
    parts = request.app[PARTS]
    kv = await parts.etcd.get(parts.keys.job(name))
    is_there = kv is not None and KnownJob.read(name, kv).is_seen_by(rights(request))
    seal = parts.jobs.seal
    known = [_current(name, kv, former, seal)] if kv is not None and is_there else []
    for index, version in enumerate(former):
        older = former[index + 1] if index + 1 < len(former) else None
        made_with = older.ended_with if older is not None else None
        known.append(
            _Spec(
                revision=version.revision, spec=version.spec, saved_ms=version.saved_ms, saved_by=version.saved_by,
                made_with=EditKind.SAVE if made_with is EditKind.DELETE else made_with,
                paused_reason=version.paused_reason,
                unsigned=None if seal is None else version.fault(seal.trust),
            )
        )  # fmt: skip
    if not known:
        raise NotFoundError(f"there is no job {name}, and no former version of one")
    return known


def _current(name: str, kv: KeyValue, former: Sequence[JobVersion], seal: Seal | None) -> _Spec:
    made_with = former[0].ended_with if former else EditKind.SAVE
    try:
        saved = SavedJob.from_json(kv.value, name=name)
    except InvalidInputError:
        return _Spec(revision=kv.mod_revision, spec={}, saved_ms=0, saved_by=None, made_with=None, current=True)
    return _Spec(
        revision=kv.mod_revision, spec=saved.spec.to_stored(), saved_ms=saved.saved_ms, saved_by=saved.saved_by,
        made_with=EditKind.SAVE if made_with is EditKind.DELETE else made_with, current=True,
        paused_reason=saved.pause.reason if saved.pause is not None else None,
        unsigned=None if seal is None else Signed.of(kv.value).fault(seal.trust, name),
    )  # fmt: skip


def _item(version: _Spec, older: _Spec | None) -> dict[str, Any]:
    return {
        "revision": version.revision,
        "current": version.current,
        "savedMs": version.saved_ms,
        "savedBy": version.saved_by,
        "action": str(version.made_with) if version.made_with else None,
        "changed": list(changed_fields(older.spec, version.spec)) if older is not None else [],
        **({} if version.paused_reason is None else {"pausedReason": version.paused_reason}),
    }


def _no_version(revision: object) -> str:
    return f"there is no version {revision}: the newest 50 are kept"


def _find(known: Sequence[_Spec], text: str) -> tuple[int, _Spec]:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        remedy = "a revision from the list of versions, e.g. 1234"
        raise InvalidInputError([Problem(field="revision", message=f"is {text[:40]!r}", remedy=remedy)])
    for index, version in enumerate(known):
        if version.revision == int(text):
            return index, version
    raise NotFoundError(_no_version(text))


def _whole(spec: Mapping[str, Any], rights: Rights) -> Mapping[str, Any]:
    """With its defaults, as a caller may see it; as it stands where it cannot be read as a job any more."""
    try:
        whole = parse_job(spec).to_document()
    except InvalidInputError:
        whole = dict(spec)
    labels = whole.get("labels")
    return shown_spec(whole, rights, labels if isinstance(labels, Mapping) else {})
