"""Which labels a right reaches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

ALL: Final = "all"
MOST_LABELS: Final = 20
MOST_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class Selector:
    """Everything, or what has each of these labels with one of its values. An empty one would reach everything by
    accident, so it cannot be made.
    """

    wanted: Mapping[str, frozenset[str]] | None
    """None: everything."""

    def __post_init__(self) -> None:
        """ValueError where it names no label, a label without values, or too many."""
        if self.wanted is None:
            return
        if not self.wanted or not all(self.wanted.values()):
            raise ValueError('names nothing: name at least one label with at least one value, or say "all"')
        if len(self.wanted) > MOST_LABELS or any(len(values) > MOST_VALUES for values in self.wanted.values()):
            raise ValueError(f"has more than {MOST_LABELS} labels, or more than {MOST_VALUES} values of one")

    @classmethod
    def of(cls, labels: Mapping[str, Collection[str]]) -> Self:
        """The selector of these labels, each with any of its values."""
        return cls({label: frozenset(values) for label, values in labels.items()})

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read ``"all"`` or ``{"team": ["billing", "sales"]}``; ValueError where it is neither."""
        if value == ALL:
            return cls(None)
        if not isinstance(value, dict) or not all(
            isinstance(label, str) and isinstance(values, list) and all(isinstance(one, str) for one in values)
            for label, values in value.items()
        ):
            raise ValueError('is neither "all" nor labels with lists of values')
        return cls.of(value)

    def to_json(self) -> str | dict[str, list[str]]:
        if self.wanted is None:
            return ALL
        return {label: sorted(values) for label, values in sorted(self.wanted.items())}

    @property
    def is_all(self) -> bool:
        return self.wanted is None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether something with these labels is reached. What has no labels is reached by ``all`` alone."""
        return self.wanted is None or all(labels.get(label) in values for label, values in self.wanted.items())

    def holds(self, asked: Mapping[str, Collection[str]]) -> bool:
        """Whether all that ``asked`` selects is reached: it names each of our labels, with values of ours alone."""
        if self.wanted is None:
            return True
        return all(asked.get(label) and values.issuperset(asked[label]) for label, values in self.wanted.items())


EVERYTHING: Final = Selector(None)
