"""Which ranges to ask etcd for, one after the other, to read a prefix in pages. Pure.

etcd counts all keys of a range, also where the answer is cut at a limit: on a busy machine the first thousand of a
million keys took it 0.6 s, the first thousand of four thousand 7 ms; and a write may have to wait for that. All pages
of a prefix, each of them open to the end, take it time with the square of its keys: minutes for a million. So each page
ends, at the latest, where the names that were just read begin to differ, and what is beyond is taken up from there:

    asked for                                      in it       so what follows is
    team-         to the end of the prefix       980,000       closed: the page's names differ after "team-0.job-000"
    team-0.job-000999 to team-0.job-001                0       one letter less
    team-0.job-001    to team-0.job-01             9,000       the same range, for nine pages; then one letter less
    team-0.job-01     to team-0.job-1             90,000       ...

Where names share a long beginning, most of what is one letter less has nothing in it: then the next range is nearly as
wide as the one in which the names went on the last time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.etcd.types import range_end

ROOM: Final = 4_000
"""Keys that etcd may count for a page without harm: a few milliseconds."""
_MARGIN: Final = 2
"""Letters beyond which names are not expected to go on where they did the last time."""
_OPEN: Final = b"\0"
"""etcd's end of a range that has none."""


@dataclass(slots=True)
class _Counted:
    """A range of which etcd has answered how many keys it has."""

    end: bytes
    size: int
    left: int
    """Those of them that are still to be read."""


class Paging:
    """One reading of a prefix at one revision: ask for `start` to `end`, tell it what came, until it is `done`.

    The counts are exact, as nothing changes at one revision: where nothing is left, nothing is asked for.
    """

    def __init__(self, prefix: bytes, *, start: bytes = b"") -> None:
        """``start``: to go on from there, at another revision."""
        self.start = start or prefix or b"\0"
        """The first key to ask for."""
        self.end = range_end(prefix)
        """The first key that is not to be in the answer; `\\0`: the range has no end."""
        self.done = False
        """Whether all has been read."""
        self._counted: list[_Counted] = []  # each within the one before
        self._prefix_length = self._stem_length = len(prefix)
        self._is_wider = False
        """Whether the range asked for is one around all that has been read of it."""
        self._went_on = len(prefix)
        """How long the stem of such a range was when it last had something in it."""

    def took(self, keys: list[bytes], *, count: int) -> None:
        """etcd answered with these, in order: the first ones of `count`; fewer than all only where there is a limit."""
        if self._is_wider and count:
            self._went_on = max(self._prefix_length, self._stem_length)
        if not self._counted or self._counted[-1].end != self.end:
            self._counted.append(_Counted(self.end, count, count))
        for known in self._counted:
            known.left -= len(keys)
        whole = None
        while self._counted and not self._counted[-1].left:
            whole = self._counted.pop()
        if not self._counted:
            self.done = True
        elif whole is None:
            self.start = keys[-1] + b"\0"
            self._choose_end(keys[-1][: _shared(keys[0], keys[-1]) + 1], is_wider=False)
        elif whole.size > ROOM:
            self.start = whole.end
            self._choose_end(whole.end, is_wider=False)
        else:
            self.start = whole.end
            length = len(whole.end) - 1
            if self._is_wider and not whole.size:
                length = min(length, self._went_on + _MARGIN)
            self._choose_end(whole.end[:length], is_wider=True)

    def _choose_end(self, stem: bytes, *, is_wider: bool) -> None:
        """The next range goes as far as keys start with the stem, and not beyond what it lies in."""
        self._stem_length, self._is_wider = len(stem), is_wider
        around = self._counted[-1]
        end = range_end(stem)
        beyond = around.end != _OPEN and (end == _OPEN or end >= around.end)
        self.end = around.end if beyond or around.left <= ROOM else end


def _shared(first: bytes, last: bytes) -> int:
    """With how many bytes both begin."""
    both = zip(first, last, strict=False)
    return next((at for at, (one, other) in enumerate(both) if one != other), min(len(first), len(last)))
