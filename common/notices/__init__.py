"""What people hear of: what happened, where it goes, and what a message is made of. Pure: no clock, no I/O.

    events.py       what happened to a run, a job or the system
    forms.py        how channels, rules and silences are read and written
    channels.py     a place that messages go to
    rules.py        which events of which jobs go to which channels
    silences.py     a time in which some notices are kept back
    wanted.py       which events are asked for that are else none
    applying.py     which rules apply to a job, besides its own `notify`
    alerts.py       what an event makes of an alert, and which channel gets what
    notice.py       what is to be sent on one channel, as it lies in the log store
    joining.py      which notices go into one message, and when

The writer of a record writes its event into the outbox. The notifier makes notices of events, by rules and alerts. A
sender joins the notices that wait for one channel into a message, and sends it.
"""
