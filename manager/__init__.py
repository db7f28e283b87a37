"""The manager: what users reach. It writes jobs and kills to etcd, and reads jobs, workers and runs back.

    app.py __main__.py              the application, and the process
    api.py wiring.py                all calls of the API; the parts, made and put together
    openapi/                        the document of all calls
    handlers/                       read a request, call a use case, spell the answer
    console/                        the browser's pages, files and words
    parts.py                        what the handlers are given
    runs/                           runs asked for, ended, and shown; why a fire did not run
    cluster/                        how etcd, the log store, the clocks and this manager are
    calls/                          what every call passes: the port, guards, input, the same call again, errors
    views.py                        the JSON shapes (pure)
    editing/                        what users change, each edit as one etcd transaction
    watching/                       what a watch on etcd shows: jobs, runs that are going, workers; live events
    background/                     deliver our own final records and former specs, show that we live
    json_text.py                    how JSON is spelled

Each knows those below it alone (``make lint`` sees to it).

A manager keeps nothing of its own: whatever two of them must agree on, a compare in an etcd transaction decides, and
what its watch shows is never the base of an edit. So any number of them may run at once, behind any proxy, and killing
one loses nothing.
"""
