"""Exports of other schedulers that are JSON or YAML. Pure.

Each is a function of the text: everything in the export is given back, as a job or with the reason why not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from cli.importing.found import (
    Found,
    Object,
    RefusedError,
    UnreadableError,
    name_of,
    objects_in,
    set_if,
    trigger_of,
    whole,
)

_OVERLAP: Final = {"allow": "allow", "forbid": "skip", "replace": "replace"}
_ALL: Final = "*"
"""Among names: there may be any."""
_LEGACY: Final = frozenset({"name", "command", "cronExpr"})


def each(things: Iterator[Object], read: Callable[[Object, Found], dict[str, Any]], title: str) -> Iterator[Found]:
    """What becomes of each; ``title``: the member that says what it is called."""
    for thing in things:
        found = Found(title=str(thing.get(title) or "?"))
        try:
            found.job = read(thing, found)
        except RefusedError as error:
            found.notes.append(str(error))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError):
            found.notes.append("it is not as that system writes it")
        yield found


def kubernetes(text: str) -> Iterator[Found]:
    """``kubectl get cronjobs --all-namespaces -o json`` (or yaml)."""
    if not text.lstrip().startswith("{"):
        import yaml

        try:
            documents = [one for one in yaml.safe_load_all(text) if one is not None]
            text = json.dumps(documents[0] if len(documents) == 1 else documents, default=str)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # a date for a key, a circle, ...
            raise UnreadableError(f"it is neither JSON nor YAML: {error}") from None
    for thing in objects_in(text, "items"):
        metadata = thing["metadata"] if isinstance(thing.get("metadata"), dict) else {}
        names = (metadata.get("namespace"), metadata.get("name"))
        found = Found(title="/".join(str(name) for name in names if name) or "?")
        try:
            if thing.get("kind", "CronJob") != "CronJob":
                raise RefusedError(f"it is a {thing.get('kind')}, and no CronJob")
            found.job = _cron_job(metadata, thing["spec"], found)
        except RefusedError as error:
            found.notes.append(str(error))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError):
            found.notes.append("it is not as Kubernetes writes it")
        yield found


def _cron_job(metadata: Object, spec: Object, found: Found) -> dict[str, Any]:
    of_job = spec["jobTemplate"]["spec"]
    pod = of_job["template"]["spec"]
    containers = pod["containers"]
    if len(containers) != 1 or pod.get("initContainers"):
        raise RefusedError("its pod has several containers: make a script of them")
    container = containers[0]
    command = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise RefusedError(
            f"its command is that of the image {container.get('image')}: name it, or run the image by a command"
        )
    job: dict[str, Any] = {"name": name_of(metadata.get("namespace"), metadata["name"]), "command": command}
    schedule, zone = str(spec["schedule"]), spec.get("timeZone")
    for prefix in ("CRON_TZ=", "TZ="):
        if schedule.startswith(prefix):
            zone, _, schedule = schedule.removeprefix(prefix).partition(" ")
    trigger_of(job, schedule)
    limit = of_job.get("backoffLimit", 6)
    env, elsewhere = _environment(container)
    job["command"] = [_expanded(str(word), env, elsewhere) for word in command]
    set_if(
        job, timezone=zone, overlap=_OVERLAP[str(spec.get("concurrencyPolicy") or "Allow").lower()],
        timeoutSeconds=whole(of_job.get("activeDeadlineSeconds")), workdir=container.get("workingDir"),
        env=env,
        labels={str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
        retry={"limit": min(100, whole(limit)), "delaySeconds": 10, "maxDelaySeconds": 360} if limit else None,
    )  # fmt: skip
    if deadline := whole(spec.get("startingDeadlineSeconds")):
        job["misfire"] = {"graceSeconds": min(86_400, max(1, deadline)), "windowSeconds": deadline}
    found.notes.append(f"it runs on the worker, and no longer in the image {container.get('image')}")
    if left := sorted(elsewhere - {_ALL}):
        found.notes.append(f"variables from elsewhere are left out ({', '.join(left)}): see `secrets`")
    if pod.get("volumes") or container.get("envFrom"):
        found.notes.append("volumes and envFrom are left out")
    if spec.get("suspend"):
        found.notes.append("it is suspended there")
    return job


def _environment(container: Object) -> tuple[dict[str, str], set[str]]:
    """Plain variables, which may name those before them, and the names of those that come from elsewhere."""
    env: dict[str, str] = {}
    elsewhere = {_ALL} if container.get("envFrom") else set()
    for one in container.get("env") or ():
        if "value" in one:
            env[one["name"]] = _expanded(str(one["value"]), env, elsewhere)
        else:
            elsewhere.add(one["name"])
    return env, elsewhere


def _expanded(text: str, env: dict[str, str], elsewhere: set[str]) -> str:
    """``$(NAME)`` stands for a variable's value, or for itself where there is none, as a shell's; ``$$`` for ``$``."""

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        if not found["end"]:  # `$$`, and there may be more of them behind a name without an end
            return found[0].replace("$$", "$")
        is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) is not None
        if name not in env and (name in elsewhere or (is_name and (_ALL in elsewhere or name.isupper()))):
            raise RefusedError(f"$({name}) is not in its plain env: write what it stands for")
        return env.get(name, found[0])

    return re.sub(r"\$\$|\$\((?P<name>[^)]*)(?P<end>\)?)", value, text)


def dkron(text: str) -> Iterator[Found]:
    """``curl http://dkron:8080/v1/jobs``."""
    return each(objects_in(text), _dkron, "name")


def _dkron(thing: Object, found: Found) -> dict[str, Any]:
    config = thing.get("executor_config") or {}
    if (thing.get("executor") or "shell") != "shell":
        raise RefusedError(f"its executor is {thing.get('executor')}: call it by a command")
    if thing.get("parent_job"):
        raise RefusedError(f"it runs after {thing['parent_job']}: add it to that job's command")
    job: dict[str, Any] = {"name": name_of(thing["name"]), "command": config.get("command") or thing.get("command")}
    trigger_of(job, str(thing.get("schedule") or ""))
    env, retries = config.get("env") or "", whole(thing.get("retries"))
    set_if(
        job, timezone=thing.get("timezone"), overlap=_OVERLAP[str(thing.get("concurrency") or "allow").lower()],
        retry={"limit": retries} if retries else None, workdir=config.get("cwd"),
        env=dict(one.split("=", 1) for one in env.split(",") if "=" in one), description=thing.get("displayname"),
        labels={str(key): str(value) for key, value in (thing.get("metadata") or {}).items()},
    )  # fmt: skip
    if not job["command"]:
        raise RefusedError("it has no command")
    tags = {str(key): str(value).partition(":") for key, value in (thing.get("tags") or {}).items()}
    if tags:
        job["workers"] = {key: value for key, (value, _, _) in tags.items()}
        if any(count != "1" for _, _, count in tags.values()):
            job["broadcast"] = True
            found.notes.append("it runs on each worker with these labels, whatever number its tags named")
    if config.get("timeout"):
        found.notes.append(f"its timeout {config['timeout']} is left out: set timeoutSeconds")
    if thing.get("disabled"):
        found.notes.append("it is disabled there")
    return job


def cronicle(text: str) -> Iterator[Found]:
    """The answer of ``/api/app/get_schedule/v1``, or the lines of ``control.sh export``."""
    lines = [line for line in text.splitlines() if line.startswith("global/schedule/")]
    if lines:
        items = [row.get("items") or [] for row in objects_in("\n".join(line.partition(" - ")[2] for line in lines))]
        text = json.dumps([one for some in items for one in (some if isinstance(some, list) else [some])])
    return each(objects_in(text, "rows"), _cronicle, "title")


def _cronicle(thing: Object, found: Found) -> dict[str, Any]:
    params, timing = thing.get("params") or {}, thing.get("timing")
    if thing.get("plugin") != "shellplug":
        raise RefusedError(f"its plugin is {thing.get('plugin')}: call that by a command")
    if not isinstance(timing, dict):
        raise RefusedError("it has no timing: make a job of it that is asked for")
    job: dict[str, Any] = {"name": name_of(thing.get("title") or thing["id"]), "command": str(params["script"])}
    if job["command"].startswith("#!"):
        shell = job["command"].partition("\n")[0].removeprefix("#!").strip()
        job["command"] = job["command"].partition("\n")[2]
        if not shell.endswith(("sh", "bash")):
            raise RefusedError(f"its script is for {shell}: put it into a file")
        job["shell"] = shell.removeprefix("/usr/bin/env ").strip()
        if not job["shell"].startswith("/"):
            job["shell"] = f"/bin/{job['shell']}"
    parts = [timing.get(one) for one in ("minutes", "hours", "days", "months", "weekdays")]
    minute, hour, day, month, weekday = (",".join(map(str, one)) if one else "*" for one in parts)
    both = "&" if day != "*" and weekday != "*" else ""
    years = ",".join(map(str, timing.get("years") or ())) or "*"
    job["cronExpr"] = f"0 {minute} {hour} {day} {month} {both}{weekday} {years}"
    retries = whole(thing.get("retries"))
    set_if(
        job, timezone=thing.get("timezone"), timeoutSeconds=whole(thing.get("timeout")), description=thing.get("notes"),
        overlap="skip" if whole(thing.get("max_children")) == 1 else "allow",
        retry={"limit": retries, "delaySeconds": whole(thing.get("retry_delay")), "backoff": 1} if retries else None,
        misfire={"policy": "all", "limit": 100} if thing.get("catch_up") else {"policy": "skip"},
        labels={"category": str(thing.get("category") or "")}, broadcast=bool(thing.get("multiplex")),
    )  # fmt: skip
    found.notes.append(f"its target {thing.get('target')} is left out: set `workers`")
    for member in ("chain", "chain_error", "web_hook", "notify_fail", "notify_success"):
        if thing.get(member):
            found.notes.append(f"{member} is left out")
    if not thing.get("enabled"):
        found.notes.append("it is disabled there")
    return job


def cronsun(text: str) -> Iterator[Found]:
    """``etcdctl get --prefix /cronsun/cmd/ --print-value-only``."""
    for thing in objects_in(text):
        rules = thing["rules"] if isinstance(thing.get("rules"), list) else []
        for number, rule in enumerate(rules, start=1):
            found = Found(
                title=f"{thing.get('name') or thing.get('id')}" + (f", rule {number}" if len(rules) > 1 else "")
            )
            try:
                found.job = _cronsun(thing, rule, number if len(rules) > 1 else 0, found)
            except RefusedError as error:
                found.notes.append(str(error))
            except (AttributeError, TypeError, KeyError, ValueError):
                found.notes.append("it is not as cronsun writes it")
            yield found
        if not rules:
            yield Found(title=str(thing.get("name") or "?"), notes=["it has no rule, so it never ran"])


def _cronsun(thing: Object, rule: Object, number: int, found: Found) -> dict[str, Any]:
    job: dict[str, Any] = {
        "name": name_of(thing.get("group"), thing.get("name") or thing["id"], number),
        "command": thing["cmd"],
    }
    trigger_of(job, str(rule["timer"]))
    retries, kind = whole(thing.get("retry")), whole(thing.get("kind"))
    set_if(
        job, user=thing.get("user"), timeoutSeconds=whole(thing.get("timeout")),
        overlap="allow" if whole(thing.get("parallels")) != 1 else "skip",
        retry={"limit": retries, "delaySeconds": 60 * whole(thing.get("interval")), "backoff": 1} if retries else None,
        broadcast=kind == 0 and len(rule.get("nids") or rule.get("gids") or ()) != 1,
    )  # fmt: skip
    if nodes := [*(rule.get("nids") or ()), *(rule.get("gids") or ())]:
        found.notes.append(f"its nodes and groups ({', '.join(map(str, nodes))}) are left out: set `workers`")
    if thing.get("pause"):
        found.notes.append("it is paused there")
    return job


def legacy(text: str) -> Iterator[Found]:
    """The legacy system's jobs: ``etcdctl get --prefix /cron/jobs/ -w json``, or their values, one a line."""
    values = list[Object]()
    for thing in objects_in(text, "kvs"):
        if "value" in thing and "command" not in thing:
            try:
                value = json.loads(base64.b64decode(thing["value"]))
            except (ValueError, binascii.Error, TypeError, RecursionError):
                value = None
            values.append(value if isinstance(value, dict) else {"name": str(thing.get("key"))})
        else:
            values.append(thing)
    return each(iter(values), _legacy, "name")


def _legacy(thing: Object, found: Found) -> dict[str, Any]:
    if not thing.get("command") or not thing.get("cronExpr"):
        raise RefusedError("it has no command, or no cronExpr")
    if more := sorted(set(thing) - _LEGACY):
        found.notes.append(f"{', '.join(more)} is left out")
    return {"name": name_of(thing["name"]), "command": thing["command"], "cronExpr": thing["cronExpr"]}


SYSTEMS: Final[dict[str, Callable[[str], Iterator[Found]]]] = {
    "kubernetes": kubernetes, "dkron": dkron, "cronicle": cronicle, "cronsun": cronsun, "legacy": legacy,
}  # fmt: skip
