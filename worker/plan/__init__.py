"""What this worker is to try, and when; the queues of planned fires and of runs that were asked for are made of it.

cues.py          what comes up when
slot_line.py     who has the next slots
lock_watch.py    who waits for a lock
"""
