"""The launcher: a small process beside each worker that starts what may hang before it is executed.

A process that looks up a user, enters a directory or opens a program waits for as long as LDAP or a dead mount makes it
wait, and so does its caller: in vfork the whole thread, with Python's lock. So the worker executes only what
cannot wait (``worker.run.spawner``), and asks the launcher for all else.

    worker ──request, output, channel──> launcher ──clone──> child     looks up, changes user and directory,
      ^  <──pid──────────────────────── channel ───────────────┘       finds the program
      └──go──────────────────────────── channel ──────────────> child ──exec──> the command

* The launcher itself touches neither a path nor a name service: it takes one request after the other, makes it ready,
  and forks.
* The child is the *worker's* child (CLONE_PARENT): it is waited for, measured, signalled and guarded like any other.
* It executes nothing before ``go``, which the worker sends once it has reported the process to the guardian; without a
  worker there is no ``go``. Nor does it past the run's limit: it looks at the clocks last of all.
* The channel is closed by the exec. What comes before that is why nothing was executed, in the words of the record.

request.py child.py program.py    the launcher, with the standard library alone
__main__.py                       the launcher as a program of its own
link.py                           the worker's side
accounts.py environment.py unstartable.py
                                  as whom a command runs, what it finds around it, why it cannot be started
"""
