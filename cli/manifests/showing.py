"""A plan, and what became of it, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cli.job_views import change_lines
from cli.manifests.plan import Action, Step
from cli.printing import one_line, quoted

_SIGNS: Final = {Action.CREATE: "+", Action.CHANGE: "~", Action.KEEP: "=", Action.PRUNE: "-"}
_TO_DO: Final = {
    Action.CREATE: "to create", Action.CHANGE: "to change", Action.KEEP: "unchanged", Action.PRUNE: "to prune",
}  # fmt: skip
_RESULTS: Final = ("created", "changed", "unchanged", "pruned", "failed")


def step_lines(step: Step) -> list[str]:
    """One step: what changes field by field, and the next fires as they were and as they will be."""
    place = f"  ({step.place})" if step.place else ""
    lines = [f"{_SIGNS[step.action]} {step.name}{place}"]
    match step.action:
        case Action.CREATE:
            lines += [f"    {field}: {quoted(value)}" for field, _, value in step.changes]
            lines += _fires("next fires", step.fires_after, step.state_after)
        case Action.CHANGE:
            lines += change_lines(step.changes, indent="    ")
            if not step.changes:
                lines.append("    its fields cannot be compared here: the manager does it")
            if step.fires_before != step.fires_after:
                lines += _fires("next fires, now: ", step.fires_before, step.state_before)
                lines += _fires("next fires, then:", step.fires_after, step.state_after)
        case Action.PRUNE:
            lines += _fires("fires no more:", step.fires_before, step.state_before)
        case _:
            pass
    return [one_line(line) for line in lines]


def plan_summary(steps: Iterable[Step]) -> str:
    """How many of what a dry run has found."""
    counts = Counter(step.action for step in steps)
    told = ", ".join(f"{counts[action]} {_TO_DO[action]}" for action in Action if counts[action]) or "nothing to do"
    return f"{told} (dry run: nothing was changed)"


def outcome(results: Mapping[str, str]) -> str:
    """How many jobs came to what."""
    counts = Counter(results.values())
    return ", ".join(f"{counts[word]} {word}" for word in _RESULTS if counts[word]) or "nothing to do"


def step_document(step: Step, *, result: str | None) -> Mapping[str, Any]:
    """One step as JSON. `result`: what became of it; None in a dry run."""
    return {
        "name": step.name,
        "action": str(step.action),
        "place": step.place or None,
        "revision": step.revision or None,
        "changes": [{"field": field, "before": before, "after": after} for field, before, after in step.changes],
        "fires": {"before": list(step.fires_before), "after": list(step.fires_after)},
        "result": result,
    }


def _fires(title: str, fires: Sequence[str], state: str) -> list[str]:
    if fires:
        return [f"    {title} {', '.join(fires)}"]
    return [f"    {title} none{' (paused)' if state == 'paused' else ''}"]
