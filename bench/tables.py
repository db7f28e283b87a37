"""A benchmark's summary as a table for the terminal and for docs/internals/benchmarks.md (Markdown)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Summary

NOT_MEASURED = "not measured"


def table(summaries: Sequence[Summary]) -> str:
    """One line a figure: what, median, range, goal, whether it is met, what to know of it."""
    rows: list[tuple[str, ...]] = [("", "median", "range", "goal", "", "")]
    rows += [_row(summary) for summary in summaries]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits that count, and all of those before the point; a whole number as it is."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _row(summary: Summary) -> tuple[str, ...]:
    if summary.median is None:
        return (summary.name, NOT_MEASURED, "", _goal(summary), "", summary.note)
    unit = f" {summary.unit}" if summary.unit else ""
    spread = f"{number(min(summary.values))} to {number(max(summary.values))}" if len(summary.values) > 1 else ""
    met = "" if summary.goal is None else "met" if summary.goal.is_met(summary.median) else "not met"
    return (summary.name, number(summary.median) + unit, spread, _goal(summary), met, summary.note)


def _goal(summary: Summary) -> str:
    return "" if summary.goal is None else f"{summary.goal.bound} {summary.goal.limit:g}"
