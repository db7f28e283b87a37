"""The first question to etcd: whether this configuration could ever work. Asked once, at the start of a program."""

from __future__ import annotations

from common.errors import ConfigError, EtcdAccessError, EtcdError, Problem, UnavailableError
from common.etcd.client import EtcdClient
from common.protocol.txn import never_writes


async def check_access(client: EtcdClient, key_prefix: str) -> None:
    """Returns where etcd lets us read and write under the prefix, or cannot be asked now; it changes nothing.

    ConfigError names the key to mend: TLS on one side only, a certificate that is not believed, a user or a password
    that etcd does not know, a user although etcd asks for none, a role without the permissions.
    """
    try:
        await client.txn(never_writes(key_prefix))
    except EtcdAccessError as error:
        raise ConfigError([_named(error.problem, key_prefix)]) from None
    except UnavailableError:
        # A certificate of etcd's that has expired is renewed there, and then this configuration works as it is.
        if problems := [problem for problem in await client.tls_problems() if problem.field != "etcdTls"]:
            raise ConfigError(problems) from None
    except EtcdError:
        return
    if client.user_is_ignored:
        message = "is set, and etcd asks nobody for a password: whoever reaches it may do anything"
        raise ConfigError([Problem(field="etcdUser", message=message, remedy="etcdctl auth enable, or take it out")])


def _named(problem: Problem, key_prefix: str) -> Problem:
    """With the very command, where a permission is missing."""
    if "permission denied" not in problem.message:
        return problem
    message = f"this user may not read and write every key under {key_prefix}/"
    remedy = f"etcdctl role grant-permission ROLE readwrite --prefix=true {key_prefix}/"
    return Problem(field=problem.field, message=message, remedy=remedy)
