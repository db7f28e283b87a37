"""The processes of this machine, and whose they are: read from /proc, known by marks, signalled by pidfd.

Standard library only: the guardian, too, stands on it.
"""
