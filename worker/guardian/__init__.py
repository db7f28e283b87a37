"""The guardian: a small process beside each worker that ends the worker's runs when the worker cannot.

No command outlives its worker, and none outlives the moment at which its lock can pass on, however the worker fails:
killed, stopped, hung, or out of touch with etcd.

    worker ──intent, group, over, adopt, confirmed, ping──> guardian        (its standard input, see messages.py)
           <──ready, past, ending what is late, leapt, pong──               (its standard output)

    a run    intent ──its process is sent──> group ──over──> (forgotten)
               │                               │ holds a lock
               └──────── deadline ─────────────┴──> past: the worker is sent it; 250 ms later TERM, after its grace KILL
    the pipe closes (the worker has ended)      ──> TERM at once to all that is open, after each run's grace KILL; exit

**Deadline** of a run, on the boot clock: the sending of the newest confirmed keep-alive of the session that its run key
names, plus its `lostAfter`, less its kill grace and the margin. The guardian's view of it may be behind, never ahead.
Where the wall clock leaps ahead of the boot clock, the machine may have stood still uncounted: the leap counts, too,
for each session that is not confirmed anew within 2 s. The guardian tells the worker of the leap, since it counts only
keep-alives that were sent after it had noticed.
An *intent* without a process has a deadline whether the run holds a lock or not: a worker that was frozen between its
last check and the exec starts the process when it thaws, perhaps long after another worker has recorded the fire. Past
it the guardian looks for such a process every 100 ms, and kills it at once.

**Identity.** A process group is known by a pidfd of its leader, taken while the leader is the worker's child or carries
the run's mark (see ``process_group``); everything else by the marks in its environment, or by its session.

**Without a guardian** nothing is started: ``link`` (in the worker) notices its end at once and starts another, which
waits for the lock of the one before, and is sent all that is open. A guardian that does not answer for five of the
worker's own seconds is killed and replaced.

messages.py guarded_runs.py       what is sent, and what follows from it; pure
program.py ends.py group_leader.py
                                  the guardian itself, without asyncio
child.py link.py                  the worker's side
__main__.py                       the guardian as a program of its own
"""
