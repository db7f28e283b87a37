"""Giving an etcd of our own its one user: from then on it asks everybody for a password."""

from __future__ import annotations

from typing import Any, Final

from common.errors import EtcdAccessError, Problem, UnavailableError
from common.etcd import _rpc, failures

FIRST_USER: Final = "root"
"""The name that etcd wants one user to have before it asks for passwords; that user may do everything."""
_ANSWER_S: Final = 5.0


async def ask_for_password(address: str, password: str) -> None:
    """When it returns, the etcd at this address lets nobody in but the user root, by this password.

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
