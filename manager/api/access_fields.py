"""The fields of users, service accounts and bindings, as calls take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from common.access.accounts import MOST_GROUPS, misleading
from common.access.rights import MOST_RUN_AS, WORKER
from common.access.selectors import ALL
from common.access.subjects import MAX_NAME, Subject, SubjectKind
from common.jobs.kinds import Kind, Pattern, Schema, Several
from common.jobs.reading import check_unicode, shown, wrong

NAME: Final = Pattern(
    pattern=r"[A-Za-z0-9][A-Za-z0-9._@+\-]{0,127}",
    form=f"1 to {MAX_NAME} letters, digits, dots, dashes, @, + and underscores, the first a letter or a digit",
    longest=MAX_NAME,
)
_GROUP_FORM: Final = f"a text of 1 to {MAX_NAME} characters, without control characters or spaces around it"
_PLAINLY: Final = (
    "leave out spaces around the group's name, and characters that are not seen or turn the direction of the text"
)
_RUN_AS: Final = Pattern(
    pattern=r"[A-Za-z0-9_@][A-Za-z0-9._\-]{0,31}", form=f"the name of a system user, or {WORKER}", longest=32
)


@dataclass(frozen=True)
class GroupName(Kind):
    """The name of a group of users."""

    type: str = "text"
    limits: str = _GROUP_FORM

    @property
    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": MAX_NAME}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise wrong(f"is {shown(value)}", f"needed: {_GROUP_FORM}")
        check_unicode(value)
        try:
            Subject(SubjectKind.GROUP, value)
        except ValueError:
            raise wrong(f"is {shown(value)}", f"needed: {_GROUP_FORM}") from None
        if misleading([value]):
            raise wrong(f"is {shown(value)}, which looks like another name", _PLAINLY)
        return value


GROUPS: Final = Several(of=GroupName(), what="groups", least=0, most=MOST_GROUPS, alone=False, unique=True)


@dataclass(frozen=True)
class Secret(Kind):
    """A password; no message repeats it. Its length is looked at by who knows what a password has to be."""

    type: str = "text"
    limits: str = "8 to 256 characters, none of the 10,000 most used passwords"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "minLength": 8, "maxLength": 256, "writeOnly": True}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise wrong("is no text", "needed: a text of 8 to 256 characters")
        check_unicode(value)
        return value


@dataclass(frozen=True)
class SubjectField(Kind):
    """Whom rights are given to."""

    type: str = "text"
    limits: str = "`user:alice`, `group:dba`, `service:deploy`, `uid:1000` or `gid:100`"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^(user|group|service|uid|gid):.{1,128}$"}

    def read(self, value: Any) -> Subject:
        needed = "needed: user:NAME, group:NAME, service:NAME, uid:NUMBER or gid:NUMBER"
        if not isinstance(value, str):
            raise wrong("is missing" if value is None else f"is {shown(value)}", needed)
        check_unicode(value)
        try:
            subject = Subject.parse(value)
        except ValueError:
            raise wrong(f"is {shown(value)}", needed) from None
        if subject.kind is SubjectKind.GROUP and misleading([subject.name]):
            raise wrong(f"is {shown(value)}, which looks like another name", _PLAINLY)
        return subject


@dataclass(frozen=True)
class RunAs(Kind):
    """The system users that jobs may run as; None inside: any."""

    type: str = "text or list"
    limits: str = f'"all", or up to {MOST_RUN_AS} names of system users; `{WORKER}`: the user that the worker gives'

    @property
    def schema(self) -> Schema:
        names: Schema = {"type": "array", "maxItems": MOST_RUN_AS, "items": _RUN_AS.schema}
        return {"anyOf": [{"type": "string", "const": ALL}, names]}

    def read(self, value: Any) -> frozenset[str] | None:
        if value == ALL:
            return None
        if not isinstance(value, list) or len(value) > MOST_RUN_AS:
            raise wrong(f"is {shown(value)}", f'needed: "all", or a list of at most {MOST_RUN_AS} names')
        return frozenset(_RUN_AS.read(one) for one in value)
