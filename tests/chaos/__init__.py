"""A whole etcron under random faults, and an offline checker of what happened: `make chaos SEED=1 MINUTES=10`.

    run.py       the harness: servers, proxies, workers, managers; jobs, users, faults; then healing and settling
    history.py   one append-only file of everything that happened
    check.py     the checker: python -m tests.chaos.check HISTORY

The harness judges nothing and the checker sees nothing but the history, so a history can be checked again later.
"""
