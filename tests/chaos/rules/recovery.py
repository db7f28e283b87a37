"""G12: after the faults all comes to rest by itself, and nobody had to end or mend anything."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.view import View, Violation


def check(view: View) -> Iterator[Violation]:
    """Stages that were not reached, processes that ended by themselves, keys that are left."""
    for stage in view.stages:
        if stage.failed:
            yield Violation("G12", stage.name, stage.failed)
    if not any(stage.name == "settled" for stage in view.stages):
        yield Violation("G12", "settled", "the history ends before")
    for one in view.exits:
        yield Violation("G12", one.process, f"ended by itself with status {one.status} at {one.at_ms}")
    for left in view.leftovers:
        yield Violation("G9", left.key, f"is left in etcd: {left.value[:200]}")
