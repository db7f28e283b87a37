"""What this manager sees in etcd, kept in step by a watch, and sent to those who listen. Lists read only this.

watching.py                     the mirrors
catalog.py open_runs.py eligibility.py
                                jobs, and who waits for a change; runs that are going; workers: who would take a fire
blocked.py next_fires.py        jobs whose marks lie ahead; jobs by their next fire
notices.py                      channels, rules and silences
events.py                       live events for browsers
tails.py                        what runs print while somebody looks
"""
