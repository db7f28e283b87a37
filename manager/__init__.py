"""The manager: what users reach. It writes jobs and kills to etcd, and reads jobs, workers and runs back.

    app.py __main__.py              the application, and the process
    api/                            a file for each resource: read a request, call a use case, spell the answer; the
                                    document of all calls
    wiring.py parts.py              the parts, made and put together; what the handlers are given
    console/                        the browser's pages, files and words
    views/                          what is shown: jobs, fires, runs, and why a fire did not run
    use_cases/                      what users change, each as one etcd transaction
    access/                         who calls, and what each call needs
    notices/                        what is told to people, and how it is sent
    cluster/                        how etcd, the log store, the clocks and this manager are
    http/                           what every call passes: the port, guards, input, the same call again, errors
    watch/                          what a watch on etcd shows: jobs, runs that are going, workers; live events
    background/                     deliver our own final records and former specs, show that we live

Each knows those below it alone (``make lint`` sees to it).

A manager keeps nothing of its own: whatever two of them must agree on, a compare in an etcd transaction decides, and
what its watch shows is never the base of an edit. So any number of them may run at once, behind any proxy, and killing
one loses nothing.
"""
