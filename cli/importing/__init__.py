"""From other schedulers: each reads that system's own export, and accounts for everything in it.

    found     (found.py)       pure: what an importer gives back, and the pieces that they share
    systems   (systems.py)     pure: Kubernetes, dkron, Cronicle, cronsun, and the legacy system's keys in etcd
    systemd   (systemd.py)     pure: timers and their services; `OnCalendar=` as a cron expression
    command   (command.py)     `etcron import SYSTEM FILE`; saved the way that `etcron crontab import` does

What no job can do the same way is refused with the reason; what is left out is named. Jobs are paused until a user
resumes them.
"""
