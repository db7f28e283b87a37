"""What etcron says, by codes: errors, remedies, reasons and warnings are written where they arise, in English, and are
found again in one table, which has each of them in every language of the console.

So the code and the parameters of a text are known whoever said it: this process, a worker, or one of another version,
whose text lies in etcd or in the log store. A template is a text with gaps: ``{name}`` is a value, ``{name:text}`` a
text that is itself in the table. Where several templates fit, the one that says most by itself counts.

Pure: standard library.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST = 4_000
"""Characters of a text that is looked up. Longer ones are no messages but what users sent."""
_GAP = re.compile(r"\{(\w+)(?::text)?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Which message a text is."""

    code: str
    """Stable: a client may rely on it."""
    params: Mapping[str, str] = field(default_factory=dict)


class Messages:
    """The table."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        """``templates``: the English ones by their codes."""
        made = sorted((_Template(code, text) for code, text in templates.items()), key=lambda one: -one.weight)
        words = [_words(templates[one.code]) for one in made]
        usual = Counter(itertools.chain.from_iterable(words))
        self._by_word = defaultdict[str, list[tuple[int, _Template]]](list)
        for (rank, template), own in zip(enumerate(made), words, strict=True):
            rarest = min(own, key=lambda word: (usual[word], word), default="")
            self._by_word[rarest].append((rank, template))

    def of(self, text: str) -> Said | None:
        """The message that this text is; None: it is none of the table's."""
        if len(text) <= LONGEST:
            words = self._by_word.keys() & {"", *text.split()}
            for _, template in sorted(one for word in words for one in self._by_word[word]):
                if (params := template.match(text)) is not None:
                    return Said(code=template.code, params=params)
        return None


def _words(template: str) -> set[str]:
    """Those that it says by itself. A text without the rarest of them need not be matched."""
    return {word for word in _GAP.sub("\0", template).split() if "\0" not in word}


class _Template:
    __slots__ = ("_literals", "_names", "code", "weight")

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self._names = _GAP.findall(text)
        self._literals = _GAP.sub("\0", text).split("\0")
        self.weight = sum(map(len, self._literals))

    def match(self, text: str) -> dict[str, str] | None:
        """The values of its gaps; each ends at the first place where what follows it stands, so this is linear."""
        first, *others = self._literals
        if not text.startswith(first):
            return None
        if not others:
            return {} if text == first else None
        values, at = [], len(first)
        for literal in others[:-1]:
            end = text.find(literal, at)
            if end < 0:
                return None
            values.append(text[at:end])
            at = end + len(literal)
        end = len(text) - len(others[-1])
        if end < at or not text.endswith(others[-1]):
            return None
        return dict(zip(self._names, [*values, text[at:end]], strict=True))
