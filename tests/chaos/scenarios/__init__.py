"""Long scenarios with one question each, run by hand on a quiet machine; exit status 1 where the answer is no.

    cut_off.py          a worker cut off from etcd, or stopped, for too long: its commands end before others start
    log_store_away.py   the log store is away for minutes under load: nothing late, nothing lost, etcd bounded
    log_store_killed.py the embedded log store is killed again and again: what it has acknowledged is there
    power_cut.py        the embedded log store on a disk that forgets what was not synced: the same question
    forgetful_disk.py   that disk, a file system
    notices.py          senders killed while notices come: all is told, and no more twice than there were kills
    soak.py             load for a long time: memory, descriptors, threads, leases and keys stay flat
    load.py             the jobs of both, and what their commands have written of themselves
    sampling.py         what processes and etcd hold, sampled

What is late and what has run is told by the commands themselves, in a file that etcron does not write.
"""
