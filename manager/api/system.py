"""``GET /api/v1/system``: what this manager is, how it is configured, what it sees, and which others there are."""

from __future__ import annotations

import ipaddress
import json
import platform
from typing import Any

from aiohttp import web

from common.access.callers import AuthMode
from common.access.rights import Role
from common.configuration.config import ManagerConfig, shown
from common.errors import EtcdError, UnavailableError
from common.protocol.member import Beat
from common.version import VERSION
from manager.access.needs import needs
from manager.access.recovery import recovery_notes
from manager.cluster.clocks import clock_view
from manager.parts import PARTS, Parts, answer, rights


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/system", show_system)


@needs(Role.VIEWER)
async def show_system(request: web.Request) -> web.Response:
    """Everything at once; what a server that is away would say is left out, and `ready` says so.

    How it is configured, and what there is to note, is for those who administer everything.
    """
    parts = request.app[PARTS]
    is_admin = rights(request).has_everywhere(Role.ADMIN)
    report = await parts.health.look(rights(request))
    now_ms = parts.clock.wall_ms()
    configuration = [{"key": key, "value": value, "origin": origin} for key, value, origin in shown(parts.config)]
    return answer(
        {
            "version": VERSION,
            "python": platform.python_version(),
            "manager": parts.name,
            "ready": report.document(verbose=True),
            "configuration": configuration if is_admin else [],
            "managers": await _managers(parts),
            "nowMs": now_ms,
            "unauthenticatedBeyondLoopback": is_open_to_all(parts.config),
            "eventClients": len(parts.events),
            "notes": [*recovery_notes(parts.directory, now_ms=now_ms), *parts.notes] if is_admin else [],
        }
    )


def is_open_to_all(config: ManagerConfig) -> bool:
    """Whether it listens beyond this machine although there is no login."""
    if config.auth is AuthMode.REQUIRED:
        return False
    host = config.host.strip("[]")
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


async def _managers(parts: Parts) -> list[dict[str, Any]]:
    try:
        beats, clocks = await parts.inventory.beats(), await parts.inventory.clocks()
    except (EtcdError, UnavailableError):
        return []
    views: list[dict[str, Any]] = []
    for name, value in sorted(beats.items()):
        try:
            beat = Beat.from_json(value)
            version = json.loads(value).get("version")
        except ValueError:
            continue
        if beat.kind != "manager":
            continue
        views.append(
            {
                "id": name,
                "host": name.removeprefix("manager.").rpartition(".")[0],
                "version": version if isinstance(version, str) else None,
                "wallMs": beat.wall_ms,
                "load": beat.load,
                "memoryPercent": beat.memory_percent,
                **clock_view(clocks, name, parts.clock_guard.max_skew_ms),
            }
        )
    return views
