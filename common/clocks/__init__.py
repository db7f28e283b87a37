"""Whether a time that was read may be believed: by the steward's comparison of clocks, and by jumps seen here.

check.py                        the verdict on this process's clock
comparison.py expectation.py watch.py
                                the comparison as read last; where the clock must stand by it; its jumps
"""
