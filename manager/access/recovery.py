"""The last resort, on a manager's host, with its configuration: without a login, written directly to etcd.

A user who can read a manager's configuration can write to etcd, and so may do everything anyway; this gives them a way
that is recorded.
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Any, Final

from common.access.audit_chain import Note, Outcome
from common.access.credentials import ID_BYTES, LoginSession, SessionWay
from common.access.rights import Grant, Role
from common.access.selectors import EVERYTHING
from common.access.subjects import Subject, SubjectKind
from common.clock import SystemClock
from common.configuration.config import ManagerConfig
from common.connections import open_etcd
from common.errors import ConflictError, InvalidInputError
from common.etcd import EtcdClient
from common.protocol import audit_notes
from common.protocol.access_keys import AccessKeys
from common.protocol.account_edits import Ways
from manager.access.directory import Directory
from manager.access.logins import make_link
from manager.access.passwords import Passwords
from manager.use_cases.access_records import AccessRecords
from manager.use_cases.accounts import AccountService
from manager.use_cases.bindings import BindingService

RECOVERY_S: Final = 900
"""A recovery's link is good for so long, and its session, too; whatever is shorter-lived is one."""
_ANSWER_S: Final = 5.0
_PATIENCE_S: Final = 20.0


async def create_administrator(config: ManagerConfig, name: str, password: str, *, another: bool) -> None:
    """A user who may do everything; the audit will have it.

    ConflictError: there is an administrator, or the name is taken.
    InvalidInputError: no user may have this password. UnavailableError.
    """
    passwords = Passwords()
    if (problem := await passwords.problem(password, field="password")) is not None:
        raise InvalidInputError([problem])
    async with open_etcd(config, timeout_s=_ANSWER_S) as etcd:
        records = AccessRecords(
            etcd, AccessKeys(config.key_prefix), clock=SystemClock(), patience_s=_PATIENCE_S,
            ways=Ways(provider=config.oidc_issuer is not None or config.proxy_user_header is not None),
            known=_at_once,
        )  # fmt: skip
        if not another and await records.an_administrator_remains(await records.bindings()) is not None:
            raise ConflictError(
                "there is an administrator already: ask them, or give --another; etcron admin recover lets you in "
                "for a quarter of an hour"
            )
        by = _who()
        await AccountService(records).add_user(name, password=await passwords.hash(password), groups=(), by=by)
        grant = Grant(role=Role.ADMIN, labels=EVERYTHING, run_as=None, workers=EVERYTHING)
        await BindingService(records).add(Subject(SubjectKind.USER, name), grant, by=by)
        await leave_note(etcd, records.keys, "admin.create", f"user {name}", another=another)


async def recover(config: ManagerConfig) -> str:
    """The secret of a link by which a browser may do everything for a quarter of an hour, once; the audit will have it.

    UnavailableError.
    """
    async with open_etcd(config, timeout_s=_ANSWER_S) as etcd:
        await leave_note(etcd, AccessKeys(config.key_prefix), "admin.recover", "", goodForS=RECOVERY_S)
    return await make_owner_link(
        config, reason="etcron admin recover", good_for_s=RECOVERY_S, session_s=RECOVERY_S
    )  # fmt: skip


async def leave_note(
    etcd: EtcdClient, keys: AccessKeys, action: str, of: str, *, command: str = "etcron admin", **details: Any
) -> None:
    """The next manager that runs takes it into its audit. UnavailableError."""
    note = Note(
        ms=SystemClock().wall_ms(), who=_who(command), via="", address="", action=action, object=of,
        outcome=Outcome.DONE, details={"host": socket.gethostname(), **details},
    )  # fmt: skip
    await etcd.txn(audit_notes.put(keys, secrets.token_hex(ID_BYTES), note))


async def make_owner_link(config: ManagerConfig, *, reason: str, good_for_s: int, session_s: int) -> str:
    """The secret of a link by which a browser may do everything, as the system user who runs this. UnavailableError."""
    async with open_etcd(config, timeout_s=_ANSWER_S) as etcd:
        return await make_link(
            etcd, AccessKeys(config.key_prefix), subject=Subject(SubjectKind.UID, str(os.getuid())), role=Role.ADMIN,
            reason=reason, now_ms=SystemClock().wall_ms(), good_for_s=good_for_s, session_s=session_s,
        )  # fmt: skip


def _who(command: str = "etcron admin") -> str:
    return f"{command}, uid {os.getuid()}"


async def _at_once(_: int) -> None:
    """No manager has to know: the next login asks etcd."""


def recoveries(directory: Directory, *, now_ms: int) -> list[LoginSession]:
    """The sessions by the last resort; that which ends last comes first."""
    found = (
        session
        for session in (held.record for held in directory.sessions.values())
        if session.way is SessionWay.LINK
        and session.role is not None
        and session.expires_ms - session.created_ms <= RECOVERY_S * 1000
        and session.expires_ms > now_ms
    )
    return sorted(found, key=lambda session: session.expires_ms, reverse=True)


def recovery_notes(directory: Directory, *, now_ms: int) -> list[str]:
    """What administrators see of each recovery."""
    return [
        f"RECOVERY: {session.subject} is in by etcron admin recover, from {session.address}, and may do everything "
        f"for {max(1, (session.expires_ms - now_ms) // 60_000)} min more"
        for session in recoveries(directory, now_ms=now_ms)
    ]


def recovery_shown(directory: Directory, *, now_ms: int) -> dict[str, Any] | None:
    """What every user sees of a recovery: who may do everything, and until when. None: there is none."""
    newest = next(iter(recoveries(directory, now_ms=now_ms)), None)
    return None if newest is None else {"who": str(newest.subject), "untilMs": newest.expires_ms}
