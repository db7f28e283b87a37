"""The processes of this machine, and whose they are: read from /proc, known by marks, signalled by pidfd.

processes.py process_group.py     the processes as they are; a signal that reaches the group it was meant for
marks.py marked.py                marks in the environment of a run's processes; the processes that carry them
looks.py                          a look at all of them, in a thread that none holds up
tree.py                           ends what a run has started: for the worker, for its guardian, and for a worker that
                                  starts anew
left_groups.py                    groups that outlive their runs, written down for the worker's next life

Standard library only: the guardian, too, stands on it.
"""
