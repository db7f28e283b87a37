"""What is to be decided of a job's fires, and by whom: the same answer on every worker. Pure: no clock, no I/O.

planner.py                      what to do first about the undecided fires
placement.py                    who may try a fire, in which order
nobody.py                       why no worker could take it, in words
"""
