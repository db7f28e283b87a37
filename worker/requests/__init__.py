"""Runs that were asked for, not planned by this worker: who tries a request, in which order, with which transaction."""
