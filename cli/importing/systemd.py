"""Timers of systemd and the services that they start: ``systemctl cat 'NAME.timer' 'NAME.service' ...``. Pure.

Source: systemd.timer(5), systemd.time(7) ("Calendar Events").
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
_SPAN: Final = re.compile(
    r"([0-9]+)\s*(us|ms|s(?:ec(?:onds?)?)?|m(?:in(?:utes?)?)?|h(?:r|ours?)?|d(?:ays?)?|w(?:eeks?)?)?"
)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
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


def _seconds(text: str) -> int:
    total = 0
    for number, unit in _SPAN.findall(text):
        if unit not in ("us", "ms"):
            total += int(number) * _SECONDS[unit[:1]]
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
        raise RefusedError("it has several commands, or none: make a script of them")
    job: dict[str, Any] = {"name": name_of(name), "command": _command(commands[0])}
    if calendars := when.get("OnCalendar"):
        read = [calendar(one) for one in calendars]
        job["cronExpr"] = read[0][0] if len(read) == 1 else [expr for expr, _ in read]
        zones = {zone for _, zone in read}
        if len(zones) > 1:
            raise RefusedError("its OnCalendar= are of several time zones: make a job of each")
        zone = zones.pop()
    elif active := when.get("OnUnitActiveSec") or when.get("OnUnitInactiveSec"):
        job["after" if when.get("OnUnitInactiveSec") else "every"] = f"{_seconds(active[-1])}s"
        zone = None
    else:
        raise RefusedError("it has neither OnCalendar= nor OnUnitActiveSec=: at a boot the machine itself starts it")
    env: dict[str, str] = {}
    for line in does.get("Environment") or ():
        env |= dict(one.split("=", 1) for one in shlex.split(line) if "=" in one)
    user = (does.get("User") or [""])[-1]
    persistent = (when.get("Persistent") or ["no"])[-1].lower() in ("yes", "true", "1", "on")
    timeout = (does.get("TimeoutStartSec") or does.get("RuntimeMaxSec") or ["infinity"])[-1]
    set_if(
        job, timezone=zone, env=env, user=user, workdir=(does.get("WorkingDirectory") or [""])[-1].lstrip("-"),
        jitterSeconds=_seconds((when.get("RandomizedDelaySec") or ["0"])[-1]),
        timeoutSeconds=0 if timeout == "infinity" else _seconds(timeout),
        description=(service.get("Unit", {}).get("Description") or [""])[-1],
        misfire={"policy": "latest", "windowSeconds": 31_622_400} if persistent else {"policy": "skip"},
    )  # fmt: skip
    if job.get("after") or job.get("every"):
        job.pop("jitterSeconds", None)
    if not user:
        found.notes.append("it ran as root there: say as whom it runs (--set user=...)")
    for key in ("EnvironmentFile", "ExecStartPost", "OnFailure", "Restart"):
        if does.get(key) or service.get("Unit", {}).get(key):
            found.notes.append(f"{key}= is left out")
    return job


def _command(text: str) -> list[str]:
    """`ExecStart=` is no line for a shell: quotes are its own, and ``%`` begins a specifier."""
    words = shlex.split(text.lstrip("-@:+!"))
    if any(re.search(r"(?<!%)(?:%%)*%[A-Za-z]", word) for word in words):
        raise RefusedError("its command has specifiers (%i, %n, ...): write what they stand for")
    return [word.replace("%%", "%") for word in words]
