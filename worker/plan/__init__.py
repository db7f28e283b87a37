"""What is due here, whose turn it is, and when: from a due fire, or a run that was asked for, to the claim etcd grants.

Planned fires and requests are two queues on the same parts: each has cues, a line for slots, and waits for locks.

scheduler.py pending_jobs.py      planned fires: the loop, and what is due when
sending.py doubts.py answers.py   a claim's way to etcd, its doubts, its answer
mark_scan.py mark_reading.py hedges.py
                                  what others should have decided, by their marks
lock_waits.py broadcast.py        fires that wait for a lock; sequences of this worker's own
run_key_in_the_way.py             fires that have a run key which nobody claimed

request_queue.py pending_requests.py lineup.py due_jobs.py
                                  runs that were asked for: who tries which, in which order
request_claiming.py               their claims on their way to etcd

cues.py slot_line.py lock_watch.py
                                  for both: what comes up when, who has the next slots, who waits for a lock
"""
