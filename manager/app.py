"""The application: its parts, its routes, its middlewares; and the loops that run beside it."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import Path

from aiohttp import web

from common.clock import Clock, SystemClock
from common.config import ManagerConfig
from common.config_keys import redact_uri
from common.etcd import EtcdClient
from common.keys import Keys
from common.runlog import RunLog
from manager import api, legacy, pages
from manager.errors import errors_as_json
from manager.guards import MAX_BODY_BYTES, Hosts, add_headers, guard, time_limit
from manager.health import Health
from manager.history import History
from manager.housekeeping import Housekeeping
from manager.inventory import Inventory
from manager.parts import PARTS, Parts
from manager.presence import Presence
from manager.service import JobService

_log = logging.getLogger(__name__)

# Shares of apiWriteTimeout: a call to etcd, then its last repetition, still leave time to answer what is known.
_CALL_SHARE = 0.4
_PATIENCE_SHARE = 0.5


def create_app(config: ManagerConfig, *, clock: Clock | None = None) -> web.Application:
    """The application of one manager. Its servers need not be there: what needs them answers 503 until they are."""
    read_s, write_s = config.api_read_timeout_ms / 1000, config.api_write_timeout_ms / 1000
    hosts = Hosts([config.host, *config.allowed_hosts])
    app = web.Application(
        client_max_size=MAX_BODY_BYTES,
        middlewares=[errors_as_json, guard(hosts), time_limit(read_s + write_s)],
    )
    webroot = config.webroot or Path(str(files("webroot")))
    app.on_response_prepare.append(add_headers)
    legacy.add_routes(app)
    api.add_routes(app)
    pages.add_routes(app)

    async def servers(app: web.Application) -> AsyncIterator[None]:
        async with _etcd(config, write_s) as etcd, _runlog(config) as runlog:
            app[PARTS] = _parts(config, etcd, runlog, webroot, clock or SystemClock())
            yield

    app.cleanup_ctx.append(servers)
    return app


def loops_of(app: web.Application) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """What has to run beside the application, once it is set up: by name."""
    parts = app[PARTS]
    return {"housekeeping": parts.housekeeping.run, "presence": parts.presence.run, "health": parts.health.run}


def _etcd(config: ManagerConfig, write_s: float) -> EtcdClient:
    return EtcdClient(config.etcd_endpoints, timeout=min(config.etcd_dial_timeout_ms / 1000, write_s * _CALL_SHARE))


def _runlog(config: ManagerConfig) -> RunLog:
    return RunLog(
        config.mongodb_uri, database=config.mongodb_database, connect_timeout_ms=config.mongodb_connect_timeout_ms
    )


def _parts(config: ManagerConfig, etcd: EtcdClient, runlog: RunLog, webroot: Path, clock: Clock) -> Parts:
    keys = Keys(config.key_prefix)
    read_s, write_s = config.api_read_timeout_ms / 1000, config.api_write_timeout_ms / 1000
    housekeeping = Housekeeping(etcd, runlog)
    inventory = Inventory(etcd, keys)
    # Random: nothing is kept under this name, and two managers must never have the same.
    name = f"manager.{socket.gethostname()}.{secrets.token_hex(4)}"
    return Parts(
        etcd=etcd,
        runlog=runlog,
        service=JobService(
            etcd, keys, clock=clock, timings=config.timings, deliver=housekeeping.deliver,
            patience_s=write_s * _PATIENCE_SHARE,
        ),
        inventory=inventory,
        history=History(etcd, runlog, keys, clock=clock, deadline_s=write_s * _PATIENCE_SHARE),
        health=Health(etcd, runlog, inventory, clock=clock, log_store=redact_uri(config.mongodb_uri)),
        housekeeping=housekeeping,
        presence=Presence(etcd, keys, name=name, clock=clock, ttl_s=config.lease_ttl_s),
        templates=pages.templates_in(webroot),
        static=(webroot / "static").resolve(),
        clock=clock,
        read_timeout_s=read_s,
        write_timeout_s=write_s,
        notes=config.notes,
    )  # fmt: skip
