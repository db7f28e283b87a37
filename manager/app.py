"""The application: its parts, its routes, its middlewares; and the loops that run beside it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from aiohttp import web

from common.clock import Clock, SystemClock
from common.configuration.config import ManagerConfig
from common.connections import open_etcd, open_runlog
from common.etcd import check_access
from common.protocol import permissions
from manager.access.audited import audited
from manager.access.cookies import STALE
from manager.access.guard import access_guard, credential_of
from manager.api import events, legacy, output, routes
from manager.api.openapi import take_none_where_there_are_none
from manager.console import pages
from manager.http.errors import errors_as_json, tell_what_was_done
from manager.http.guards import (
    MAX_BODY_BYTES,
    Hosts,
    add_headers,
    cut_who_takes_nothing,
    guard,
    tell_address,
    time_limit,
)
from manager.http.https import add_hsts
from manager.http.idempotency import idempotent
from manager.http.server import choose_coding, going_at_once, keep_malformed_quiet, paced
from manager.parts import PARTS
from manager.watch.events import Pace
from manager.wiring import make_parts

_log = logging.getLogger(__name__)

# A share of apiWriteTimeout: a call to etcd still leaves time to answer what is known.
_CALL_SHARE = 0.4
_TELLING = ("notifier", "messages")
"""The loops of notices."""


def create_app(config: ManagerConfig, *, clock: Clock | None = None, pace: Pace | None = None) -> web.Application:
    """The application of one manager. Its servers need not be there: what needs them answers 503 until they are."""
    keep_malformed_quiet()
    read_s, write_s = config.api_read_timeout_ms / 1000, config.api_write_timeout_ms / 1000
    hosts = Hosts([config.host, *config.allowed_hosts])
    app = web.Application(
        client_max_size=MAX_BODY_BYTES,
        middlewares=[
            paced(write_s),
            choose_coding,
            errors_as_json,
            tell_address(config.proxies),
            going_at_once(config.connections_per_address),
            audited(lambda request: request.app[PARTS].audit, lambda request: request.app[PARTS].clock.wall_ms()),
            guard(hosts),
            time_limit(read_s + write_s),
            access_guard(lambda request: request.app[PARTS].access),
            take_none_where_there_are_none,
            idempotent(lambda request: request.app[PARTS].calls, read_s=read_s, caller_of=credential_of),
            tell_what_was_done,
            pages.missing_page,
        ],
    )
    webroot = config.webroot or Path(str(files("webroot")))
    app.on_response_prepare.append(_add_headers)
    app.on_response_prepare.append(cut_who_takes_nothing(write_s))
    if config.tls_cert is not None:
        app.on_response_prepare.append(add_hsts)
    for resource in _resources():
        app.router.register_resource(resource)
    pages.prepare(app)
    output.prepare(app)
    events.prepare(app)

    async def servers(app: web.Application) -> AsyncIterator[None]:
        call_s = min(config.etcd_dial_timeout_ms / 1000, write_s * _CALL_SHARE)
        async with open_etcd(config, timeout_s=call_s) as etcd, open_runlog(config) as runlog:
            await check_access(etcd, permissions.of_manager(config.key_prefix))
            app[PARTS] = make_parts(config, etcd, runlog, webroot, clock or SystemClock(), pace or Pace())
            yield
            await app[PARTS].presence.close()
            await app[PARTS].audit.close()

    app.cleanup_ctx.append(servers)
    return app


@cache
def _resources() -> Sequence[web.AbstractResource]:
    """What answers at each path. Made once: two hundred routes take some milliseconds, and a test makes a manager."""
    made = web.Application()
    legacy.add_routes(made)
    routes.add_routes(made)
    pages.add_routes(made)
    return tuple(made.router.resources())


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    add_headers(response, request.path)
    if STALE in request:
        request.app[PARTS].cookies.forget(request, response, request[STALE])


def loops_of(app: web.Application) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """What has to run beside the application, once it is set up: by name."""
    parts = app[PARTS]
    loops = {
        "users and rights": parts.directory.run,
        "sessions in use": parts.keep_alive.run,
        "expired tokens": parts.tokens.run,
        "watching": parts.watching.run,
        "blocked jobs": parts.watching.blocked.run,
        "events": parts.events.run,
        "live output": parts.tails.run,
        "housekeeping": parts.housekeeping.run,
        "versions": parts.versions.run,
        "audit": parts.audit.write,
        "audit delivery": parts.audit.deliver,
        "audit head": parts.audit.publish_head,
        "presence": parts.presence.run,
        "notifier": parts.notifier.run,
        "messages": parts.sender.run,
        "health": parts.health.run,
        "clock": parts.clock_guard.watch.run,
        "clock check": parts.clock_guard.check.run,
    }
    return {name: loop for name, loop in loops.items() if parts.config.notifier or name not in _TELLING}


def notifier_loops_of(app: web.Application) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """What a notifier of its own runs, whatever its configuration says of managers."""
    parts = app[PARTS]
    return {
        "watching": parts.watching.run,
        "presence": parts.presence.run,
        "notifier": parts.notifier.run,
        "messages": parts.sender.run,
        "health": parts.health.run,
        "clock": parts.clock_guard.watch.run,
        "clock check": parts.clock_guard.check.run,
    }
