"""Words that people read: a job's in each language, and the codes of messages.

describe.py composed.py         a cron expression, by a phrase or by the values of its fields
job_words.py phrases.py         a trigger with all that stands beside it; what the words are made of
progress.py                     lines that tell how far a command is
messages.py                     which message a text of etcron's is, with its values
"""
