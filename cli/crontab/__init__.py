"""Crontabs of this machine become jobs; `common.crontab` reads their lines, and says what each becomes.

command    (commands.py)    `etcron crontab import`; saved the way that `etcron job apply` does
sources    (sources.py)     where a crontab lies, and how it is read and replaced
sync       (sync.py)        `etcron crontab sync`: the lines and their jobs are kept alike
takeover   (takeover.py)    lines change hands between cron and etcron, and never both run one
"""
