"""Programs that are started on this machine and kept running.

up.py            `etcron up`: etcd -> log store -> manager, workers; and back
worker.py        `etcron start worker` with several processes
plan.py          which servers, ports and configurations `up` takes, and why; decided before anything starts
embedded.py      finds etcd and the log store, or fetches etcd; their command lines
children.py      how each child is started, and how to tell that it is ready
supervisor.py    start, restart with back-off, stop; nothing outlives us
data_dir.py      one `up` for each data directory; what it remembers
backup.py        `etcron backup` and `restore`: everything of an `up` in one file
ports.py         which ports are free, and whose the others are
etcd_user.py login_link.py embedded_log_store.py   processes of their own
"""
