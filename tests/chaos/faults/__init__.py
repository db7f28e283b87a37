"""The faults: each breaks something for a while and mends it again, and is noted in the history with its times.

    breaking.py   what all faults share: one on a target at a time, noted, over when the time is up
    drawing.py    which comes next, by the seed
    workers, managers, network, etcd, keys, log_store, clocks, machine     the faults, by what they break
    users.py      those that users have a part in: they give runs up, unblock jobs, save while fires wait

A fault that cannot be carried out now raises NotNow and is drawn again later.
"""

from tests.chaos.faults.breaking import KEYS

__all__ = ["KEYS"]
