"""The manager: what users reach. It writes jobs and kills to etcd, and reads jobs, workers and runs back.

    legacy.py api.py *_api.py system.py pages.py openapi/
                                  handlers: read a request, call a use case, spell the answer; and the document of all
    service.py kills.py run_now.py drains.py unblock.py
                                  the use cases: save, pause, resume, delete; kill; run now; drain; a mark far ahead
    edits.py chain_edits.py merge_patch.py
                                  what one edit writes, as one etcd transaction (pure)
    watching.py catalog.py open_runs.py
                                  what a watch on etcd shows: jobs, runs that are going, workers; lists read only this
    rows.py fires.py fires_between.py history.py run_list.py pending.py versions.py inventory.py odd_names.py
                                  jobs as shown; their fires; runs, also waiting ones; former specs; what is read
                                  straight from etcd
    eligibility.py placing.py     who would take a fire, and why nobody could
    events.py waiting.py          live events: one hub, a bounded queue for each browser; waiting for what a watch shows
    views.py clock_views.py advice.py previews.py metrics.py
                                  the JSON shapes; the warnings of a save and the preview of a schedule; metrics (pure)
    housekeeping.py presence.py   background: deliver our own final records, show that we live
    health.py                     /livez and /readyz
    errors.py guards.py clock_guard.py idempotency.py malformed.py inputs.py json_text.py
                                  every error as JSON; who may call, and when not; the same call again; reading input
    assets.py texts.py https.py   the browser's files and words; the port with TLS
    parts.py wiring.py            what the handlers are given, and how it is put together
    app.py __main__.py            the application, and the process

A manager keeps nothing of its own: whatever two of them must agree on, a compare in an etcd transaction decides, and
what its watch shows is never the base of an edit. So any number of them may run at once, behind any proxy, and killing
one loses nothing.
"""
