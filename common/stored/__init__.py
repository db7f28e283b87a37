"""What lies in etcd, keys and values, as all programs read and write it. Pure: no clock, no I/O.

keys.py                         where everything lies
saved_job.py job_version.py     a job, and what it was before
run.py request.py chain.py kill.py give_up.py remembered.py
                                a run and the wish for one; the next link of a chain; wishes to end and to give up a
                                run; a call
values.py                       what a value has to be before anything is done with it
member.py roster.py drain.py clocks.py
                                a worker, that it was here, whether it is to take fires, how far its clock is off
"""
