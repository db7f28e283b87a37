"""The report of an import, or a sync: what becomes of each line of a crontab, or of each entry of an export.

A note of several lines is printed once, below, with their numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from cli.client import Document
from cli.errors import ExitStatus
from cli.job_views import change_lines
from cli.manifests.plan import Action, Step
from cli.printing import tell
from common.crontab.jobs import LineOutcome, LineResult

_INTENDED: Final = {Action.CREATE: "to create", Action.CHANGE: "to change", Action.KEEP: "unchanged"}
_COUNTED: Final = frozenset({LineResult.COMMENT, LineResult.VARIABLE, LineResult.JOB})


def paused_if_new(steps: Iterable[Step]) -> list[Step]:
    """The steps; a job that is not there yet is saved paused."""
    return [
        replace(step, document={**step.document, "enabled": False}, state_after="paused", fires_after=())
        if step.action is Action.CREATE
        else step
        for step in steps
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What became of all of them."""

    lines: Sequence[LineOutcome]
    steps: Mapping[str, Step]
    """What was to be done, by the job's name."""
    results: Mapping[str, str]
    """What was done: none of a dry run."""
    beside: Mapping[int, str] = field(default_factory=dict)
    """More of a job, by the number of its line."""
    what: tuple[str, str] = ("line", "lines")
    """One is called, and several."""

    @classmethod
    def of(cls, lines: Sequence[LineOutcome], steps: Iterable[Step], results: Mapping[str, str]) -> ImportReport:
        """Of jobs that were planned, and what became of these."""
        return cls(lines=lines, steps={step.name: step for step in steps}, results=results)

    @property
    def is_refused(self) -> bool:
        """Any of them."""
        return any(one.result is LineResult.REFUSED for one in self.lines)

    @property
    def status(self) -> ExitStatus:
        """Of the command."""
        return ExitStatus.NO if self.is_refused or "failed" in self.results.values() else ExitStatus.OK

    @property
    def has_new(self) -> bool:
        """Whether jobs were made."""
        return "created" in self.results.values()

    def document(self, one: LineOutcome) -> Document:
        """What `-o json` says of each."""
        return {
            "became": str(one.result), "notes": list(one.notes), "job": one.document, "result": self._result(one.name),
        }  # fmt: skip

    def tell(self) -> None:
        """All of it, a line each and what is noted there, and the sum."""
        shared = self._shared()
        width = len(str(max((one.line.number for one in self.lines), default=0)))
        for one in self.lines:
            for index, text in enumerate(self._texts(one, shared)):
                tell(f"{one.line.number if index == 0 else '':>{width}}  {text}".rstrip())
        tell()
        for note, (number, where) in shared.items():
            tell(f"[{number}] {self.what[1]} {where}: {note}")
        if shared:
            tell()
        tell(self._sum())

    def _texts(self, one: LineOutcome, shared: Mapping[str, tuple[int, str]]) -> Iterator[str]:
        notes = self._notes(one)
        marks = "".join(f"[{number}]" for number in sorted(shared[note][0] for note in notes if note in shared))
        marks = marks and f" {marks}"
        match one.result:
            case LineResult.JOB if one.document is not None:
                step = self.steps.get(one.name)
                paused = ", paused" if step is not None and step.state_after == "paused" else ""
                when = one.document.get("cronExpr") or one.document.get("every") or one.document.get("after")
                yield f"job {one.name} ({self._result(one.name)}{paused}){marks}: {when}  {one.document['command']}"
                if step is not None and step.action is Action.CHANGE:
                    yield from change_lines(step.changes, indent="  ")
            case LineResult.REFUSED:
                yield f"REFUSED{marks}: {one.line.text.strip()[:200]}"
            case LineResult.VARIABLE:
                yield f"variable {one.notes[0]}{marks}"
            case _:
                yield str(one.result)
        yield from (f"  {note}" for note in notes if note not in shared)

    def _notes(self, one: LineOutcome) -> list[str]:
        """What is noted below it: the first note of a variable says what it does."""
        beside = self.beside.get(one.line.number) if one.document is not None else None
        return [*([beside] if beside else ()), *one.notes[one.result is LineResult.VARIABLE :]]

    def _shared(self) -> dict[str, tuple[int, str]]:
        """What is noted at several of them: a number for it, and where. Comments and empty lines part no range."""
        noted = [one for one in self.lines if one.result not in (LineResult.BLANK, LineResult.COMMENT)]
        places = defaultdict[str, list[int]](list)
        for place, one in enumerate(noted):
            for note in dict.fromkeys(self._notes(one)):
                places[note].append(place)
        shared = dict[str, tuple[int, str]]()
        for note, found in places.items():
            if len(found) > 1:
                runs = [[place for _, place in some] for _, some in groupby(enumerate(found), lambda at: at[1] - at[0])]
                ends = [(noted[run[0]].line.number, noted[run[-1]].line.number) for run in runs]
                where = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)
                shared[note] = len(shared) + 1, where
        return shared

    def _result(self, name: str) -> str | None:
        step = self.steps.get(name)
        return None if step is None else self.results.get(name) or _INTENDED[step.action]

    def _sum(self) -> str:
        kinds = Counter(one.result for one in self.lines)
        results = Counter(self._result(name) for name in self.steps)
        jobs = ", ".join(f"{number} {result}" for result, number in sorted(results.items(), key=str))
        parts = [
            f"{kinds[kind]} {kind}{'s' if kind in _COUNTED and kinds[kind] != 1 else ''}"
            + (f" ({jobs})" if kind is LineResult.JOB and jobs else "")
            for kind in LineResult
            if kinds[kind]
        ]
        one, several = self.what
        return f"{len(self.lines)} {one if len(self.lines) == 1 else several}: {', '.join(parts) or 'nothing'}"
