"""Every call says what it needs, and what a call needs is written down here once more, by hand."""

from __future__ import annotations

from aiohttp import web

from common.configuration.config import load_manager_config
from manager.access.audited import ACTIONS
from manager.access.needs import inventory
from manager.app import create_app
from manager.http.idempotency import READS

NOTHING, KNOWN, OWN = "nothing", "known", "known, guarded"
ADMINS = "admin everywhere, guarded"
"""A known administrator, also where no login is asked for."""
EXPECTED = {
    "GET /": NOTHING,
    "GET /jobs": NOTHING,
    "GET /new": NOTHING,
    "GET /notifications": NOTHING,
    "GET /jobs/{name}": NOTHING,
    "GET /jobs/{name}/edit": NOTHING,
    "GET /runs": NOTHING,
    "GET /runs/{id}": NOTHING,
    "GET /workers": NOTHING,
    "GET /timeline": NOTHING,
    "GET /workers/{name}": NOTHING,
    "GET /system": NOTHING,
    "GET /login": NOTHING,
    "GET /account": NOTHING,
    "GET /access": NOTHING,
    "GET /crontab": NOTHING,
    "GET /alerts": NOTHING,
    "GET /audit": NOTHING,
    "GET /static/{path}": NOTHING,
    "GET /livez": NOTHING,
    "GET /readyz": NOTHING,
    "GET /metrics": "viewer everywhere",
    "POST /job/save": "editor",
    "POST /job/delete": "editor",
    "POST /job/kill": "operator",
    "GET /job/list": "viewer",
    "GET /job/log": "viewer",
    "GET /worker/list": "viewer",
    "GET /api/v1/overview": "viewer",
    "GET /api/v1/jobs": "viewer",
    "POST /api/v1/jobs/check": "editor",
    "POST /api/v1/jobs/bulk": "operator",
    "POST /api/v1/crontab": "editor",
    "POST /api/v1/crontab/preview": "editor",
    "GET /api/v1/jobs/{name}": "viewer",
    "PUT /api/v1/jobs/{name}": "editor",
    "PATCH /api/v1/jobs/{name}": "editor",
    "DELETE /api/v1/jobs/{name}": "editor",
    "POST /api/v1/jobs/{name}/pause": "operator",
    "POST /api/v1/jobs/{name}/resume": "operator",
    "POST /api/v1/jobs/{name}/unblock": "admin",
    "POST /api/v1/jobs/{name}/kill": "operator",
    "POST /api/v1/jobs/{name}/run": "operator",
    "GET /api/v1/jobs/{name}/calendar": "viewer",
    "GET /api/v1/jobs/{name}/durations": "viewer",
    "GET /api/v1/jobs/{name}/fires": "viewer",
    "GET /api/v1/deleted-jobs": "viewer",
    "GET /api/v1/jobs/{name}/versions": "viewer",
    "GET /api/v1/jobs/{name}/versions/{revision}": "viewer",
    "GET /api/v1/jobs/{name}/versions/{revision}/compare": "viewer",
    "POST /api/v1/jobs/{name}/versions/{revision}/restore": "editor",
    "GET /api/v1/forecast": "viewer",
    "GET /api/v1/forecast/week": "viewer",
    "GET /api/v1/forecast/jobs": "viewer",
    "POST /api/v1/forecast/spread": "viewer",
    "GET /api/v1/timeline": "viewer",
    "GET /api/v1/runs": "viewer",
    "GET /api/v1/runs/{id}": "viewer",
    "GET /api/v1/runs/{id}/output": "viewer",
    "POST /api/v1/runs/{id}/kill": "operator",
    "POST /api/v1/runs/{id}/give-up": "operator",
    "GET /api/v1/statistics": "viewer",
    "GET /api/v1/workers": "viewer",
    "GET /api/v1/workers/{name}": "viewer",
    "GET /api/v1/workers/{name}/history": "viewer",
    "POST /api/v1/workers/{name}/drain": "admin everywhere",
    "POST /api/v1/workers/{name}/undrain": "admin everywhere",
    "DELETE /api/v1/workers/{name}": "admin everywhere",
    "GET /api/v1/login": NOTHING,
    "POST /api/v1/login": NOTHING,
    "POST /api/v1/login/link": NOTHING,
    "GET /api/v1/login/oidc": NOTHING,
    "GET /api/v1/login/oidc/callback": NOTHING,
    "POST /api/v1/logout": OWN,
    "GET /api/v1/whoami": KNOWN,
    "POST /api/v1/password": OWN,
    "GET /api/v1/sessions": OWN,
    "DELETE /api/v1/sessions/{id}": OWN,
    "GET /api/v1/tokens": OWN,
    "POST /api/v1/tokens": OWN,
    "DELETE /api/v1/tokens/{id}": OWN,
    "POST /api/v1/schedule/preview": "viewer",
    "GET /api/v1/audit": "admin everywhere, guarded",
    "GET /api/v1/audit/verify": "admin everywhere, guarded",
    "GET /api/v1/system": "viewer",
    "GET /api/v1/events": "viewer",
    "GET /api/v1/openapi.json": KNOWN,
    "GET /api/v1/users": ADMINS,
    "POST /api/v1/users": ADMINS,
    "GET /api/v1/users/{name}": ADMINS,
    "PATCH /api/v1/users/{name}": ADMINS,
    "DELETE /api/v1/users/{name}": ADMINS,
    "GET /api/v1/services": ADMINS,
    "POST /api/v1/services": ADMINS,
    "PATCH /api/v1/services/{name}": ADMINS,
    "DELETE /api/v1/services/{name}": ADMINS,
    "GET /api/v1/bindings": ADMINS,
    "POST /api/v1/bindings": ADMINS,
    "DELETE /api/v1/bindings/{id}": ADMINS,
    "GET /api/v1/access/explain": ADMINS,
    "GET /api/v1/channels": "viewer everywhere",
    "POST /api/v1/channels": ADMINS,
    "GET /api/v1/channels/{name}": "viewer everywhere",
    "PUT /api/v1/channels/{name}": ADMINS,
    "DELETE /api/v1/channels/{name}": ADMINS,
    "POST /api/v1/channels/{name}/test": ADMINS,
    "GET /api/v1/rules": "viewer everywhere",
    "POST /api/v1/rules": "editor everywhere",
    "GET /api/v1/rules/{name}": "viewer everywhere",
    "PUT /api/v1/rules/{name}": "editor everywhere",
    "DELETE /api/v1/rules/{name}": "editor everywhere",
    "GET /api/v1/silences": "viewer",
    "POST /api/v1/silences": "operator",
    "DELETE /api/v1/silences/{id}": "operator",
    "GET /api/v1/alerts": "viewer",
    "POST /api/v1/alerts/ack": "operator",
    "GET /api/v1/jobs/{name}/notifications": "viewer",
    "GET /api/v1/notices": "viewer everywhere",
    "GET /api/v1/notices/{id}": "viewer everywhere",
    "POST /api/v1/notices/{id}/resend": "admin everywhere",
}


def _app() -> web.Application:
    return create_app(load_manager_config(None, {}, {}))


def test_each_call_needs_what_is_written_here() -> None:
    found = {f"{method} {path}": str(need) for (method, path), need in inventory(_app()).items()}
    assert found == EXPECTED


def test_calls_are_the_same_for_each_manager_of_a_process_and_made_once() -> None:
    one, other = _app(), _app()
    assert [*one.router.resources()] == [*other.router.resources()]
    assert one.router is not other.router


def test_each_call_that_may_change_something_has_a_word_in_the_audit() -> None:
    calls = {
        (method, path) for method, path in inventory(_app()) if method not in {"GET", "HEAD"} and path not in READS
    }
    assert {f"{method} {path}" for method, path in calls - ACTIONS.keys()} == set()
    assert {f"{method} {path}" for method, path in ACTIONS.keys() - inventory(_app()).keys()} == set(), "no such call"


def test_call_that_says_nothing_is_found() -> None:
    async def forgotten(request: web.Request) -> web.Response:
        return web.Response()

    app = _app()
    app.router.add_get("/forgotten", forgotten)
    assert inventory(app)["GET", "/forgotten"] is None
