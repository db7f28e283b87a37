"""From cron to etcron and back, so that never both run a line.

    take over    the line goes out of the crontab (a comment to cron), and then its job is enabled
    give back    the job is paused, and then its line comes back into the crontab

Both happen between two minutes, away from the second in which cron and etcron look: cron has started the last minute's
lines, and reads the crontab again before it starts the next ones. A command that dies in between leaves neither running
a line, and a note of what it was about; the next one goes on with it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cli.client import Client, ProblemError, job_path
from cli.crontab.sources import Source, state_directory
from cli.crontab.until_now import CronsView, crons_view
from cli.errors import CommandError, ExitStatus
from cli.manifests.plan import Row
from cli.places import refuse_others_place
from cli.printing import say, tell, warn
from cli.times import local
from common.clock import Clock, SystemClock
from common.crontab.daemons import Daemon
from common.crontab.jobs import LineOutcome
from common.crontab.lines import TAKEN, Entry, read_lines
from common.instants import iso

_FIRST_S: Final = 3.0
_LAST_S: Final = 45.0
"""Of a minute: before it cron may still start lines, behind it there may not be time enough."""
_CLOCKS_DIFFER_S: Final = 2.0
_BEATS_WITHIN_S: Final = 12.0
_LOOK_S: Final = 0.25
_DELAYS_S: Final = 600.0
"""A give-back waits so long for fires whose random delay goes on."""
_LOOK_AT_FIRES_S: Final = 2.0
_NEWEST: Final = 10
_SKIPS: Final = "skips "
"""So begin the warnings of a pause that takes fires away."""
_GREEN: Final = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the crontab that has a job."""

    number: int
    job: str
    is_taken: bool


def lines_of(outcomes: Sequence[LineOutcome]) -> list[Line]:
    """Those that have a job."""
    return [
        Line(number=one.line.number, job=one.name, is_taken=one.line.taken)
        for one in outcomes
        if one.document is not None and isinstance(one.line, Entry)
    ]


def why_not_ready(row: Row | None) -> str | None:
    """Why etcron may not take the line of this job over; None: a run by hand of what it is now has succeeded."""
    if row is None:
        return "it is not saved"
    if row["state"] == "broken":
        return f"it is broken: {row.get('problem')}"
    last: Mapping[str, Any] = row.get("lastRun") or {}
    if not last or (last.get("startTime") or 0) < (row.get("savedMs") or 0):
        return "it has not run as it is now: etcron job run NAME --wait"
    if last.get("status") != _GREEN:
        return f"its last run is {last.get('status')}: etcron run log {last.get('runId')}"
    return None


def by_reason(whys: Mapping[str, str]) -> dict[str, list[str]]:
    """The jobs of each reason, so that it is printed once."""
    found = dict[str, list[str]]()
    for job, why in whys.items():
        found.setdefault(why, []).append(job)
    return found


class Takeover:
    """One crontab, and the jobs of its lines."""

    def __init__(
        self, client: Client, source: Source, text: str, *, daemon: Daemon | None,
        clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        """``text``: of the crontab, as it was read. ``daemon``: the cron that runs it."""
        self._client = client
        self._source = source
        self._text = text
        self._daemon = daemon
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._note = state_directory() / "crontabs" / f"{source.owner}.unfinished"

    @property
    def unfinished(self) -> frozenset[str]:
        """The jobs that an earlier takeover was about, and may not have enabled."""
        with suppress(OSError, ValueError):
            return frozenset(map(str, json.loads(self._note.read_text(encoding="utf-8"))))
        return frozenset()

    def take(self, lines: Collection[Line], left: Collection[Line], *, later: Collection[str] = ()) -> None:
        """The lines go out of the crontab, then their jobs are enabled; and those of ``left``, whose lines an earlier
        takeover took out. ``later``: the jobs of such lines for the next takeover. CommandError says how far it came.
        """
        jobs = {line.job for line in (*lines, *left)}
        if not jobs:
            return
        self._compare_clocks()
        wait_between_minutes()
        self._remember({*jobs, *later})
        before = self._crons_view()
        if lines:
            self._rewrite(lines, lambda line: TAKEN + line)
        self._resume(sorted(jobs))
        if later:
            self._remember(later)
        else:
            self._note.unlink(missing_ok=True)
        if before.ignored is not None and self._crons_view().ignored is None:
            tell(f"{self._source.title}: cron, which ran nothing of it, runs what is left in it from now on")

    def _resume(self, jobs: Sequence[str]) -> None:
        """A refusal stops no other job. CommandError names all that are not resumed, or may not be."""
        resumed, errors = list[str](), list[CommandError]()
        for job in jobs:
            try:
                self._switch(job, "resume")
                resumed.append(job)
            except CommandError as error:
                errors.append(error)
                if error.status is ExitStatus.UNAVAILABLE:
                    break
        if resumed:
            tell(f"{', '.join(resumed)}: run by etcron from now on")
        if errors:
            idle = ", ".join(job for job in jobs if job not in resumed)
            whys = "\n".join(map(str, errors))
            raise CommandError(
                f"{whys}\nnot resumed, or not known to be, while their lines are out of the crontab, so that neither "
                f"runs them: {idle}; run the same command again", errors[-1].status,
            )  # fmt: skip

    def give_back(self, lines: Collection[Line]) -> dict[str, str]:
        """The jobs are paused, then their lines come back into the crontab; a fire whose delay goes on is waited for.

        Why jobs stay with etcron, as their fires took too long. CommandError says how far it came.
        """
        left, until, shown = list(lines), self._clock.monotonic() + _DELAYS_S, set[str]()
        while left:
            wait_between_minutes()
            delayed = {job: why for job in sorted({line.job for line in left}) if (why := self._delayed(job))}
            self._give([line for line in left if line.job not in delayed])
            left = [line for line in left if line.job in delayed]
            if not left or self._clock.monotonic() >= until:
                return delayed
            for why, jobs in by_reason({job: why for job, why in delayed.items() if job not in shown}).items():
                say(f"{', '.join(jobs)}: waiting: {why}")
            shown |= delayed.keys()
            self._sleep(_LOOK_AT_FIRES_S)
        return {}

    def _give(self, lines: Collection[Line]) -> None:
        if not lines:
            return
        self._source.refuse_change(self._text)
        jobs, paused = sorted({line.job for line in lines}), list[str]()
        try:
            for job in jobs:
                self._switch(job, "pause")
                paused.append(job)
            # The pauses may have taken long. Late in a minute a line still comes back in time for cron's next start.
            wait_between_minutes(last_s=60.0)
            self._rewrite(lines, lambda line: line.removeprefix(TAKEN))
        except CommandError as error:
            if len(paused) < len(jobs) and error.status is ExitStatus.UNAVAILABLE:
                paused.append(jobs[len(paused)])  # without an answer: it may be
            if not paused:
                raise
            raise CommandError(
                f"{error}\npaused, or not known not to be, while their lines are not known to be back in the crontab, "
                f"so that neither runs them: {', '.join(paused)}; run the same command again", error.status,
            ) from error  # fmt: skip
        self._note.unlink(missing_ok=True)
        view = self._crons_view()
        run = {line.job for line in lines if view.runs(line.number)}
        if run:
            tell(f"{', '.join(sorted(run))}: run by cron from now on")
        if idle := [job for job in jobs if job not in run]:
            why = view.ignored or "as until the takeover"
            tell(f"{', '.join(idle)}: back in the crontab, and not run by cron: {why}")

    def _crons_view(self) -> CronsView:
        """As the crontab is now."""
        lines = list(read_lines(self._text, system=self._source.user is None, taken=True))
        return crons_view(lines, self._source, self._text, self._daemon)

    def _delayed(self, job: str) -> str | None:
        """Why its line may not change hands yet: a fire of it was due and waits for its random delay, or would have
        waited with cron, too, which then runs it once more."""
        spec: Mapping[str, Any] = (self._client.find(job_path(job)) or {}).get("spec") or {}
        jitter_ms = int(spec.get("jitterSeconds") or 0) * 1000
        if not jitter_ms:
            return None
        after = iso(self._clock.wall_ms() - jitter_ms)
        for fire in self._client.get(job_path(job, "fires"), {"from": after, "limit": _NEWEST})["items"]:
            at, by = local(fire["planTime"]), local(fire["planTime"] + jitter_ms)
            if fire["verdict"] == "planned" or (spec.get("broadcast") and fire["verdict"] != "none"):
                return f"a fire of {at} has a random delay, and starts by {by}"
            if (self._daemon is None or self._daemon.spreads) and fire["verdict"] != "none":
                return (
                    f"cron, too, would run the fire of {at}, by {by} (RANDOM_DELAY); where fires come closer together, "
                    "pause the job as long before: etcron job pause NAME"
                )
        return None

    def _switch(self, job: str, how: str) -> None:
        try:
            answer = self._client.post(job_path(job, how), {"reason": f"{self._source.title}: etcron crontab sync"})
        except CommandError as error:
            if how == "pause" and isinstance(error, ProblemError) and error.status is ExitStatus.NOT_FOUND:
                return  # no job, so nothing that etcron would run
            raise CommandError(f"{job}: {error}", error.status) from error
        warn(f"{job}: {text}: neither runs it" for text in answer["warnings"] if text.startswith(_SKIPS))

    def _rewrite(self, lines: Collection[Line], change: Callable[[str], str]) -> None:
        numbers = {line.number for line in lines}
        after = "\n".join(
            change(text) if number in numbers else text for number, text in enumerate(self._text.split("\n"), start=1)
        )
        copy = self._source.replace(self._text, after)
        self._text = after
        say(f"{self._source.title} is changed; as it was: {copy}")

    def _remember(self, jobs: Collection[str]) -> None:
        try:
            refuse_others_place(self._note.parent, "name another HOME (sudo -H) or XDG_STATE_HOME")
            self._note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._note.open("w", encoding="utf-8") as file:
                json.dump(sorted(jobs), file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            message = f"{self._note} cannot be written ({error.strerror}), so nothing is taken over"
            raise CommandError(message, ExitStatus.UNAVAILABLE) from error

    def _compare_clocks(self) -> None:
        """A manager whose clock is behind would fire once more what cron has run."""
        if self._client.date is None:
            return
        theirs_s = parsedate_to_datetime(self._client.date).timestamp()
        if abs(theirs_s - self._client.dated_s) > _CLOCKS_DIFFER_S:
            raise CommandError(
                f"the manager's clock and this machine's differ by {abs(theirs_s - self._client.dated_s):.0f} s, so "
                "both could run a line; set the clocks (NTP), and run it again", ExitStatus.CONFLICT,
            )  # fmt: skip
        compare_workers_clocks(self._client)


def compare_workers_clocks(
    client: Client, *, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """CommandError where a live worker's clock is not this machine's: cron counts by this one, the worker by its own.

    A worker tells its time with each beat, every few seconds; it is compared when a new one is seen.
    """
    clock = clock or SystemClock()
    first, off_ms, until = dict[str, int](), dict[str, int](), clock.monotonic() + _BEATS_WITHIN_S
    while True:
        live = {
            one["name"]: one.get("beat") or {} for one in client.get("/api/v1/workers")["items"] if one.get("session")
        }
        for name, beat in live.items():
            at_ms = beat.get("wallMs")
            if at_ms is not None and at_ms != first.setdefault(name, at_ms) and name not in off_ms:
                off_ms[name] = at_ms - clock.wall_ms()
        if live.keys() <= off_ms.keys() or clock.monotonic() > until:
            break
        sleep(_LOOK_S)
    problems = [
        f"the clock of worker {name} is {abs(ms) / 1000:.0f} s {'ahead of' if ms > 0 else 'behind'} this machine's"
        for name, ms in off_ms.items() if name in live and abs(ms) > _CLOCKS_DIFFER_S * 1000
    ]  # fmt: skip
    problems += [f"worker {name} does not tell its time" for name in live if name not in off_ms]
    if problems:
        raise CommandError(
            f"{'; '.join(problems)}: both cron and etcron could run a line, or neither. Set the clocks (NTP), or stop "
            "that worker, and run it again", ExitStatus.CONFLICT,
        )  # fmt: skip


def wait_between_minutes(last_s: float = _LAST_S) -> None:
    """Until it is well between two minutes of this machine's clock: not later in one than ``last_s``."""
    second = SystemClock().wall_ms() % 60_000 / 1000
    if _FIRST_S <= second <= last_s:
        return
    wait_s = _FIRST_S - second if second < _FIRST_S else 60.0 - second + _FIRST_S
    say(f"waits {wait_s:.0f} s: lines change hands between two minutes")
    time.sleep(wait_s)
