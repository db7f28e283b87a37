"""What the handlers work with, under one typed key of the application; who a caller is; how JSON is spelled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2
from aiohttp import web

from common.clock import Clock
from common.etcd import EtcdClient
from common.runlog import RunLog
from manager.health import Health
from manager.history import History
from manager.housekeeping import Housekeeping
from manager.inventory import Inventory
from manager.presence import Presence
from manager.service import JobService


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The manager's parts, made once the application starts."""

    etcd: EtcdClient
    runlog: RunLog
    service: JobService
    inventory: Inventory
    history: History
    health: Health
    housekeeping: Housekeeping
    presence: Presence
    templates: jinja2.Environment
    static: Path
    clock: Clock
    read_timeout_s: float
    write_timeout_s: float
    notes: tuple[str, ...] = ()
    """What everybody who looks at the page should know, e.g. that there is no login."""


PARTS: Final = web.AppKey("parts", Parts)


def answer(document: object, *, status: int = 200) -> web.Response:
    """A success in compact JSON, as the parent spells it."""
    return web.Response(text=dumps(document), status=status, content_type="application/json")


def dumps(document: object) -> str:
    """Compact JSON in ASCII: what others wrote into the stores need not be Unicode, nor of JSON's types."""
    return json.dumps(document, separators=(",", ":"), default=str)


def caller(request: web.Request) -> str:
    """Who asks, until there is a login: ``console <address>`` for a browser, ``api <address>`` for anything else."""
    browser = "Sec-Fetch-Site" in request.headers or "Origin" in request.headers
    return f"{'console' if browser else 'api'} {request.remote or 'unknown'}"
