"""What users change: each change is one etcd transaction, based on what etcd holds and never on what a watch shows.
The caller's rights are asked of the same; code of ours that acts by itself passes `OWNER`.

jobs.py                         save, pause, resume, delete
unblock.py last_decided.py      a mark that lies ahead is set back; the newest fire of a job that is decided
run_now.py kills.py give_ups.py a run beside the schedule; a wish to end runs, and to give one up
run_rights.py                   whether a caller may end a run, by the labels that it carries
drains.py                       a worker takes no more, or is remembered no more
records.py                      records that managers keep: read, and written in place of what was read
access_records.py               users, service accounts and bindings
accounts.py bindings.py         users and service accounts with all that is theirs; bindings
notice_records.py channels.py rules.py silences.py
                                what of notices lies in etcd; which channels a job may name
"""
