"""The manager: what users reach. It writes jobs and kills to etcd, and reads jobs, workers and runs back.

    legacy.py api.py pages.py     handlers: read a request, call a use case, spell the answer
    service.py                    the use cases: save, delete, kill
    edits.py                      what one save or delete writes, as one etcd transaction (pure)
    inventory.py                  jobs and workers as etcd has them, by pages
    history.py                    runs, from the log store and from etcd's open ones
    views.py advice.py            the JSON shapes; the warnings of a save and the preview of a schedule (pure)
    housekeeping.py presence.py   background: deliver our own final records, show that we live
    health.py                     /livez and /readyz
    errors.py guards.py inputs.py every error as JSON, who may call, how input is read
    parts.py                      what the handlers are given
    app.py __main__.py            the application, and the process

A manager keeps no state of its own: whatever two of them must agree on, a compare in an etcd transaction decides. So
any number of them may run at once, and killing one loses nothing.
"""
