"""What a message says: facts in an order that a person who was woken can take in, as text, as HTML, and as JSON.

What happened, in a sentence; where and when; why; the end of the output; since when, and when the job last succeeded;
when it runs next; links. ``webroot/templates/notices`` draws it, and may be replaced: where a template fails, the
message is told without it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import jinja2

from common.clock import Clock
from common.errors import EtcronError, InvalidInputError, UnavailableError
from common.etcd import EtcdClient
from common.instants import Duration, iso
from common.jobs.job import JobSpec
from common.json_text import dumps
from common.notices.alerts import key_of
from common.notices.events import Event
from common.notices.joining import Content, groups_of, joined, message_id
from common.notices.notice import AlertedEvent, Notice, NoticeKind, notice_id
from common.protocol.keys import Keys
from common.protocol.saved_job import SavedJob
from common.runlog import RunLog
from common.verdicts import EventKind, Verdict
from common.words.job_words import local_words, span_words
from manager.notices.plain import last_lines, line
from manager.views.advice import next_fire

_log = logging.getLogger(__name__)

_LATE_MS: Final = 600_000
"""What happened longer ago is marked as such."""
_SHOWN_LATE_MS: Final = 2_000
_PHRASES: Final[Mapping[EventKind, tuple[str, str]]] = {
    **{one.kind: (f"{{}} {one.traits.phrases[0]}", one.traits.phrases[1]) for one in Verdict},
    EventKind.OUTPUT: ("{} printed something", "printed something"),
    EventKind.LATE: ("{} began late", "began late"),
    EventKind.RECOVERED: ("{} is fine again", "fine again"),
    EventKind.SLOW: ("{} is still running", "still running"),
    EventKind.SILENT: ("{} has not succeeded for too long", "without success for too long"),
    EventKind.FAST: ("{} ended suspiciously fast", "ended suspiciously fast"),
    EventKind.WORKER_DOWN: ("worker {} is down", "worker down"),
    EventKind.WORKER_REFUSING: ("worker {} takes no jobs", "worker takes no jobs"),
    EventKind.LOG_STORE_AWAY: ("the log store is away", "log store away"),
    EventKind.ETCD_FULL: ("etcd is nearly full", "etcd nearly full"),
    EventKind.ETCD_MEMBER_AWAY: ("the etcd member {} is away", "etcd member away"),
    EventKind.CLOCK_OFF: ("the clock of {} is off", "clock off"),
    EventKind.NO_LEADER: ("no worker is the steward", "no steward"),
    EventKind.SPOOL_FILLING: ("the spool of worker {} is filling up", "spool filling up"),
    EventKind.NOTICES_FAILING: ("messages to channel {} fail", "channel failing"),
}
"""Of one event, with the job or what else it is about; of several, behind their number."""
_SYSTEM: Final = frozenset(kind for kind in EventKind if kind.is_of_the_system)
_OVER: Final = "over: "
_GOOD: Final = frozenset({EventKind.RECOVERED, Verdict.SUCCESS.kind})
_NEUTRAL: Final = frozenset({
    EventKind.OUTPUT, EventKind.SLOW, EventKind.FAST, EventKind.LATE, *(one.kind for one in Verdict if one.is_quiet)
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is looked up for a message about one event."""

    spec: JobSpec | None = None
    output: str = ""
    next_ms: int | None = None
    now_ms: int

    def when(self, ms: int, zone: str | None = None, *, bare: bool = False) -> str:
        """As the clocks of the job's zone show it. ``bare``: to the minute, below a time that names the zone."""
        name = zone or (self.spec.timezone if self.spec is not None else "UTC")
        try:
            return local_words(ms - ms % 60_000, name) if bare else f"{local_words(ms, name)} ({name})"
        except (EtcronError, OverflowError):  # a zone that this machine does not know, the year 10000
            return f"{iso(ms)} (UTC)"


class Renderer:
    """Puts messages together."""

    def __init__(
        self, templates: jinja2.Environment, etcd: EtcdClient, keys: Keys, runlog: RunLog, *, clock: Clock,
        public_url: str | None,
    ) -> None:  # fmt: skip
        """``public_url``: where people find the console; without one there are no links."""
        self._templates = templates.overlay(autoescape=jinja2.select_autoescape(["html"]))
        self._etcd = etcd
        self._keys = keys
        self._runlog = runlog
        self._clock = clock
        self._public_url = public_url.rstrip("/") if public_url else None

    async def content(self, notices: Sequence[Notice]) -> Content:
        """What these notices of one channel, oldest first, say together. EtcdError, UnavailableError."""
        notice = joined(notices)
        told = notice.told[0] if notice.total == 1 and notice.told else None
        about = About(now_ms=self._clock.wall_ms()) if told is None else await self._look_up(told.event)
        facts = facts_of(notice, about, self._public_url)
        subject = f"[etcron] {facts['headline']}"
        facts = {"id": message_id(notices[0]), "subject": subject, **facts}
        body = {"type": f"notice.{notice.kind}", "timestamp": facts["at"], "data": facts}
        return Content(
            subject=subject, text=self._drawn("message.txt", facts), html=self._drawn("message.html", facts),
            facts=dumps(body), created_ms=about.now_ms, thread=_thread(told),
        )  # fmt: skip

    async def _look_up(self, event: Event) -> About:
        now_ms, spec, output = self._clock.wall_ms(), None, ""
        if event.job and (kv := await self._etcd.get(self._keys.job(event.job))) is not None:
            try:
                spec = SavedJob.from_json(kv.value, name=event.job).spec
            except InvalidInputError:
                spec = None
        try:
            document = await self._runlog.run(event.run) if event.run else None
            output = last_lines(str((document or {}).get("output", "")))
        except UnavailableError as error:  # what happened is told all the same
            output = f"(it cannot be read now: {line(str(error))})"
        fire = None if spec is None else next_fire(spec, after_ms=now_ms)
        return About(spec=spec, output=output, next_ms=None if fire is None else fire["ms"], now_ms=now_ms)

    def _drawn(self, template: str, facts: Mapping[str, Any]) -> str:
        """Where the template fails: what there is to be said, in a row."""
        try:
            return self._templates.get_template(f"notices/{template}").render(**facts)
        except Exception as error:  # whatever somebody has put into a template of their own
            extra = {"action": "notice.template", "template": template}
            _log.error(
                "the template notices/%s fails, its message is told without it: %s", template, error, extra=extra
            )
            rows = [f"{row['label']}: {row['value']}" for row in facts["rows"]]
            events = [event["sentence"] for event in facts["events"]]
            links = [f"{link['title']}: {link['url']}" for link in facts["links"]]
            text = "\n".join([facts["headline"], *rows, *events, facts["reason"], facts["output"], *links])
            return text if template.endswith(".txt") else f"<pre>{jinja2.filters.do_forceescape(text)}</pre>"


def facts_of(notice: Notice, about: About, public_url: str | None) -> dict[str, Any]:
    """All that a template, a webhook or a command is given. Pure."""
    told = notice.told[0] if notice.total == 1 and notice.told else None
    spec = about.spec
    facts: dict[str, Any] = {
        "kind": str(notice.kind), "channel": notice.channel, "at": iso(about.now_ms), "atMs": about.now_ms,
        "tone": _tone(notice), "total": notice.total, "job": told.event.job if told else "",
        "description": line(spec.description, 500) if spec is not None and spec.description else "",
        "rows": [], "reason": "", "output": about.output, "more": max(0, notice.total - len(notice.told)),
        "events": [_event(one, about) for one in notice.told], "links": _links(told, about, public_url),
        "groups": [{"kind": str(one.kind), "worker": one.worker, "count": one.count} for one in groups_of(notice)],
    }  # fmt: skip
    if told is not None:
        facts["headline"] = _headline(told, notice.kind)
        facts["reason"] = _reason(told.event, facts["headline"])
        facts["rows"] = [{"label": label, "value": value} for label, value in _rows(told, notice.kind, about)]
    elif notice.kind is NoticeKind.TEST:
        facts["headline"] = f"test of channel {line(notice.channel)}"
        facts["reason"] = f"{line(notice.by) or 'Somebody'} asked for it. Messages of this channel arrive here."
    else:
        still = "still: " if notice.kind is NoticeKind.REPEAT else ""
        facts["headline"] = f"{still}{digest_words(notice)}"
    facts["lines"] = [f"{row['label']}: {row['value']}" for row in facts["rows"]] + [
        one for one in (facts["reason"], facts["description"]) if one
    ]
    if told is None:
        facts["lines"] += [event["sentence"] for event in facts["events"]]
    return facts


def sentence(told: AlertedEvent) -> str:
    """What happened, with the reason in a few words."""
    event = told.event
    about = line(event.job or event.subject or "the system", 100)
    if told.is_flapping:
        return f"{about} fails and recovers, again and again"
    was, _, subject = about.partition("/")
    if event.kind is EventKind.RECOVERED and not event.job and was in _SYSTEM:
        return f"{_OVER}{_PHRASES[EventKind(was)][0].format(subject)}"
    words = _PHRASES[event.kind][0].format(about) + (f" ({event.count:,} times)" if event.count > 1 else "")
    detail = line(event.err or event.reason or "", 120)
    if event.kind is EventKind.FAILED and not detail and event.exit_code is not None:
        detail = f"exit status {event.exit_code}"
    return f"{words}: {detail}" if detail else words


def digest_words(notice: Notice) -> str:
    """Several events in a sentence: the kinds that are most, and the worker where it is one alone."""
    of_kind: Counter[EventKind] = Counter()
    workers: dict[EventKind, set[str | None]] = {}
    for group in groups_of(notice):
        of_kind[group.kind] += group.count
        workers.setdefault(group.kind, set()).add(group.worker)
    parts = []
    for kind, count in of_kind.most_common(3):
        (worker,) = workers[kind] if len(workers[kind]) == 1 else (None,)
        counted = f"{_PHRASES[kind][1]} ({count:,})" if kind in _SYSTEM else f"{count:,} {_PHRASES[kind][1]}"
        parts.append(counted + (f" on {line(worker, 60)}" if worker else ""))
    if rest := sum(of_kind.values()) - sum(count for _, count in of_kind.most_common(3)):
        parts.append(f"{rest:,} others")
    return f"{notice.total:,} events: {', '.join(parts)}" if len(parts) > 1 else parts[0]


def _headline(told: AlertedEvent, kind: NoticeKind) -> str:
    name = line(told.event.job or told.event.subject, 100)
    if kind is NoticeKind.FLAPPING:
        return f"{name} fails and recovers, again and again"
    if kind is NoticeKind.REPEAT:
        return f"still: {sentence(told)}"
    if told.event.kind is EventKind.RECOVERED and told.since_ms is not None:
        words, after = sentence(told), f"after {_span(told.event.at_ms - told.since_ms)}"
        return f"over {after}: {words.removeprefix(_OVER)}" if words.startswith(_OVER) else f"{words} {after}"
    return sentence(told)


def _reason(event: Event, headline: str) -> str:
    """What the record says beyond the headline."""
    words = [line(one, 500) for one in (event.reason, event.err) if one]
    return "; ".join(one for one in dict.fromkeys(words) if one and not headline.endswith(f": {one}"))


def _rows(told: AlertedEvent, kind: NoticeKind, about: About) -> Iterator[tuple[str, str]]:
    event, spec = told.event, about.spec
    if event.job:
        yield "Job", line(event.job)
    yield from _of_the_run(event, about)

    def when(ms: int) -> str:
        return about.when(ms, event.zone, bare=True)

    if about.now_ms - event.at_ms > _LATE_MS and kind is not NoticeKind.REPEAT:
        yield "Told late", f"it happened {_span(about.now_ms - event.at_ms)} ago"
    if told.since_ms is not None and event.kind is EventKind.RECOVERED:
        yield "Was bad since", when(told.since_ms)
    elif told.since_ms is not None and told.since_ms < event.at_ms:
        count = f", {told.in_a_row} in a row" if told.in_a_row > 1 else ""
        yield "Since", f"{when(told.since_ms)} ({_span(event.at_ms - told.since_ms)}){count}"
    if told.last_ok_ms is not None and event.kind is not EventKind.RECOVERED:
        yield "Last success", when(told.last_ok_ms)
    if about.next_ms is not None:
        yield "Next run", when(about.next_ms)
    elif spec is not None:
        yield "Next run", "none" if spec.enabled else "none: the job is paused"


def _of_the_run(event: Event, about: About) -> Iterator[tuple[str, str]]:
    plan_ms = event.plan_ms if event.plan_ms is not None else event.start_ms
    yield (
        ("At", about.when(event.at_ms, event.zone)) if plan_ms is None else ("Planned", about.when(plan_ms, event.zone))
    )
    if event.start_ms is not None and plan_ms is not None:
        if event.start_ms - plan_ms >= _SHOWN_LATE_MS:
            yield "Started", f"{_span(event.start_ms - plan_ms)} later"
        if event.end_ms is not None:
            yield "Took", _span(event.end_ms - event.start_ms)
        elif event.kind is EventKind.SLOW:
            yield "Runs for", _span(event.at_ms - event.start_ms)
    if event.worker:
        yield "Worker", line(event.worker)
    if event.attempt > 1:
        yield "Attempt", str(event.attempt)


def _event(told: AlertedEvent, about: About) -> dict[str, Any]:
    event = told.event
    return {
        "kind": str(event.kind), "job": event.job, "subject": event.subject, "runId": event.run,
        "labels": dict(event.labels), "worker": event.worker, "attempt": event.attempt, "exitCode": event.exit_code,
        "reason": event.reason, "error": event.err, "at": iso(event.at_ms),
        "planTime": _iso(event.plan_ms), "startTime": _iso(event.start_ms), "endTime": _iso(event.end_ms),
        "since": _iso(told.since_ms), "lastSuccess": _iso(told.last_ok_ms), "inARow": told.in_a_row,
        "sentence": sentence(told), "when": about.when(event.plan_ms or event.at_ms, event.zone),
    }  # fmt: skip


def _links(told: AlertedEvent | None, about: About, public_url: str | None) -> list[dict[str, str]]:
    """Those that the job brings, the run, the job, and silence; none changes anything by being opened."""
    given = about.spec.links if about.spec is not None else ()
    links = [{"title": line(one.title, 80), "url": one.url} for one in given]
    if public_url is None:
        return links
    if told is None or not told.event.job:
        return [*links, {"title": "open alerts", "url": f"{public_url}/alerts"}]
    job = f"{public_url}/jobs/{quote(told.event.job, safe='')}"
    if told.event.run:
        links.append({"title": "this run", "url": f"{public_url}/runs/{quote(told.event.run, safe='')}"})
    links.append({"title": "the job", "url": job})
    is_over = told.event.kind is EventKind.RECOVERED
    return links if is_over else [*links, {"title": "silence this", "url": f"{job}#alert"}]


def _tone(notice: Notice) -> str:
    kinds = {group.kind for group in groups_of(notice)}
    if kinds <= _GOOD and kinds:
        return "good"
    return "neutral" if kinds <= _GOOD | _NEUTRAL else "bad"


def _thread(told: AlertedEvent | None) -> str:
    """Mails of one alert stand together."""
    return "" if told is None or told.since_ms is None else notice_id(str(told.since_ms), key_of(told.event))


def _span(ms: int) -> str:
    """In the two units that say most."""
    seconds = max(0, ms) // 1000
    return " ".join(span_words(Duration("", seconds * 1000)).split(" ")[:4]) if seconds else "less than a second"


def _iso(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
