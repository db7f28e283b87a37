"""What a manager does when nobody calls: records and former specs go to the log store, and it shows that it lives.

housekeeping.py versions.py     final records of its own; former specs, and reading them back
presence.py                     its beat
"""
