"""``/api/v1/access/explain``: what may this person do, and who may touch this job?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.accounts import Service, User
from common.access.rights import Grant, Rights, Role
from common.access.subjects import Subject, SubjectKind
from common.errors import InvalidInputError, NotFoundError, Problem
from common.jobs.job import JobSpec
from common.protocol.saved_job import SavedJob
from manager.access.needs import needs
from manager.api.bindings import binding_view
from manager.api.schemas import text
from manager.http.queries import Meaning, Query, single
from manager.parts import PARTS, Parts, answer
from manager.use_cases.access_records import AccessRecords
from manager.use_cases.channels import admin_alone_saves

_PATH: Final = "/api/v1/access/explain"
_NEEDED: Final = "user:NAME, group:NAME, service:NAME, uid:NUMBER or gid:NUMBER"
_MOST_MEMBERS: Final = 100


class ExplainQuery(Query):
    subject: Annotated[str | None, single(text(140)), Meaning("What may they do? E.g. `user:alice`.")]
    job: Annotated[str | None, single(text(300)), Meaning("Who may touch this job?")]


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get(_PATH, explain)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def explain(request: web.Request) -> web.Response:
    """Each binding that applies, as data and in words."""
    parts, query = request.app[PARTS], ExplainQuery.read(request)
    if (query.subject is None) == (query.job is None):
        problem = Problem(field="subject", message="and job: one of them is needed", remedy="ask for one at a time")
        raise InvalidInputError([problem])
    if query.job is not None:
        return answer(await _job(parts, query.job))
    assert query.subject is not None
    try:
        subject = Subject.parse(query.subject)
    except ValueError as error:
        raise InvalidInputError([Problem(field="subject", message=str(error), remedy=_NEEDED)]) from None
    return answer(await _subject(parts.access_records, subject))


async def _subject(records: AccessRecords, subject: Subject) -> dict[str, Any]:
    """What may this person do? With what their groups give them."""
    account = await _account(records, subject)
    subjects = account.subjects if isinstance(account, User) else frozenset({subject})
    bindings = (await records.bindings()).of(subjects)
    rights = Rights(tuple(held.binding.grant for held in bindings))
    owner = subject.kind in (SubjectKind.USER, SubjectKind.SERVICE)
    tokens = len((await records.tokens_of(subject))[1]) if owner else 0
    is_disabled = account is not None and account.disabled
    warnings = []
    if account is None and owner:
        warnings.append(f"there is no {subject} here: whoever gets this name has these rights")
    if is_disabled:
        warnings.append(f"{subject.name} is disabled: none of this is allowed until that is taken back")
    if not bindings:
        warnings.append(
            f"nothing is bound to {subject}, or to a group of theirs that is known here: nothing is allowed"
        )
    return {
        "subject": str(subject), "known": account is not None, "disabled": is_disabled,
        "subjects": sorted(map(str, subjects)), "roles": [str(role) for role in Role if rights.has(role)],
        "administers": rights.has_everywhere(Role.ADMIN), "tokens": tokens,
        "bindings": [binding_view(held.binding, held.kv.value) for held in bindings], "warnings": warnings,
    }  # fmt: skip


async def _account(records: AccessRecords, subject: Subject) -> User | Service | None:
    match subject.kind:
        case SubjectKind.USER:
            held = (await records.users_named([subject.name])).get(subject.name)
            return None if held is None else held.user
        case SubjectKind.SERVICE:
            kv = await records.etcd.get(records.keys.service(subject.name))
            service = None if kv is None else records.read(kv, Service)
            return service if isinstance(service, Service) else None
        case _:
            return None


async def _job(parts: Parts, name: str) -> dict[str, Any]:
    """Who may touch this job? By its labels as they are now."""
    kv = await parts.etcd.get(parts.keys.job(name))
    if kv is None:
        raise NotFoundError(f"there is no job {name[:128]}")
    spec, warnings = None, []
    try:
        spec = SavedJob.from_json(kv.value, name=name).spec
    except InvalidInputError:
        warnings.append("the job cannot be read, so nobody knows its labels: only bindings on all jobs reach it")
    labels = {} if spec is None else spec.labels
    bindings = await parts.access_records.bindings()
    users = {one.name: one for one in (held.user for held in (await parts.access_records.users()).values())}
    reaching = [held for held in bindings.held if held.binding.grant.labels.matches(labels)]
    services = {held.binding.subject for held in reaching if held.binding.subject.kind is SubjectKind.SERVICE}
    accounts = {Subject(SubjectKind.USER, name): user for name, user in users.items()} | {
        subject: await _account(parts.access_records, subject) for subject in services
    }
    for_admins = admin_alone_saves(name, parts.watching.notices.channels)
    return {
        "job": name, "labels": dict(labels), "warnings": warnings,
        "who": [
            {
                **binding_view(held.binding, held.kv.value),
                **_may(held.binding.grant, spec, accounts.get(held.binding.subject), for_admins),
                "users": _people(held.binding.subject, users),
            }
            for held in sorted(reaching, key=lambda held: (held.binding.subject, held.binding.id))
        ],
    }  # fmt: skip


def _may(
    grant: Grant, spec: JobSpec | None, account: User | Service | None, for_admins: str | None
) -> dict[str, Any]:  # fmt: skip
    """What one binding allows with the job as it is; None: it cannot be read, so no user saves it as it is.

    ``account``: whose binding it is; one that is disabled may nothing. ``for_admins``: why editors may not save it;
    None: they may.
    """
    if account is not None and account.disabled:
        nothing = dict.fromkeys(("see", "run", "change", "saveAsItIs"), False)
        return {"may": nothing, "why": f"{account.name} is disabled"}
    edits = grant.role.covers(Role.EDITOR)
    unfit = grant.unfit(spec) if edits and spec is not None else None
    if edits and not grant.role.covers(Role.ADMIN):
        unfit = unfit or for_admins
    fits = edits and spec is not None and unfit is None
    may = {"see": True, "run": grant.role.covers(Role.OPERATOR), "change": edits, "saveAsItIs": fits}
    return {"may": may, "why": unfit}


def _people(subject: Subject, users: Mapping[str, User]) -> list[str]:
    """The users known here that are meant, and are not disabled; of a large group the first hundred."""
    if subject.kind is SubjectKind.USER:
        user = users.get(subject.name)
        return [] if user is not None and user.disabled else [subject.name]
    if subject.kind is SubjectKind.GROUP:
        members = (name for name, user in users.items() if subject in user.subjects and not user.disabled)
        return sorted(members)[:_MOST_MEMBERS]
    return []
