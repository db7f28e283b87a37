"""A short fixed set of fault runs: each breaks one thing at the worst moment; the checker of tests/chaos judges.

Random faults seldom meet the window right after a commit; a failpoint always does. Everything is real: etcd, the log
store, workers and managers as processes behind proxies, commands that leave evidence.
"""
