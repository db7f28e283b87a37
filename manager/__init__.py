"""The manager: what users reach. It writes jobs and kills to etcd, and reads jobs, workers and runs back.

    legacy.py api.py *_api.py system.py pages.py
                                  handlers: read a request, call a use case, spell the answer
    service.py kills.py           the use cases: save, pause, resume, delete; kill
    edits.py                      what one edit writes, as one etcd transaction (pure)
    watching.py catalog.py open_runs.py
                                  what a watch on etcd shows: jobs, runs that are going, workers; lists read only this
    rows.py fires.py history.py inventory.py
                                  jobs as shown; their fires; runs; what is read straight from etcd
    events.py                     live events: one hub, a bounded queue for each browser
    views.py advice.py previews.py
                                  the JSON shapes; the warnings of a save and the preview of a schedule (pure)
    housekeeping.py presence.py   background: deliver our own final records, show that we live
    health.py                     /livez and /readyz
    metrics.py metrics_api.py     /metrics
    errors.py guards.py inputs.py every error as JSON, who may call, how input is read
    parts.py wiring.py            what the handlers are given, and how it is put together
    app.py __main__.py            the application, and the process

A manager keeps nothing of its own: whatever two of them must agree on, a compare in an etcd transaction decides, and
what its watch shows is never the base of an edit. So any number of them may run at once, behind any proxy, and killing
one loses nothing.
"""
