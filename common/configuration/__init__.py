"""The configuration of a manager and of a worker: its keys, where they come from, and every mistake at once.

config.py                       the checked whole
tables.py keys.py files.py      the keys, and the kinds of what they hold
ways.py                         what the ways of being known need of each other
signatures.py                   the keys that sign, and those that are believed
sources.py flags.py             flags, environment, file
"""
