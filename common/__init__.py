"""What managers, workers and the command line share.

    connections.py                  the clients of etcd and of the log store, as the configuration wants them
    configuration/                  the configuration: keys, sources, checks
    words/                          a job in words
    clocks/                         whether a time that was read may be believed
    runlog/ etcd/                   the log store; etcd: client, session, election, mirror
    process/                        how a process lives and ends
    signing/                        Ed25519 keys in files
    clock.py tls.py                 the only reader of time; TLS from files

    notices/                        what is told, and when it goes
    protocol/                       what lies in etcd, what is to be decided of a job's fires, and by whom; transactions
    access/                         who may do what: roles, bindings, rights
    crontab/                        what each line of a crontab becomes
    forecast.py                     how long a run takes, and how many slots the fires to come want
    jobs/                           a job: its fields, how it is read from what a user sent
    schedules/                      when it fires
    timings.py                      the timings that must fit each other
    verdicts.py                     how a fire may end, and what may be told of it
    cursors.py instants.py json_text.py version.py errors.py
                                    small things

The lower half is PURE (no clock, no I/O). Each package knows those below it alone (``make lint`` sees to it).
"""
