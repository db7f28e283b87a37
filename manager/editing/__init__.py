"""What users change: each edit is one etcd transaction, based on what etcd holds and never on what a watch shows.

service.py unblock.py started.py drains.py
                                the use cases: save, pause, resume, delete; a mark ahead; a worker takes no more, or is
                                remembered no more
merge_patch.py                  a change of some fields
advice.py placing.py            what the user should know of it
inventory.py odd_names.py       what etcd holds, read straight; names that no job can have
"""
