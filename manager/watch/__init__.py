"""What this manager sees in etcd, kept in step by a watch, and sent to listeners. Lists read only this.

watching.py                     the mirrors
catalog.py open_runs.py eligibility.py
                                jobs, and waiting for changes; runs that are going; the workers that would take a fire
blocked.py next_fires.py        jobs whose marks lie ahead; jobs by their next fire
notices.py                      channels, rules and silences
events.py                       live events for browsers
tails.py                        what runs print, while a user looks
"""
