"""What is shown: jobs with what they came to, runs and fires, those to come and those that never were among them.

shapes.py                       the JSON of jobs, workers and runs
rows.py orders.py               jobs as shown, with what they came to; lists that are not in the order of names
run_list.py history.py pending.py ending.py
                                runs that go, then those that are over, page by page; those that wait; those that are
                                over, but for processes that cannot be ended
span_counts.py                  what days and hours came to, of what a caller may know
durations.py                    how long a job's runs took, as a chart shows it
output.py                       what a run has printed, also while it goes
failing.py                      the jobs that fail, by what went wrong
alerts.py                       open alerts, and what waits to be told
timelines.py                    lanes over a span of time: what ran, what runs, what is to come
forecasts.py                    what the fires to come want, and whose they are
cached_read.py                  an answer of a server that all get who ask within a while
cursors.py                      cursors that name what a caller may not know of, sealed
fires.py fire_verdicts.py       the fires of one job, and why one did not run: what is read, and what that says
calendar.py                     a job's fires by day, and the changes of its clocks
advice.py                       what the user should know of a schedule
inventory.py one_worker.py      what etcd holds, read straight; one worker, and what it did
"""
