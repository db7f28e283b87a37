"""Users and roles of an etcd, by its own API: what an operator does with etcdctl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc  # type: ignore[import-untyped,unused-ignore]
import grpc.aio  # type: ignore[import-untyped,unused-ignore]
from aetcd import rpc

from common.etcd import _rpc
from common.protocol.permissions import May, Permission

ROOT_PASSWORD = "root-geheim"
PASSWORD = "worker-geheim"
USER = "etcron"


class Admin:
    """The root user of one etcd; an async context manager."""

    def __init__(self, endpoint: str) -> None:
        self._channel: Any = grpc.aio.insecure_channel(endpoint)
        self._auth: Any = rpc.AuthStub(self._channel)
        self._metadata: tuple[tuple[str, str], ...] = ()

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def enable(self, prefix: str, *, may: str = "READWRITE") -> None:
        """Users root and etcron; the latter with this permission on the prefix alone; then authentication is on."""
        messages = _rpc.messages
        await self._auth.UserAdd(messages.AuthUserAddRequest(name="root", password=ROOT_PASSWORD))
        await self._auth.RoleAdd(messages.AuthRoleAddRequest(name="root"))
        await self._auth.UserGrantRole(messages.AuthUserGrantRoleRequest(user="root", role="root"))
        await self._auth.RoleAdd(messages.AuthRoleAddRequest(name=USER))
        await self._auth.UserAdd(messages.AuthUserAddRequest(name=USER, password=PASSWORD))
        await self._auth.UserGrantRole(messages.AuthUserGrantRoleRequest(user=USER, role=USER))
        permission = {"permType": may, "key": prefix.encode(), "range_end": prefix[:-1].encode() + b"0"}
        await self._auth.RoleGrantPermission(messages.AuthRoleGrantPermissionRequest(name=USER, perm=permission))
        await self._auth.AuthEnable(messages.AuthEnableRequest())

    async def enable_roles(self, **roles: Sequence[Permission]) -> None:
        """A user and a role of each of these names, with these permissions; then authentication is on."""
        messages = _rpc.messages
        await self._auth.UserAdd(messages.AuthUserAddRequest(name="root", password=ROOT_PASSWORD))
        await self._auth.RoleAdd(messages.AuthRoleAddRequest(name="root"))
        await self._auth.UserGrantRole(messages.AuthUserGrantRoleRequest(user="root", role="root"))
        for name, permissions in roles.items():
            await self._auth.RoleAdd(messages.AuthRoleAddRequest(name=name))
            await self._auth.UserAdd(messages.AuthUserAddRequest(name=name, password=PASSWORD))
            await self._auth.UserGrantRole(messages.AuthUserGrantRoleRequest(user=name, role=name))
            for one in permissions:
                may = "READ" if one.may is May.READ else "READWRITE"
                end = one.prefix[:-1].encode() + bytes([one.prefix.encode()[-1] + 1])
                given = {"permType": may, "key": one.prefix.encode(), "range_end": end}
                await self._auth.RoleGrantPermission(messages.AuthRoleGrantPermissionRequest(name=name, perm=given))
        await self._auth.AuthEnable(messages.AuthEnableRequest())

    async def change_password(self, password: str) -> None:
        """Of the user etcron; every token of his ends with it."""
        await self._log_in()
        request = _rpc.messages.AuthUserChangePasswordRequest(name=USER, password=password)
        await self._auth.UserChangePassword(request, metadata=self._metadata)

    async def grant(self, start: str, end: str) -> None:
        """The user etcron may read and write the keys from ``start`` up to, and without, ``end``."""
        await self._log_in()
        permission = {"permType": 2, "key": start.encode(), "range_end": end.encode()}
        request = _rpc.messages.AuthRoleGrantPermissionRequest(name=USER, perm=permission)
        await self._auth.RoleGrantPermission(request, metadata=self._metadata)

    async def revoke(self, start: str, end: str) -> None:
        """That is over; what else was granted stays."""
        await self._log_in()
        request = _rpc.messages.AuthRoleRevokePermissionRequest(
            role=USER, key=start.encode(), range_end=end.encode()
        )  # fmt: skip
        await self._auth.RoleRevokePermission(request, metadata=self._metadata)

    async def forbid(self, prefix: str, *keys: str) -> None:
        """Of all keys under the prefix, those that start with one of these (in order) may not be touched any more."""
        start, end = prefix, prefix[:-1] + "0"
        for key in keys:
            await self.grant(start, key)
            start = key[:-1] + chr(ord(key[-1]) + 1)
        await self.grant(start, end)
        await self.revoke(prefix, end)

    async def disable(self) -> None:
        """Nobody is asked any more."""
        await self._log_in()
        await self._auth.AuthDisable(_rpc.messages.AuthDisableRequest(), metadata=self._metadata)

    async def _log_in(self) -> None:
        request = _rpc.messages.AuthenticateRequest(name="root", password=ROOT_PASSWORD)
        answer = await self._auth.Authenticate(request)
        self._metadata = (("token", answer.token),)
