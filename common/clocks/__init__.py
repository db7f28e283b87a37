"""Whether a time that was read may be believed: by the steward's comparison of clocks, and by jumps seen here.

check.py    the verdict on this process's clock
watch.py    its jumps, found before the wall clock is read
"""
