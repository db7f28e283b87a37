"""The processes of this machine, and whose they are: read from /proc, known by marks, signalled by pidfd.

``tree`` ends what a run has started: for the worker, for its guardian, and for a worker that starts anew.

Standard library only: the guardian, too, stands on it.
"""
