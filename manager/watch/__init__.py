"""What this manager sees in etcd, kept in step by a watch, and told to those who listen. Lists read only this.

watching.py                     the mirrors
catalog.py open_runs.py eligibility.py
                                jobs; runs that are going; workers: who would take a fire
blocked.py                      jobs whose marks lie ahead
waiting.py events.py            waiting for what is to be seen; live events for browsers
"""
