"""The only place that touches the untyped packages (aetcd.rpc, grpc): everything else is given `Any` from here.

`aetcd.rpc` has good protobuf messages for etcd's API; its client is not used (one endpoint, no deadlines). The calls
are made on grpc.aio channels whose options are chosen below, each with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar

# Set before grpc is there: else it ends its threads before each fork and makes them anew after it. Where the machine
# has no process left, Popen forks in vain, and grpc aborts this process once it could not make a thread for ten
# seconds. What we fork executes something else at once, and has no use for grpc.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
# The machine's own resolver. That of grpc (c-ares) puts lines of /etc/hosts together that have any name in common: with
# `10.77.0.1 m1 cron.example.org` and `10.77.0.2 m2 cron.example.org`, m1 is 10.77.0.2, too.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
# grpc's older way to read and write, in the thread that waits for answers. By the newer one (the usual one in 1.85) a
# put passes threads of a pool: 9 switches of threads where 3 do, for which the processor has 8 to 22 % more to do.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")

import grpc  # type: ignore[import-untyped,unused-ignore]
import grpc.aio  # type: ignore[import-untyped,unused-ignore]
from aetcd import rpc as _rpc  # type: ignore[import-untyped,unused-ignore]

messages: Any = _rpc
"""The protobuf messages of etcd's API (RangeRequest, TxnRequest, ...)."""

RpcError: type[Exception] = grpc.aio.AioRpcError
UsageError: type[Exception] = grpc.aio.UsageError

READY: Any = grpc.ChannelConnectivity.READY
TRANSIENT_FAILURE: Any = grpc.ChannelConnectivity.TRANSIENT_FAILURE

END_OF_STREAM: Any = grpc.aio.EOF

HAS_LEADER = (("hasleader", "true"),)
"""Metadata: a member that knows of no leader answers `no leader` at once, before it looks at the request."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Larger answers are refused by this side; `read_prefix` then asks for fewer keys."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", -1),  # etcd itself refuses what is too large, with a better message
    # A dead connection is found within 6 + 4 s. etcd closes connections that ping more often than every 5 s, or
    # without a call going; the probes for bandwidth count as pings.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # what grpc goes by; the line above alone leaves it at a minute
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    # An etcd that was restarted is found again within about a second; a connection attempt gives up after two.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Nothing is sent twice behind our back, and nothing but the given address decides where it goes.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


def tls_credentials(ca: bytes | None, key: bytes | None, cert: bytes | None) -> Any:
    """What a channel with TLS is made with, from PEM; grpc looks at it when it connects."""
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)


_DESCRIPTORS = 16
"""For its pollers and its first connection grpc takes six to eight."""


def lacks_descriptors() -> bool:
    """Whether there are too few to begin with: where grpc gets none for its pollers, it takes this process with it."""
    if Channel.was_made:
        return False
    with ExitStack() as stack:
        try:
            for _ in range(_DESCRIPTORS):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return True
    return False


def _channel(address: str, credentials: Any, server_name: str | None) -> Any:
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=_OPTIONS)
    name = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
    return grpc.aio.secure_channel(address, credentials, options=(*_OPTIONS, *name))


class Channel:
    """One connection to one etcd member, made when first used and made again by itself when it breaks.

    It ends when nothing has the channel any more; calls and streams have it, so let go of, it outlasts them.
    """

    was_made: ClassVar[bool] = False
    """Any, in this process: grpc has what it needs."""

    def __init__(self, address: str, *, credentials: Any = None, server_name: str | None = None) -> None:
        self.address = address
        self._channel: Any = _channel(address, credentials, server_name)
        Channel.was_made = True
        kv = _rpc.KVStub(self._channel)
        lease = _rpc.LeaseStub(self._channel)
        maintenance = _rpc.MaintenanceStub(self._channel)
        self.range: Callable[..., Any] = kv.Range
        self.put: Callable[..., Any] = kv.Put
        self.delete: Callable[..., Any] = kv.DeleteRange
        self.txn: Callable[..., Any] = kv.Txn
        self.compact: Callable[..., Any] = kv.Compact
        self.lease_grant: Callable[..., Any] = lease.LeaseGrant
        self.lease_revoke: Callable[..., Any] = lease.LeaseRevoke
        self.lease_keep_alive: Callable[..., Any] = lease.LeaseKeepAlive
        self.watch: Callable[..., Any] = _rpc.WatchStub(self._channel).Watch
        self.status: Callable[..., Any] = maintenance.Status
        self.alarm: Callable[..., Any] = maintenance.Alarm
        self.auth: Any = _rpc.AuthStub(self._channel)
        self.authenticate: Callable[..., Any] = self.auth.Authenticate

    def state(self) -> Any:
        """The connection's state now; asks for a connection where there is none."""
        return self._channel.get_state(try_to_connect=True)

    async def state_other_than(self, state: Any) -> None:
        """Returns once the state is no longer `state`."""
        await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        """Ends the connection and its calls: a task that waits for one gets CancelledError, though not cancelled."""
        await self._channel.close()


def code_of(error: Exception) -> str:
    """The grpc status of an `RpcError`, e.g. `UNAVAILABLE`."""
    code = getattr(error, "code", lambda: None)()
    return str(code.name) if code is not None else "UNKNOWN"


def details_of(error: Exception) -> str:
    """The text that came with an `RpcError`."""
    return str(getattr(error, "details", lambda: "")() or "")
