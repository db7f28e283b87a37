"""A crontab becomes jobs, and every line of it is accounted for.

    lines      (lines.py)       pure: each line is blank, a comment, a variable or an entry, as cron itself reads it
    commands   (command_text.py) pure: `%` and `\\%`; what would be stdin becomes a pipe
    jobs       (jobs.py)        pure: the entry and the variables above it become a job, or a reason why not; five
                                fields become seven, unless they mean something else here
    names      (names.py)       pure: the job's name, from its command: the same at each import
    command    (commands.py)    `etcron crontab import`; saved the way that `etcron job apply` does
    sources    (sources.py)     where a crontab lies, and how it is read and replaced
    sync       (sync.py)        `etcron crontab sync`: the lines and their jobs are kept alike
    takeover   (takeover.py)    lines change hands between cron and etcron, and never both run one

A crontab says what runs on one machine. Where a line cannot be told truly, it is refused with the reason, and the
others are imported.
"""
