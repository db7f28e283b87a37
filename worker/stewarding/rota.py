"""Looking at some of very many in each turn, so that a turn costs little, and none is passed by for long. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Rota:
    """Takes names in rounds: all that there were when a round began, `at_least` in a turn, all within so many turns."""

    def __init__(self, names: Callable[[], Iterable[str]], *, at_least: int, turns: int) -> None:
        self._names = names
        self._at_least = at_least
        self._turns = turns
        self._left: list[str] = []
        self._share = 0

    def begin(self) -> None:
        """The next turn begins a round."""
        self._left.clear()

    def turn(self) -> list[str]:
        """The names whose turn it is. One that went meanwhile may be among them; one that came is in the next round."""
        if not self._left:
            self._left = list(self._names())
            self._share = max(self._at_least, -(-len(self._left) // self._turns))
        taken = self._left[-self._share :]
        del self._left[-self._share :]
        return taken
