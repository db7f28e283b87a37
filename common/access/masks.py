"""Values of environment variables, masked for callers who may read a job and no more: names stay, values are ``***``.

A document that was read masked must not be saved: it would put ``***`` in the place of each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.access.rights import Rights, Role
from common.errors import InvalidInputError, Problem

MASK: Final = "***"
_ENV: Final = "env"


def shown_spec(document: Mapping[str, Any], rights: Rights, labels: Mapping[str, str]) -> Mapping[str, Any]:
    """A job's document as a caller may see it; ``labels``: those that the document itself carries."""
    return document if rights.may(Role.OPERATOR, labels) else masked(document)


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """A job's document with the values of its environment masked; the given one stays as it is."""
    env = document.get(_ENV)
    if env is None:
        return dict(document)
    return {**document, _ENV: dict.fromkeys(env, MASK) if isinstance(env, Mapping) else MASK}


def refuse_masks(env: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Return where an environment that is to be saved hides no value; InvalidInputError names each that does.

    ``before``: what it replaces. A value that was the mask already hides nothing.
    """
    remedy = "leave env out of a PATCH, or give the value itself; only operators and above are shown values"
    problems = [
        Problem(field=f"{_ENV}.{name}", message=f"is {MASK}, which hides a value", remedy=remedy)
        for name, value in env.items() if value == MASK and before.get(name) != MASK
    ]  # fmt: skip
    if problems:
        raise InvalidInputError(problems)
