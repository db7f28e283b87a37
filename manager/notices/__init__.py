"""What is told to people: notices are made, and sent.

    notifier.py                     elected: makes notices of what is in the outbox, by rules, alerts and silences
    time_events.py system_events.py what time brings: slow runs, silent jobs; what is wrong with the system
    lifelines.py                    what is told without the log store
    sender.py                       takes a channel, joins what waits, sends, notes what came of it
    rendering.py plain.py           what a message says; text of jobs without what a terminal or a page would obey
    ways.py                         what the four ways have in common; the secrets of channels
    email.py webhook.py command.py  SMTP; signed JSON, Slack and Mattermost; a run of a job

Any number of processes send. One has a channel at a time, and is replaced where its beat in etcd is gone. What came
of a message is noted in one write: a sender that dies between the server's answer and that write leaves a message that
is sent once more, with the same id. One that is frozen or cut off from etcd there, for longer than its lease, does so
too. Nothing else is told twice, and nothing is dropped before its notice says why, but for what has waited for 30 days.
"""
