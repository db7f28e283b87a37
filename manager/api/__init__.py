"""The calls of the API, a file for each resource: it reads a request, calls a use case, and spells the answer.

routes.py                       adds the calls of all these but the legacy ones; the probes, a schedule's preview
overview.py jobs.py bulk.py run_now.py versions.py runs.py output.py workers.py statistics.py forecast.py timeline.py
crontab.py events.py system.py audit.py    ``/api/v1``
users.py services.py bindings.py explain.py access_fields.py
                                users, service accounts, bindings; who may do what, and what all of them take
login.py login_oidc.py tokens.py
                                login and logout, who the caller is, sessions, passwords; tokens
channels.py rules.py silences.py alerts.py notices.py notice_bodies.py
                                what is told to people: where, of what, when not; open problems; what came of it; what
                                these share
metrics.py legacy.py            ``/metrics``; the six calls of the legacy API
openapi.py operations.py schemas.py
                                the document of all calls; its calls, and what goes into them and comes out
"""
