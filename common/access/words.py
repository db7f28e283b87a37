"""What a binding allows, in words. Pure."""

from __future__ import annotations

from typing import Final

from common.access.rights import WORKER, Grant, Role, spelled
from common.access.selectors import Selector

_MAY: Final = {
    Role.VIEWER: "may see",
    Role.OPERATOR: "may see, run, kill, pause and resume",
    Role.EDITOR: "may see, run, kill, save and delete",
    Role.ADMIN: "administers",
}


def binding_words(grant: Grant) -> str:
    """One sentence, without the subject."""
    sentence = f"{_MAY[grant.role]} {_jobs(grant.labels)}"
    if grant.role is Role.ADMIN and grant.labels.is_all:
        sentence += ", workers, users and bindings"
    if grant.role.covers(Role.EDITOR):
        sentence += f"; jobs that they save run as {_users(grant.run_as)}, on {_workers(grant.workers)}"
    return sentence


def _jobs(labels: Selector) -> str:
    return "all jobs" if labels.is_all else f"jobs with {spelled(labels)}"


def _workers(workers: Selector) -> str:
    return "any worker" if workers.is_all else f"workers with {spelled(workers)}"


def _users(run_as: frozenset[str] | None) -> str:
    if run_as is None:
        return "any system user"
    names = ["the worker's own choice" if name == WORKER else name for name in sorted(run_as)]
    return " or ".join(names) or "no system user at all (so nothing can be saved)"
