"""The worker: it watches jobs, claims their fires in etcd, runs the commands, and writes what came of them.

    agent.py parts.py __main__.py   the worker as a whole: what one part tells another; how they are wired; the process
    lead/                           what is no single worker's turn, done by the one that is steward
    dispatcher.py                   from a claim to the start, at its time
    plan/                           what is due here, and whose turn it is: planned fires, and runs that were asked for
    record/                         from the end of a run to the deletion of its keys; records on their way to the log
                                    store; taking over what was left
    run/                            a command started, captured, ended
    launcher/                       the process beside the worker that starts what may hang on its way to its command
    guardian/                       the process beside the worker that ends what runs when the worker cannot
    machine/                        the processes of this machine, and whose they are

    runs.py launch.py               what the others speak of: a run, what is to be started
    catalog.py members.py absences.py kills.py rules.py draining.py registry.py sentinels.py
                                    what this worker knows from etcd, and says of itself there
    data_directory.py identity.py
                                    its data directory: what is read at the start, and the thread that writes
    pacing.py                       how it spreads its work while more is due than it has slots for
    secrets.py                      what jobs ask for by name, and where its values come from
    verifier.py generations.py        what is believed of what lies in etcd: signatures, and nothing older than was seen
    admission.py                    whether it takes fires, and every reason why not
    metrics.py                      what it counts, and a port that tells it, where one is wanted
    quarantine.py refusals.py       what is set aside, for it cannot be read; what etcd refuses for good

Each package knows those below it alone (``make lint`` sees to it). One fire goes down: plan -> dispatcher -> run, and
its end comes back as calls that the agent has wired: run -> record. What it is on its way, from due to unlocked:

    PendingJob    due, and this worker's to decide                  plan/pending_jobs.py
    Decision      what to do first: claim, pass over, make up for   common/protocol/planner.py
    Proposal      that, with what etcd is to compare and to write   common/protocol/proposals.py
    Result        what etcd made of it                              common/protocol/proposals.py
    Run           claimed, until its key is gone                    runs.py
    Launch        what the executor is to start                     launch.py
    Outcome       how that ended                                    launch.py
    RunRecord     what the log store keeps of it                    common/protocol/run.py
    End, FollowUp its end, and what follows                         common/protocol/follow_ups.py
    Step          the transaction that frees its lock               common/etcd/pack.py
"""
