"""``/api/v1/jobs/{name}/versions``: what a job was before, what changed from one to the next, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from common.access.rights import Role
from common.errors import InvalidInputError, NotFoundError, Problem
from common.jobs.reader import check_name, parse_job
from common.protocol.edits import StaleRevisionError
from common.protocol.saved_job import EditKind, JobVersion, SavedJob, changed_fields
from common.protocol.txn import KeyValue
from manager.access.needs import needs
from manager.api.jobs import row_at, stale
from manager.api.schemas import whole
from manager.http.bodies import REASON
from manager.http.inputs import if_match
from manager.http.queries import Query, single
from manager.parts import PARTS, Parts, answer, caller

_VERSIONS = "/api/v1/jobs/{name}/versions"


class CompareQuery(Query):
    to: Annotated[str | None, single(whole(1, 10**18 - 1)), Field(description="Another revision; the current one.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """One version, the current one or a former one."""

    revision: int
    spec: Mapping[str, Any]
    saved_ms: int
    saved_by: str | None
    made_with: EditKind | None
    """None: the version before it is not kept any more."""
    current: bool = False


def add_routes(app: web.Application) -> None:
    """The calls on versions."""
    app.router.add_get(_VERSIONS, list_versions)
    app.router.add_get(f"{_VERSIONS}/{{revision}}", show_version)
    app.router.add_get(f"{_VERSIONS}/{{revision}}/compare", compare_versions)
    app.router.add_post(f"{_VERSIONS}/{{revision}}/restore", restore_version)


@needs(Role.VIEWER)
async def list_versions(request: web.Request) -> web.Response:
    """Every version that is known, newest first: who, when, and what changed; a deleted job has them still."""
    parts, name = request.app[PARTS], _name(request)
    former = await parts.versions.of(name)
    known = await _known(parts, name, former)
    deleted = None
    if former and not known[0].current:
        deleted = {"ms": former[0].ended_ms, "by": former[0].ended_by}
    items = [_item(one, known[index + 1] if index + 1 < len(known) else None) for index, one in enumerate(known)]
    return answer({"items": items, "nextCursor": None, "deleted": deleted})


@needs(Role.VIEWER)
async def show_version(request: web.Request) -> web.Response:
    """One version with its whole spec."""
    parts, name = request.app[PARTS], _name(request)
    known = await _known(parts, name, await parts.versions.of(name))
    index, version = _find(known, request.match_info["revision"])
    older = known[index + 1] if index + 1 < len(known) else None
    return answer({**_item(version, older), "spec": _whole(version.spec)})


@needs(Role.VIEWER)
async def compare_versions(request: web.Request) -> web.Response:
    """The fields that differ between one version and another (``to``; the current one when left out)."""
    parts, name = request.app[PARTS], _name(request)
    to = CompareQuery.read(request).to
    known = await _known(parts, name, await parts.versions.of(name))
    _, one = _find(known, request.match_info["revision"])
    _, other = _find(known, to) if to is not None else (0, known[0])
    before, after = _whole(one.spec), _whole(other.spec)
    changes = [
        {"field": field, "before": before.get(field), "after": after.get(field)}
        for field in changed_fields(before, after)
    ]
    return answer({"from": one.revision, "to": other.revision, "changes": changes})


@needs(Role.EDITOR)
async def restore_version(request: web.Request) -> web.Response:
    """Save the job as it was in that version, paused or not as it was then; also one that has been deleted."""
    parts, name = request.app[PARTS], _name(request)
    revision = if_match(request)
    await REASON.read(request, parts.read_timeout_s)
    known = await _known(parts, name, await parts.versions.of(name))
    _, version = _find(known, request.match_info["revision"])
    try:
        saved = await parts.service.save(
            parse_job(version.spec), by=caller(request), if_match=revision, change=EditKind.RESTORE
        )
    except StaleRevisionError as error:
        return await stale(request, error)
    document = {
        "job": await row_at(request, name, saved.revision), "changed": saved.changed, "warnings": list(saved.warnings),
        "restored": version.revision,
    }  # fmt: skip
    return answer(document, status=200 if saved.before.job else 201, headers={"ETag": f'"{saved.revision}"'})


def _name(request: web.Request) -> str:
    return check_name(request.match_info["name"])


async def _known(parts: Parts, name: str, former: Sequence[JobVersion]) -> list[_Spec]:
    """The current version, where there is one, and the former ones; NotFoundError where there is none at all."""
    kv = await parts.etcd.get(parts.keys.job(name))
    known = [] if kv is None else [_current(name, kv, former)]
    for index, version in enumerate(former):
        older = former[index + 1] if index + 1 < len(former) else None
        made_with = older.ended_with if older is not None else None
        known.append(
            _Spec(
                revision=version.revision, spec=version.spec, saved_ms=version.saved_ms, saved_by=version.saved_by,
                made_with=EditKind.SAVE if made_with is EditKind.DELETE else made_with,
            )
        )  # fmt: skip
    if not known:
        raise NotFoundError(f"there is no job {name}, and no former version of one")
    return known


def _current(name: str, kv: KeyValue, former: Sequence[JobVersion]) -> _Spec:
    made_with = former[0].ended_with if former else EditKind.SAVE
    try:
        saved = SavedJob.from_json(kv.value, name=name)
    except InvalidInputError:
        return _Spec(revision=kv.mod_revision, spec={}, saved_ms=0, saved_by=None, made_with=None, current=True)
    return _Spec(
        revision=kv.mod_revision, spec=saved.spec.to_stored(), saved_ms=saved.saved_ms, saved_by=saved.saved_by,
        made_with=EditKind.SAVE if made_with is EditKind.DELETE else made_with, current=True,
    )  # fmt: skip


def _item(version: _Spec, older: _Spec | None) -> dict[str, Any]:
    return {
        "revision": version.revision,
        "current": version.current,
        "savedMs": version.saved_ms,
        "savedBy": version.saved_by,
        "action": str(version.made_with) if version.made_with else None,
        "changed": list(changed_fields(older.spec, version.spec)) if older is not None else [],
    }


def _find(known: Sequence[_Spec], text: str) -> tuple[int, _Spec]:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        remedy = "a revision from the list of versions, e.g. 1234"
        raise InvalidInputError([Problem(field="revision", message=f"is {text[:40]!r}", remedy=remedy)])
    for index, version in enumerate(known):
        if version.revision == int(text):
            return index, version
    raise NotFoundError(f"there is no version {text}: the newest 50 are kept")


def _whole(spec: Mapping[str, Any]) -> dict[str, Any]:
    """With its defaults; as it stands where it cannot be read as a job any more."""
    try:
        return parse_job(spec).to_document()
    except InvalidInputError:
        return dict(spec)
