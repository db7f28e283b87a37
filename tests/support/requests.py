"""Every call of a manager, as a request that finds its way."""

from __future__ import annotations

import re

from tests.support.managing import Managed

_FILLED = {"name": "j", "id": "j%40100%231", "revision": "12", "path": "etcron.css"}


def every_call(manager: Managed) -> list[tuple[str, str]]:
    """(method, path) of each route: those of the API, the legacy API's, the pages', the probes'."""
    app = manager.http.server.app  # type: ignore[attr-defined]
    return sorted(
        (route.method, re.sub(r"\{(\w+)[^}]*\}", lambda match: _FILLED[match[1]], route.resource.canonical))
        for route in app.router.routes()
        if route.resource is not None
    )
