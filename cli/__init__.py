"""The command line: `etcron NOUN VERB ...`.

__main__.py programs.py         finds the command; `up`, `worker`, `config`, `completion`, the help of all
jobs.py job_*.py runs.py workers.py stats.py forecast.py audit.py manifests/ crontab/ importing/
                                clients of a manager, by noun; jobs from files, crontabs and other schedulers
import_report.py                what an import, or a sync, says of each line
following.py                    a run, followed to its end
admin.py                        the first administrator and the last resort: writes to etcd, without a manager
login.py profiles.py            `login`, `logout`, `whoami`; what is kept of a login, and which server it is for
users.py services.py tokens.py sessions.py bindings.py access.py secret_text.py
                                who may do what: clients of a manager, by noun; secrets that are typed
channels.py rules.py silences.py alerts.py notices.py
                                channels, rules, alerts and messages: clients of a manager, by noun
cron.py                         what an expression means, without any server
signing.py                      on a manager's host: keys, and signatures for jobs that have none
client.py                       a manager's HTTP API, and what waits for it
arguments.py errors.py times.py what their command lines have in common, exit statuses, instants
places.py                       where root may write
printing.py progress.py         what is printed: tables, colours, how far it is
completion.py                   what TAB completes
processes/                      `etcron up`, its backup, and `etcron start worker` with several processes
"""
