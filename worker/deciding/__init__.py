"""From a due fire to etcd's decision: who tries, when, with which transaction, and what the answer means.

scheduler.py agenda.py            the loop, and what is due when
sending.py doubts.py answers.py   a claim's way to etcd, its doubts, its answer
looking.py mark_reading.py hedges.py
                                  what others should have decided, by their marks
lock_waits.py broadcast.py        fires that wait for a lock; sequences of this worker's own
passing_over.py                   fires that have a run key which nobody claimed
"""
