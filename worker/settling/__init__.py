"""Runs after their end: the record, the lock, what follows, the run key; and taking over what a session has left.

settlement.py unlocking.py steps.py
                                  the end of a run, in batches, each step under its compare
ending.py                         runs whose locks wait for processes that cannot be ended
records.py                        what is recorded of this worker's own runs
aftermath.py                      what comes next, with the facts that it takes
adoption.py lost.py               runs of a session that is over, or of an earlier life
"""
