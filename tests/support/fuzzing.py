"""Schemathesis, as a program: python -m tests.support.fuzzing run ...

It writes the greatest length of a string into the string's pattern. With a length of some thousands the engine that
checks values against patterns takes up to two seconds to read one, for each of the checks it is part of. Here such a
length stays where it is, beside the pattern; Schemathesis does the same where the engine refuses a pattern.
"""

from __future__ import annotations

import gc
import re
from unittest import mock

from schemathesis import cli
from schemathesis.core.jsonschema.patterns import is_valid_jsonschema_rs_regex

_MANY = re.compile(r"\{[0-9]*,[0-9]{4,}\}")


def _is_read_quickly(pattern: str) -> bool:
    return _MANY.search(pattern) is None and is_valid_jsonschema_rs_regex(pattern)


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # it lives for some seconds, of which it would look for garbage a tenth
    with mock.patch("schemathesis.specs.openapi.converter.is_valid_jsonschema_rs_regex", _is_read_quickly):
        cli.schemathesis()
