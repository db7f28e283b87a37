"""How JSON is spelled."""

from __future__ import annotations

import json


def dumps(document: object) -> str:
    """Compact JSON in ASCII: what others wrote into the stores need not be Unicode, nor of JSON's types."""
    return json.dumps(document, separators=(",", ":"), default=str)
