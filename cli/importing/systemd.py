"""Timers of systemd and the services that they start: ``systemctl cat 'NAME.timer' 'NAME.service' ...``. Pure.

Source: systemd.timer(5), systemd.time(7) ("Parsing Time Spans", "Calendar Events"), systemd.service(5) ("Command
Lines"), systemd.syntax(7) ("Quoting").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from cli.importing.found import Found, RefusedError, UnreadableError, name_of, set_if

_HEAD: Final = re.compile(r"# (?P<path>/\S+\.(?:timer|service|conf))")
_SHORT: Final = {
    "minutely": "*-*-* *:*:00", "hourly": "*-*-* *:00:00", "daily": "*-*-* 00:00:00", "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00", "yearly": "*-01-01 00:00:00", "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00", "semiannually": "*-01,07-01 00:00:00",
}  # fmt: skip
_WEEKDAY_WORD: Final = re.compile(r"[A-Za-z][A-Za-z.,]*", re.ASCII)
_NUMBERS: Final = re.compile(r"[0-9*,./~:-]+", re.ASCII)
_ZONE: Final = re.compile(r"UTC|[A-Za-z_]+/[A-Za-z_/+-]+", re.ASCII)
_LONGEST: Final = 200
_WEEKDAYS: Final = {"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}
_SPAN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Zμµ]*)", re.ASCII)
_UNITS: Final = {
    "usec us μs µs": Decimal("0.000001"), "msec ms": Decimal("0.001"), "seconds second sec s": Decimal(1),
    "minutes minute min m": Decimal(60), "hours hour hr h": Decimal(3600), "days day d": Decimal(86_400),
    "weeks week w": Decimal(604_800), "months month M": Decimal(2_629_800), "years year y": Decimal(31_557_600),
}  # fmt: skip
_SECONDS: Final = {"": Decimal(1)} | {name: seconds for names, seconds in _UNITS.items() for name in names.split()}
_ITEM: Final = re.compile(r"""(?:\\.|'(?:\\.|[^\\'])*'|"(?:\\.|[^\\"])*"|[^\\'"\s])+""", re.DOTALL)
_PIECE: Final = re.compile(r"""\\(?P<escaped>[abfnrtvs\\"'])|(?P<number>\\[xuU0-7])|["']|\\.|[^\\"']+""", re.DOTALL)
_ESCAPES: Final = dict(zip("abfnrtvs", "\a\b\f\n\r\t\v ", strict=True))
_SPECIFIER: Final = re.compile(r"(?<!%)(?:%%)*%[A-Za-z]")
_PREFIXES: Final = "-@:+!|"
_SEVERAL: Final = "it has several commands, or none: make a script of them"
_ENV_FROM_ELSEWHERE: Final = ("EnvironmentFile", "PAMName", "UnsetEnvironment")
_TIMES: Final = ("OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", "OnBootSec", "OnStartupSec", "OnActiveSec")
"""What starts a timer. A job has one trigger: that of the first of them."""
Section = Mapping[str, list[str]]


def systemd(text: str) -> Iterator[Found]:
    """Each timer with its service."""
    units = _units(text)
    if not any(path.endswith(".timer") for path in units):
        raise UnreadableError("it has no timer; make it with: systemctl cat NAME.timer NAME.service ...")
    for path, unit in units.items():
        if not path.endswith(".timer"):
            continue
        title = path.rpartition("/")[2]
        service = (unit.get("Timer", {}).get("Unit") or [title.removesuffix(".timer") + ".service"])[-1]
        started = next((one for of, one in units.items() if of.endswith(f"/{service}")), None)
        found = Found(title=title)
        try:
            if started is None:
                raise RefusedError(f"its service is not in the file: add {service} to systemctl cat")
            found.job = _job(title.removesuffix(".timer"), unit, started, found)
        except RefusedError as error:
            found.notes.append(str(error))
        yield found


def calendar(text: str) -> tuple[str, str | None]:
    """`OnCalendar=` as seven fields, and its zone. RefusedError."""
    weekday, date, time, zone = _parts(text.strip())
    year, month, day = ["*", "*", "*"]
    if date:
        if "~" in date:
            raise RefusedError(f"OnCalendar={text}: days from the end of a month: write L or L-3 for the day")
        parts = date.split("-")
        year, month, day = ["*", *parts] if len(parts) == 2 else parts
    parts = (time or "0:0:0").split(":")
    hour, minute, second = [*parts, "0"] if len(parts) == 2 else parts
    if "." in second.replace("..", ""):
        raise RefusedError(f"OnCalendar={text}: fractions of seconds")
    days = re.sub(r"[A-Z]+", lambda found: found[0][:3], (weekday or "*").replace("..", "-").upper())
    fields = [_field(one) for one in (second, minute, hour, day, month)]
    both = "&" if fields[3] != "*" and days != "*" else ""
    return " ".join([*fields, both + days, _field(year)]), zone


def _parts(text: str) -> tuple[str | None, str | None, str | None, str | None]:
    """Weekdays, date, time and zone: each is one word, and may be left out. RefusedError: it is another form."""
    words = _SHORT.get(text.lower(), text)[:_LONGEST].split()
    weekday = words.pop(0) if words and _WEEKDAY_WORD.fullmatch(words[0]) else None
    date = words.pop(0) if words and _NUMBERS.fullmatch(words[0]) and words[0].count("-") in (1, 2) else None
    time = words.pop(0) if words and _NUMBERS.fullmatch(words[0]) and words[0].count(":") in (1, 2) else None
    zone = words.pop(0) if words and _ZONE.fullmatch(words[0]) else None
    named = {one[:3] for one in re.findall(r"[A-Z]+", (weekday or "").upper())}
    if words or len(text) > _LONGEST or not named <= _WEEKDAYS or not (weekday or date or time):
        raise RefusedError(f"OnCalendar={text[:_LONGEST]}: this form is not read here; write a cron expression for it")
    return weekday, date, time, zone


def _field(text: str) -> str:
    """``0/15`` stands for every 15 from 0 on, ``1..5`` for a range; leading noughts go."""
    text = text.replace("..", "-")
    text = re.sub(r"[0-9]+", lambda found: str(int(found[0])), text)
    return re.sub(r"(^|,)0/", r"\1*/", text)


def _seconds(key: str, section: Section) -> int:
    """0: it is not given, or without end. RefusedError."""
    return int(_span(key, section).to_integral_value(rounding=ROUND_CEILING))


def _span(key: str, section: Section) -> Decimal:
    text = (section.get(key) or ["0"])[-1]
    if text == "infinity":
        return Decimal(0)
    total, end = Decimal(0), 0
    while (found := _SPAN.match(text, end)) is not None and found[2] in _SECONDS:
        total, end = total + Decimal(found[1]) * _SECONDS[found[2]], found.end()
    if end == 0 or text[end:].strip() or len(text) > _LONGEST:
        raise RefusedError(f"{key}={text[:_LONGEST]} is no time span")
    return total


def _units(text: str) -> dict[str, dict[str, dict[str, list[str]]]]:
    """By path: the sections with their keys; a drop-in adds to its unit, and an empty value begins a key anew."""
    units: dict[str, dict[str, dict[str, list[str]]]] = {}
    unit: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        if (head := _HEAD.fullmatch(line.strip())) is not None:
            path = head["path"]
            if path.endswith(".conf"):
                path = path.rpartition("/")[0].removesuffix(".d")
                path = next((one for one in units if one.rpartition("/")[2] == path.rpartition("/")[2]), path)
            unit = units.setdefault(path, {})
        elif (name := re.fullmatch(r"\[(\w+)\]", line.strip())) is not None:
            section = unit.setdefault(name[1], defaultdict(list))
        elif "=" in line and not line.lstrip().startswith(("#", ";")):
            key, _, value = line.partition("=")
            if value.strip():
                section.setdefault(key.strip(), []).append(value.strip())
            else:
                section.pop(key.strip(), None)
    return units


def _job(name: str, timer: Mapping[str, Section], service: Mapping[str, Section], found: Found) -> dict[str, Any]:
    when, does = timer.get("Timer", {}), service.get("Service", {})
    commands = does.get("ExecStart") or []
    if len(commands) != 1 or does.get("ExecStartPre"):
        raise RefusedError(_SEVERAL)
    env = _environment(does)
    words, prefixes = _command(commands[0])
    if ":" not in prefixes:
        known = {} if any(does.get(key) for key in _ENV_FROM_ELSEWHERE) else env
        words = [words[0], *(one for word in words[1:] for one in _expanded(word, known))]
    if "-" in prefixes:
        found.notes.append("an exit status that is not 0 was no failure there (ExecStart=-), and is one here")
    user = "" if {"+", "!"} & set(prefixes) else _plain((does.get("User") or [""])[-1])
    job: dict[str, Any] = {"name": name_of(name), "command": words}
    zone = _trigger(job, when)
    persistent = (when.get("Persistent") or ["no"])[-1].lower() in ("yes", "true", "1", "on")
    limit = "RuntimeMaxSec"
    if (does.get("Type") or ["simple"])[-1] == "oneshot":  # the start of any other ends before its run does
        limit = "TimeoutStartSec" if does.get("TimeoutStartSec") else "TimeoutSec"
    set_if(
        job, timezone=zone, env=env, user=user, workdir=_plain((does.get("WorkingDirectory") or [""])[-1].lstrip("-")),
        jitterSeconds=_seconds("RandomizedDelaySec", when), timeoutSeconds=_seconds(limit, does),
        description=(service.get("Unit", {}).get("Description") or [""])[-1],
        misfire={"policy": "latest", "windowSeconds": 31_622_400} if persistent else {"policy": "skip"},
    )  # fmt: skip
    if job.get("after") or job.get("every"):
        job.pop("jitterSeconds", None)
    for key in [key for key in _TIMES if when.get(key)][1:]:
        found.notes.append(f"{key}= is left out")
    if not user:
        found.notes.append("it ran as root there: say as whom it runs (--set user=...)")
    for key in (*_ENV_FROM_ELSEWHERE, "PassEnvironment", "SuccessExitStatus", "ExecStartPost", "OnFailure", "Restart"):
        if does.get(key) or service.get("Unit", {}).get(key):
            found.notes.append(f"{key}= is left out")
    return job


def _trigger(job: dict[str, Any], when: Section) -> str | None:
    """Sets it; the time zone that it names."""
    if calendars := when.get("OnCalendar"):
        read = [calendar(one) for one in calendars]
        job["cronExpr"] = read[0][0] if len(read) == 1 else [expr for expr, _ in read]
        zones = {zone for _, zone in read}
        if len(zones) > 1:
            raise RefusedError("its OnCalendar= are of several time zones: make a job of each")
        return zones.pop()
    for key, field in (("OnUnitActiveSec", "every"), ("OnUnitInactiveSec", "after")):
        if when.get(key):
            span = _span(key, when)
            if span < 1 or span % 1:
                raise RefusedError(f"{key}={when[key][-1]} is no number of whole seconds")
            job[field] = f"{int(span)}s"
            return None
    raise RefusedError("it has neither OnCalendar= nor OnUnitActiveSec=: at a boot the machine itself starts it")


def _environment(does: Section) -> dict[str, str]:
    env: dict[str, str] = {}
    for line in does.get("Environment") or ():
        env |= dict(_plain(one).split("=", 1) for _, one in _words(line) if "=" in one)
    return env


def _command(text: str) -> tuple[list[str], str]:
    """Its words, and the prefixes of the first one. `ExecStart=` is no line for a shell."""
    words = list(_words(text))
    if any(written == ";" for written, _ in words):
        raise RefusedError(_SEVERAL)
    plain = [";" if written == "\\;" else _plain(word) for written, word in words]
    program = plain[0].lstrip(_PREFIXES) if plain else ""
    if not program:
        raise RefusedError("it has no command")
    prefixes = plain[0].removesuffix(program)
    if "@" in prefixes or "|" in prefixes:
        raise RefusedError("its command has a name of its own (@), or is for a shell (|): make a script of it")
    return [program, *plain[1:]], prefixes


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Each as it is written, and without its quotes; an escape that is none stays."""
    if _ITEM.sub("", text).strip():
        raise RefusedError(f"a quote in it has no end: {text[:_LONGEST]}")
    for item in _ITEM.finditer(text):
        read, quote = "", ""
        for piece in _PIECE.finditer(item[0]):
            if piece["number"]:
                raise RefusedError(f"it has characters by their number ({piece[0]}...): write them as they are")
            if piece[0] in ("'", '"') and quote in ("", piece[0]):
                quote = "" if quote else piece[0]
            elif escaped := piece["escaped"]:
                read += _ESCAPES.get(escaped, escaped)
            else:
                read += piece[0]
        yield item[0], read


def _plain(word: str) -> str:
    """``%`` begins a specifier."""
    if _SPECIFIER.search(word):
        raise RefusedError("it has specifiers (%i, %n, ...): write what they stand for")
    return word.replace("%%", "%")


def _expanded(word: str, env: Mapping[str, str]) -> list[str]:
    """``$NAME`` alone stands for the words of its value, ``${NAME}`` for its value anywhere, ``$$`` for ``$``."""

    def value(name: str | None) -> str:
        if name is None or name not in env:
            message = f"{word[:_LONGEST]} in its command is not from Environment= alone: write what it stands for"
            raise RefusedError(message)
        return env[name]

    if (alone := re.fullmatch(r"\$([^${].*)?", word, re.DOTALL)) is not None:
        return [one for _, one in _words(value(alone[1]))]
    parts = re.compile(r"\$\$|\$\{(?P<name>[^}]*)(?P<end>\}?)")
    return [parts.sub(lambda found: "$" if found[0] == "$$" else value(found["name"] if found["end"] else None), word)]
