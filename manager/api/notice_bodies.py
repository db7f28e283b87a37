"""Bodies and answers that channels, rules and silences have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from aiohttp import web

from common.errors import InvalidInputError, Problem
from common.jobs.kinds import Schema, about, members_of, object_schema, read_members, reader_of
from common.jobs.reading import check, shown
from common.jobs.values import JobName
from common.notices.forms import Form, HasProblems
from common.notices.forms import Stored as StoredRecord
from manager.http.bodies import BODY_READ
from manager.http.inputs import read_object
from manager.http.queries import Meaning, Query, single, whole
from manager.use_cases.notice_records import Kept
from manager.use_cases.records import Damaged

T = TypeVar("T", bound=HasProblems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    name: Annotated[str, JobName(), about("name", "what it is called", "ops")]


_read_named: Final = reader_of(_Named)
_NAME: Final = members_of(_Named)


class ListQuery(Query):
    cursor: Annotated[str | None, single({"type": "string", "maxLength": 128}), Meaning(
        "`nextCursor` of the page before, unchanged.")]  # fmt: skip
    limit: Annotated[int, whole(1, 500, 500), Meaning("Items of a page, at most.")]


class RecordBody(Generic[T]):
    """The body of a call that saves a record: its fields; its name too, where the path has none."""

    def __init__(self, form: Form[T], of: type[T]) -> None:
        self._form = form
        self.schema: Schema = object_schema(of)
        name = object_schema(_Named)
        self.named_schema: Schema = {
            **self.schema, "properties": {**name["properties"], **self.schema["properties"]},
            "required": ["name", *self.schema.get("required", ())],
        }  # fmt: skip

    async def read(self, request: web.Request, seconds: float) -> T:
        """Of a path that names it; a body that names it otherwise is refused."""
        document = await read_object(request, seconds, members=(*_NAME, *self._form.members))
        name = request.match_info["name"]
        if (given := document.pop("name", name)) != name:
            message, remedy = f"is {shown(given)}", f"it must be the path's, {name[:128]!r}, or be left out"
            raise InvalidInputError([Problem(field="name", message=message, remedy=remedy)])
        record = self._form.read(document)
        request[BODY_READ] = document
        return record

    async def read_named(self, request: web.Request, seconds: float) -> tuple[str, T]:
        """Its name, and what it is to be."""
        document = await read_object(request, seconds, members=(*_NAME, *self._form.members))
        own = {name: document[name] for name in document if name in _NAME}
        named, problems = read_members(own, _read_named, _NAME, of="this call's body")
        try:
            record = self._form.read({name: value for name, value in document.items() if name not in _NAME})
        except InvalidInputError as error:
            raise InvalidInputError([*problems, *error.problems]) from None
        check(problems)
        assert named is not None, "what was read without a fault is there"
        request[BODY_READ] = document
        return named.name, record


def made(stored: StoredRecord[Any]) -> dict[str, Any]:
    """Who made it, and when."""
    return {
        "createdTime": stored.created_ms, "createdBy": stored.created_by, "changedTime": stored.changed_ms,
    }  # fmt: skip


def record_view(kept: Kept[Any], form: Form[Any]) -> dict[str, Any]:
    """A record as calls show it; of one that cannot be read its name, and why."""
    if isinstance(kept.found, Damaged):
        return {"name": kept.name, "revision": kept.revision, "problem": kept.found.problem}
    return {"name": kept.name, "revision": kept.revision, **form.write(kept.found.record), **made(kept.found)}


def etag(kept: Kept[Any]) -> Mapping[str, str]:
    return {"ETag": f'"{kept.revision}"'}
