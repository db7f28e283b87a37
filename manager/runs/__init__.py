"""Runs: asked for, ended, and shown, those to come and those that never were among them.

run_now.py kills.py give_ups.py a run beside the schedule; a wish to end runs, and to give one up
pending.py history.py           those that wait; those that are over
ending.py                       those that are over, but for processes that cannot be ended
free_slots.py                   whether it is slots that they wait for
run_list.py                     those that go, then those that are over, page by page
fires.py fire_verdicts.py       the fires of one job, and why one did not run: what is read, and what that says
kept_records.py last_decided.py what etcd still has of those that are over; the newest that is decided
rows.py                         jobs as shown, with what they came to
"""
