"""The protocol between managers, workers and etcd. Pure: no clock, no I/O.

keys.py                         where everything lies
txn.py                          transactions, as values
planner.py                      what to do first about the undecided fires of a job
placement.py nobody.py          who may try a fire, in which order; why no worker could take it, in words

saved_job.py job_version.py     a job, and what it was before
run.py request.py chain.py kill.py give_up.py remembered.py
                                a run and the wish for one; the next link of a chain; wishes to end and to give up a
                                run; a call
values.py                       what a value has to be before anything is done with it
member.py roster.py drain.py clocks.py
                                a worker, that it was here, whether it is to take fires, how far its clock is off
"""
