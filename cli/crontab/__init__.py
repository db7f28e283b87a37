"""Crontabs of this machine become jobs; `common.crontab` reads their lines, and says what each becomes.

command    (commands.py)    `etcron crontab import`; saved the way that `etcron job apply` does
sources    (sources.py)     where a crontab lies, and how it is read and replaced
sync       (sync.py)        `etcron crontab sync`: the lines and their jobs are kept alike
until now  (until_now.py)   what this machine's cron made of its lines, where etcron makes something else of them
takeover   (takeover.py)    lines change hands between cron and etcron, and never both run one
"""
