"""What is due here, whose turn it is, and when: from a due fire, or a run that was asked for, to the claim etcd grants.

Planned fires and requests are two queues on the same parts: each has cues, a line for slots, and waits for locks.

scheduler.py pending_jobs.py      planned fires: the loop, and what is due when
sending.py doubts.py answers.py   a claim's way to etcd, its doubts, its answer
mark_scan.py hedges.py            what others should have decided, by their marks
broadcast.py boot.py              sequences of this worker's own; the boot of its machine

request_queue.py pending_requests.py
                                  runs that were asked for: who tries which, in which order
request_claiming.py               their claims on their way to etcd

cues.py lock_waits.py             for both: what comes up when, and who has the next slots; who waits for a lock
"""
