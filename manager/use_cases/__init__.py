"""What users change: each change is one etcd transaction, based on what etcd holds and never on what a watch shows.

jobs.py                         save, pause, resume, delete
unblock.py last_decided.py      a mark that lies ahead is set back; the newest fire of a job that is decided
run_now.py kills.py give_ups.py a run beside the schedule; a wish to end runs, and to give one up
drains.py                       a worker takes no more, or is remembered no more
access_records.py               users, service accounts and bindings: read, and written in place of what was read
accounts.py bindings.py         users and service accounts with all that is theirs; bindings
"""
