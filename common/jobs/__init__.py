"""A job, once: its fields, and how it is read from what a user sent. Pure: no clock, no I/O.

job.py retry.py notify.py
                        the definition: each field with its kind, its limits, its default and its meaning; its JSON
kinds.py values.py      the kinds of values that stand in it: how pydantic reads each, and its JSON Schema
reader.py reading.py timing.py
                        from JSON to a job, every mistake at once; what may stand beside what
schema.py               the JSON Schema of a job
spread.py               jobs that fire together, apart
forms.py                what many jobs say alike is checked once
"""
