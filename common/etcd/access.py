"""The first questions to etcd: whether this configuration could ever work. Asked once, at the start.

An etcd of our own is given its one user here: from then on it asks everybody for a password.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from common.errors import ConfigError, EtcdAccessError, EtcdError, Problem, UnavailableError
from common.etcd import _rpc, failures
from common.etcd.auth import SUPERUSER
from common.etcd.client import EtcdClient
from common.protocol.permissions import May, Permission, probe


async def check_access(client: EtcdClient, needed: Sequence[Permission]) -> None:
    """Returns where etcd lets us do what is needed, or cannot be asked now; it changes nothing.

    ConfigError names the key to mend: TLS on one side only, a certificate that is not believed, a user or a password
    that etcd does not know, a user although etcd asks for none, a role without the permissions.
    """
    needed = [one for one in needed if one.is_needed]
    try:
        await client.txn(probe(*needed))
    except EtcdAccessError as error:
        problem = error.problem
        if "permission denied" in problem.message:  # with the very command that gives it
            raise ConfigError(await _missing(client, needed) or [problem]) from None
        raise ConfigError([problem]) from None
    except UnavailableError:
        # A certificate of etcd's that has expired is renewed there, and then this configuration works as it is.
        if problems := [problem for problem in await client.tls_problems() if problem.field != "etcdTls"]:
            raise ConfigError(problems) from None
    except EtcdError:
        return
    if client.user_is_ignored:
        message = "is set, and etcd asks nobody for a password: whoever reaches it may do anything"
        raise ConfigError([Problem(field="etcdUser", message=message, remedy="etcdctl auth enable, or take it out")])


async def _missing(client: EtcdClient, needed: Sequence[Permission]) -> list[Problem]:
    """Those of the permissions that this user lacks, each with the very command that gives it."""
    missing = []
    for one in needed:
        try:
            await client.txn(probe(one))
        except EtcdAccessError as error:
            what = "read and write" if one.may is May.READ_AND_WRITE else "read"
            message = f"this user may not {what} every key under {one.prefix}"
            missing.append(Problem(field=error.problem.field, message=message, remedy=one.command.format(role="ROLE")))
        except (EtcdError, UnavailableError):
            continue
    return missing


FIRST_USER: Final = SUPERUSER
"""The name that etcd wants one user to have before it asks for passwords; that user may do everything."""
_ANSWER_S: Final = 5.0


async def ask_for_password(address: str, password: str) -> None:
    """When it returns, the etcd at this address lets no one in but the user root, by this password.

    It may be done again, also where it was interrupted. EtcdAccessError: there are users already, and another password;
    UnavailableError: no answer.
    """
    channel = _rpc.Channel(address)
    try:
        if await _is_asked(channel, password):
            return
        messages = _rpc.messages
        user = {"name": FIRST_USER, "password": password}
        if not await _done(channel.auth.UserAdd, messages.AuthUserAddRequest(**user)):
            await channel.auth.UserChangePassword(messages.AuthUserChangePasswordRequest(**user), timeout=_ANSWER_S)
        await _done(channel.auth.RoleAdd, messages.AuthRoleAddRequest(name=FIRST_USER))
        grant = messages.AuthUserGrantRoleRequest(user=FIRST_USER, role=FIRST_USER)
        await channel.auth.UserGrantRole(grant, timeout=_ANSWER_S)
        await channel.auth.AuthEnable(messages.AuthEnableRequest(), timeout=_ANSWER_S)
    except _rpc.RpcError as error:
        raise UnavailableError(f"etcd at {address} was not given its user: {failures.describe(error)}") from None
    finally:
        await channel.close()


async def _is_asked(channel: _rpc.Channel, password: str) -> bool:
    """Whether etcd asks for passwords, and knows this one."""
    request = _rpc.messages.AuthenticateRequest(name=FIRST_USER, password=password)
    try:
        await channel.authenticate(request, timeout=_ANSWER_S)
    except _rpc.RpcError as error:
        if failures.auth_is_off(error):
            return False
        if failures.meaning_of(error) is not failures.Meaning.REFUSED:
            raise
        message = f"etcd at {channel.address} has users, and another password for {FIRST_USER}"
        raise EtcdAccessError(Problem(field="etcdPasswordFile", message=message, remedy="put its file back")) from None
    return True


async def _done(call: Any, request: Any) -> bool:
    """Whether it was done now; False: it had been, before."""
    try:
        await call(request, timeout=_ANSWER_S)
    except _rpc.RpcError as error:
        if "already exists" not in _rpc.details_of(error):
            raise
        return False
    return True
