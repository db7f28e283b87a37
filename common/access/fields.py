"""A selector of labels, as users write it.

Pure: pydantic's core, standard library and its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common.access.selectors import ALL, MOST_LABELS, MOST_VALUES, Selector
from common.jobs.kinds import Kind, Schema
from common.jobs.reading import check_unicode, shown, wrong


@dataclass(frozen=True)
class SelectorField(Kind):
    """Which labels are reached."""

    type: str = "text or object"
    limits: str = f'"all", or up to {MOST_LABELS} labels, each with up to {MOST_VALUES} values'

    @property
    def schema(self) -> Schema:
        values: Schema = {"type": "array", "minItems": 1, "maxItems": MOST_VALUES, "items": {"type": "string"}}
        named: Schema = {
            "type": "object", "minProperties": 1, "maxProperties": MOST_LABELS, "additionalProperties": values,
        }  # fmt: skip
        return {"anyOf": [{"type": "string", "const": ALL}, named]}

    def read(self, value: Any) -> Selector:
        needed = 'needed: "all", or labels with lists of values such as {"team": ["billing"]}'
        if value is None:
            raise wrong("is missing", needed)
        try:
            selector = Selector.from_json(value)
        except ValueError as error:
            raise wrong(f"is {shown(value)}: it {error}", needed) from None
        for label, values in (selector.wanted or {}).items():
            for text in (label, *values):
                check_unicode(text)
                if len(text) > 256:
                    raise wrong(f"names {shown(text)}", "at most 256 characters in each label and value")
        return selector

    def write(self, value: Selector) -> str | dict[str, list[str]]:
        return value.to_json()
