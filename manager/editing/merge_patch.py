"""JSON merge patch (RFC 7396). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's members in place of its own; objects merge, null takes a member away."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            there = merged.get(name)
            merged[name] = merge_patch(there if isinstance(there, dict) else {}, value)
        else:
            merged[name] = value
    return merged
