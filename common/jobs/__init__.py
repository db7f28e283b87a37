"""A job: its fields, and how it is read from what a user sent. Pure: no clock, no I/O.

job.py                          the definition, and its JSON
fields.py values.py kinds.py    the table of its fields, and the kinds of values that stand in them
reader.py reading.py timing.py retry.py
                                from JSON to a job, every mistake at once; when it fires and is tried again, as a whole
forms.py                        what many jobs say alike is checked once
"""
