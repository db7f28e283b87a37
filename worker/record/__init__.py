"""What came of a run: its record on this worker's disk and then in the log store, its lock, what follows, its run key.

settlement.py unlocking.py        the end of a run, in batches, each step under its compare
ending.py                         runs whose locks wait for processes that cannot be ended
adoption.py left_runs.py          runs of a session that is over, or of an earlier life; ending one in another's place
records.py follow_up_reader.py    what is recorded of this worker's own runs; what comes next, with the facts it takes

spool.py spool_segments.py spool_room.py
                                  records on the disk: append, acknowledge, read; what was appended is never lost
spool_watch.py                    no new fires while it takes no records
delivery.py outbox_writer.py      to the log store, in batches; what they tell, to the outbox
tails.py                          what runs print, while a user looks
"""
