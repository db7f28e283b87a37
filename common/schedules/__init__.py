"""When a job fires: expressions, rates, instants, calendars and zones become times. Pure: no clock, no I/O.

schedule.py                     the one face of every kind of trigger
cron.py cron_fields.py triggers.py moment.py
                                the triggers: cron expressions, and what stands beside them
job_calendar.py days.py         which days; but for some fires
zones.py                        local time, and what its changes do to a fire
"""
