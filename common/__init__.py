"""What managers, workers and the command line share. What of it is PURE (no clock, no I/O): see ``pyproject.toml``.

job.py job_*.py saved_job.py reading.py kinds.py
                                a job: its fields, how it is read from what a user sent, how it lies in etcd
schedule.py cron.py cron_fields.py triggers.py job_calendar.py jitter.py zones.py
                                when it fires
describe.py describe_zh.py job_words.py phrases.py transition_notes.py
                                the same in words
planner.py placement.py         what is to be decided of its fires, and by whom
keys.py run.py request.py kill.py member.py drain.py clocks.py remembered.py chain.py retry.py
                                what lies in etcd: keys and values
etcd/ runlog/ connections.py    the clients of etcd and of the log store
config.py config_*.py tls.py timings.py
                                configuration: keys, sources, checks
clock.py clock_*.py clocks_read.py
                                reading time, and whether it may be believed
lifecycle.py event_loop.py threads.py heap.py logs.py failpoints.py
                                a process
instants.py moment.py duration.py compact_json.py errors.py nearest.py version.py cancellation.py beat_pace.py
                                small things
"""
