"""A job in words that people read: when it fires, in each language, and the documented table of its fields.

describe.py                     a cron expression
job_words.py phrases.py         a trigger with all that stands beside it; what the words are made of
job_table.py                    the table in ``docs/jobs.md``
"""
