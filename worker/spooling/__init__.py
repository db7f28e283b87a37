"""Records on this worker's disk, and on their way to the log store: what was appended is never lost.

spool.py                          append, acknowledge, read
spool_segments.py spool_reading.py spool_room.py
                                  its files
spool_watch.py                    no new fires while it takes no records
delivery.py rejected.py log_store.py
                                  to the log store, in batches
"""
