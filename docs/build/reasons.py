"""``reference/reasons.md``: verdicts, reasons and events in the words of the console, and the codes of errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from common.verdicts import Verdict

ROOT: Final = Path(__file__).parents[2]
_HEAD: Final = """\
# Verdicts, reasons, events

Each planned fire of an enabled job has one record with a verdict, and where nothing ran, with the reason. `etcron job fires NAME` shows both.
"""
_VERDICTS: Final = """
## Verdicts

Without a run no command was started. A job is *failing* while its newest fire that was not skipped is a failure, of a
broadcast job on any worker that still takes its fires; that also opens an alert.

| Verdict | Means | A run? | A failure? |
|---|---|---|---|
"""
_REASONS: Final = """
## Reasons

A reason stands behind the verdict (`missed: late`), and often says more after a colon (`no worker that fits takes fires: worker-1: drained`).
What to do about one: [troubleshooting](../operate/troubleshooting.md).
"""
_EVENTS: Final = """
## Events

What a message may be about: `notify` of a job and `--on` of a rule take these names, the last ones rules with `--system` alone.
"""
_YES_NO: Final = {True: "yes", False: "no"}
_CODES: Final = """
## Statuses and codes

The command line has [exit statuses](cli.md#exit-statuses). Errors of the API have a `code`; which message `detail` is, and each remedy, has a code too.
Both are stable, their texts are not: `webroot/static/i18n/messages.json` has all of them in English and Chinese.
"""


def page() -> str:
    """The whole of it."""
    said: dict[str, str] = json.loads((ROOT / "webroot/static/i18n/en.json").read_text(encoding="utf-8"))
    return (
        _HEAD + _VERDICTS + "".join(_verdict(one, said[f"verdict.{one}.means"]) for one in Verdict)
        + _REASONS + "\n" + _table("Reason", _below(said, "why."))
        + _EVENTS + "\n" + _table("Event", _below(said, "event.")) + _CODES
    )  # fmt: skip


def _verdict(one: Verdict, means: str) -> str:
    return f"| `{one}` | {means} | {_YES_NO[one.is_of_a_run]} | {_YES_NO[one.is_failure]} |\n"


def _below(said: dict[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in said.items() if key.startswith(prefix)}


def _table(head: str, rows: dict[str, str]) -> str:
    return f"| {head} | Means |\n|---|---|\n" + "".join(f"| `{name}` | {text} |\n" for name, text in rows.items())
