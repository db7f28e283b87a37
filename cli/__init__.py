"""The command line.

__main__.py arguments.py errors.py patience.py printing.py times.py usual.py
                                the verbs, what they have in common, exit statuses, what is printed
client.py                       a manager's HTTP API
job_*.py run_*.py stats_command.py worker_commands.py worker_draining.py manifests/ crontab/
                                clients of a manager: views and commands; files of jobs; crontabs
cron_*.py                       what an expression means, without any server
local_commands.py up.py plan.py children.py supervisor.py embedded*.py data_dir.py etcd_user.py fetched_etcd.py ports.py
log_echo.py examples.py                     `etcron up`
worker_command.py worker_processes.py
                                `etcron worker`, one or several
"""
