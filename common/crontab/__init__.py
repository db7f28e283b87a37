"""A crontab becomes jobs, and every line of it is accounted for. Pure.

    lines           (lines.py)        each line is blank, a comment, a variable or an entry, as cron itself reads it
    commands        (command_text.py) `%` and `\\%`; what would be stdin becomes a pipe
    jobs            (jobs.py)         the entry and the variables above it become a job, or a reason why not; five
                                      fields become seven, unless they mean something else here
    daemons         (daemons.py)      what the cron of a machine reads otherwise than etcron does
    names           (names.py)        the job's name, from its command: the same at each import

A crontab says what runs on one machine. A line for which no job does the same is refused with the reason, and the
others become jobs. Managers read what is pasted into the console with it, the command line files and its machine's own.
"""
