"""The keys that name users of the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from common.configuration.keys import UnfitError


@dataclass(frozen=True, slots=True)
class SystemUsers:
    """Users of this machine, perhaps none; the case counts. As text: separated by commas."""

    def accept(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) and re.fullmatch(r"[^\0\s:,/*-][^\0\s:,/*]{0,254}", name) for name in value
        ):
            raise UnfitError('a list of names of users, each in full, e.g. ["backup", "www-data"]')
        return tuple(value)

    def read(self, text: str) -> tuple[str, ...]:
        return self.accept([part.strip() for part in text.split(",") if part.strip()])
