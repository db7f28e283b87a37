"""Roles and bindings; what a caller's bindings allow, and why they do not.

viewer    reads; values of environment variables are masked
operator  also runs without `args` and `env`, kills, pauses, resumes, gives up
editor    also saves, deletes, restores; runs with `args` and `env` what they may save
admin     also workers, users, bindings, tokens of others, unblock
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from common.access.selectors import ALL, EVERYTHING, Selector
from common.access.subjects import Subject
from common.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:  # the configuration reads this module, and needs nothing of jobs
    from common.jobs.job import JobSpec

WORKER: Final = "@worker"
"""In ``runAs``: whichever user the worker gives to jobs that name none."""
MOST_RUN_AS: Final = 100


class Role(StrEnum):
    """What a binding allows; each role may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether this role allows what needs the other."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one binding gives to a caller."""

    role: Role
    labels: Selector
    """Of the jobs, runs and versions that it reaches."""
    run_as: frozenset[str] | None
    """The system users that jobs saved by it may run as, ``@worker`` among them; None: any."""
    workers: Selector
    """What such jobs have to ask of a worker, at least."""

    def capped(self, role: Role) -> Grant:
        """The same with at most this role."""
        if not self.role.covers(role):
            return self
        return Grant(role=role, labels=self.labels, run_as=self.run_as, workers=self.workers)

    def unfit(self, spec: JobSpec) -> str | None:
        """Why a job may not be saved as this by it; None: it may. Does not look at the role."""
        if not self.labels.matches(spec.labels):
            return f"its labels have to match {spelled(self.labels)}"
        user = spec.user or WORKER
        if self.run_as is not None and user not in self.run_as:
            may = ", ".join(sorted(self.run_as)) or "no user at all"
            return f"it would run as {'the user of the worker' if user == WORKER else user}, and may as: {may}"
        if not self.workers.holds(spec.workers):
            return f"its `workers` have to stay within {spelled(self.workers)}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One subject has one role on the jobs that a selector reaches."""

    id: str
    subject: Subject
    grant: Grant

    def to_document(self) -> dict[str, Any]:
        """Its JSON, but for the id, which stands in the key."""
        run_as = self.grant.run_as
        return {
            "subject": str(self.subject), "role": str(self.grant.role), "labels": self.grant.labels.to_json(),
            "runAs": ALL if run_as is None else sorted(run_as), "workers": self.grant.workers.to_json(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes, *, id: str) -> Self:  # noqa: A002 - it is its name
        """Read the value of its key; ValueError where it is none."""
        try:
            document = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"no JSON: {error!s:.100}") from None
        if not isinstance(document, dict):
            raise ValueError("no object")
        return cls.from_document(document, id=id)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, id: str) -> Self:  # noqa: A002 - it is its name
        """Read its JSON; ValueError where it is none. What is left out grants nothing."""
        try:
            run_as = document.get("runAs", [])
            if run_as != ALL and not (isinstance(run_as, list) and all(isinstance(one, str) for one in run_as)):
                raise ValueError('runAs is neither "all" nor a list of names')
            if run_as != ALL and len(run_as) > MOST_RUN_AS:
                raise ValueError(f"runAs has more than {MOST_RUN_AS} names")
            return cls(
                id=id, subject=Subject.parse(document["subject"]),
                grant=Grant(
                    role=Role(document["role"]), labels=Selector.from_json(document["labels"]),
                    run_as=None if run_as == ALL else frozenset(run_as),
                    workers=Selector.from_json(document["workers"]),
                ),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a binding: {error!s:.200}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What some rights let a caller know of; callers with equal ones are shown the same."""

    everything: bool
    broken: bool
    """Also what is no job."""
    labels: frozenset[frozenset[tuple[str, frozenset[str]]]]
    """Those that the selectors name, where they do not reach everything."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a caller may do. A right comes from one grant as a whole: the role of one never joins the labels of
    another.
    """

    grants: tuple[Grant, ...] = ()
    guarded: frozenset[str] = field(default=frozenset(), compare=False)
    """Labels by which any binding limits the jobs that editors reach: a caller gives a job such a label only
    where they are bound to its value, so a worker's rules for secrets may go by it.
    """

    @classmethod
    def of(cls, bindings: Iterable[Binding], subjects: frozenset[Subject]) -> Self:
        """The rights of a caller who counts as these subjects."""
        return cls(tuple(binding.grant for binding in bindings if binding.subject in subjects))

    def capped(self, role: Role) -> Rights:
        """The same rights with at most this role."""
        return Rights(tuple(grant.capped(role) for grant in self.grants), self.guarded)

    def snapshot(self) -> Rights:
        """As they are now, for what is kept: of a call that changes something they are looked up each time."""
        return Rights(self.grants, self.guarded)

    def has(self, role: Role) -> bool:
        """Whether there is anything on which the caller has this role."""
        return any(grant.role.covers(role) for grant in self.grants)

    def has_everywhere(self, role: Role) -> bool:
        """Whether the caller has this role on everything, whatever its labels."""
        return any(grant.labels.is_all and grant.role.covers(role) for grant in self.grants)

    def may(self, role: Role, labels: Mapping[str, str] | None) -> bool:
        """Whether the caller has this role on what has these labels.

        None: they cannot be read, as of a key that is no job: only an administrator of everything may do anything.
        """
        if labels is None:
            return self.has_everywhere(Role.ADMIN)
        return any(grant.role.covers(role) and grant.labels.matches(labels) for grant in self.grants)

    def may_all(self, role: Role, labels: Selector) -> bool:
        """Whether the caller has this role on whatever a selector reaches, by one grant."""
        return any(
            grant.role.covers(role)
            and (grant.labels.is_all or (labels.wanted is not None and grant.labels.holds(labels.wanted)))
            for grant in self.grants
        )

    @property
    def sees_all(self) -> bool:
        """Whether the caller may know of everything that has labels, so that nothing need be filtered."""
        return self.has_everywhere(Role.VIEWER)

    @property
    def sees_unlabelled(self) -> bool:
        """Whether the caller may know of what has no readable labels, e.g. a key that is no job."""
        return self.has_everywhere(Role.ADMIN)

    @property
    def sight(self) -> Sight:
        """The same for all callers who may know of the same things."""
        if self.sees_all:
            return Sight(everything=True, broken=self.sees_unlabelled, labels=frozenset())
        reached = [grant.labels.wanted for grant in self.grants]
        labels = frozenset(frozenset(one.items()) for one in reached if one is not None)
        return Sight(everything=False, broken=False, labels=labels)

    def sees(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the caller may know that there is something with these labels."""
        return self.may(Role.VIEWER, labels)

    def check(self, role: Role, labels: Mapping[str, str] | None, what: str, *, missing: str = "") -> None:
        """Return where the caller has this role on ``what`` ("job backup").

        NotFoundError where they may not even know of it, in the words of one that is missing; ForbiddenError where they
        may.
        """
        if self.may(role, labels):
            return
        if not self.sees(labels):
            raise NotFoundError(missing or f"there is no {what}")
        raise ForbiddenError(f"{what}: this needs the role {role} on it; ask an administrator of etcron")

    def check_everywhere(self, role: Role) -> None:
        """Return where the caller has this role on everything; ForbiddenError."""
        if not self.has_everywhere(role):
            raise ForbiddenError(f"this needs the role {role} on everything; ask an administrator of etcron")

    def check_spec(self, role: Role, spec: JobSpec) -> None:
        """Return where one binding as a whole lets a job like this be saved, or start to fire again.

        ForbiddenError names what stands in the way. It looks at nothing that is stored.
        """
        unfit = [grant.unfit(spec) for grant in self.grants if grant.role.covers(role)]
        if None in unfit:
            return
        why = "; or ".join(dict.fromkeys(reason for reason in unfit if reason)) or f"this needs the role {role}"
        raise ForbiddenError(f"job {spec.name} may not be like this by your rights: {why}")

    def check_save(self, spec: JobSpec, before: Mapping[str, str] | None, *, is_new: bool) -> None:
        """Return where the caller may save this job in place of one with the labels ``before``.

        The job itself is looked at first: what it is refused for is the same, whatever has its name. Then an
        editor learns that the name is taken, and nothing more of a job that they may not know of.
        """
        self.check_spec(Role.EDITOR, spec)
        kept = before if before is not None and self.may(Role.EDITOR, before) else {}
        new = sorted(spec.labels.items() - kept.items())
        foreign = [f"{label}={of}" for label, of in new if label in self.guarded and not self._gives(label, of)]
        if foreign:
            raise ForbiddenError(
                f"job {spec.name} may not get the label {', '.join(foreign)}: editors are bound by labels of this "
                "name, and you are bound to no such value"
            )
        if is_new or self.may(Role.EDITOR, before):
            return
        taken = "this needs the role editor on it as it is now"
        if not self.sees(before):
            taken = "the name is taken by a job that you may not change"
        raise ForbiddenError(f"job {spec.name}: {taken}")

    def _gives(self, label: str, value: str) -> bool:
        editing = (grant.labels.wanted for grant in self.grants if grant.role.covers(Role.EDITOR))
        return any(wanted is None or value in wanted.get(label, ()) for wanted in editing)


def guarded_labels(bindings: Iterable[Binding]) -> frozenset[str]:
    """Those by which bindings limit the jobs that their editors reach."""
    editing = (one.grant.labels.wanted for one in bindings if one.grant.role.covers(Role.EDITOR))
    return frozenset(label for wanted in editing for label in wanted or ())


OWNER: Final = Rights((Grant(role=Role.ADMIN, labels=EVERYTHING, run_as=None, workers=EVERYTHING),))
"""Everything."""


def spelled(selector: Selector) -> str:
    """A selector in words, as a user writes it."""
    if selector.wanted is None:
        return ALL
    return ", ".join(f"{label}={'|'.join(sorted(values))}" for label, values in sorted(selector.wanted.items()))
