"""Jobs in YAML, read without its surprises.

What readers of YAML disagree on (``no``, ``12:30:00``, ``010``) is an error with its line and not a guess, and dates
stay the texts that they are. Anchors, aliases and ``<<`` work; tags do not. The nodes are composed by PyYAML and turned
into values here, so that every value still knows its line, nothing can be constructed but plain data, and aliases
cannot multiply beyond a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 30
MAX_VALUES: Final = 300_000

_TAG: Final = "tag:yaml.org,2002:"
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_NUMBER_TO_SOME: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?(?:[eE][-+]?[0-9]+)?|0o[0-7]+)")
_PLAIN: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_LEADING: Final = {
    "*": "a text that begins with * has to be quoted in YAML, e.g. cronExpr: '*/5 * * * *'",
    "@": "a text that begins with @ has to be quoted in YAML, e.g. cronExpr: '@daily'",
    "%": "a text that begins with % has to be quoted in YAML",
    "`": "a text that begins with ` has to be quoted in YAML",
    "!": "a text that begins with ! has to be quoted in YAML",
    "&": "a text that begins with & has to be quoted in YAML",
}
_QUOTED: Final = re.compile("['\"#]")
# Nothing in it goes back over what it has read (the ++ and *+): a line of blanks and dashes takes as long as any other.
_VALUE: Final = re.compile(r"(?:^\s*+(?:-\s++)*+|:\s++)(?P<first>[*@%`!&])")


class YamlError(Exception):
    """A text is not YAML, or says something that readers would take in different ways."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        """Counted from 1."""


class Lined(dict[str, Any]):
    """An object that knows the lines of its members."""

    line: int
    lines: dict[str, int]


def read_documents(text: str) -> Iterator[Any]:
    """The documents in the text as plain data, objects as Lined; empty ones are passed over. Raises YamlError."""
    reader = _Reader()
    try:
        for node in yaml.compose_all(text, _Untagged):
            document = reader.value(node, 0)
            if document is not None:
                yield document
    except RecursionError as error:
        raise YamlError(None, "it is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(text, error) from error
    except yaml.YAMLError as error:
        raise YamlError(None, f"it is not YAML ({' '.join(str(error).split())})") from error


class _Untagged(yaml.SafeLoader):
    """Refuses every tag, also one that changes nothing: ``!!str 12`` would be a number here and a text elsewhere."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if (tag := getattr(event, "tag", None)) is not None:
            example = "; a text goes in quotes" if isinstance(event, yaml.ScalarEvent) else ""
            raise YamlError(
                event.start_mark.line + 1,
                f"the tag {tag.replace(_TAG, '!!')[:60]} is not understood; leave it out{example}",
            )
        return super().compose_node(parent, index)


class _Reader:
    """Turns nodes into values, and counts them."""

    def __init__(self) -> None:
        self._values = 0

    def value(self, node: yaml.Node, depth: int) -> Any:
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            what = "is nested too deeply" if depth > MAX_DEPTH else f"has more than {MAX_VALUES:,} values"
            raise YamlError(_line(node), f"it {what}, its aliases written out")
        match node:
            case yaml.ScalarNode():
                return _scalar(node)
            case yaml.SequenceNode():
                return [self.value(item, depth + 1) for item in node.value]
            case _:
                return self._mapping(node, depth)

    def _mapping(self, node: yaml.Node, depth: int) -> Lined:
        found, inherited = Lined(), Lined()
        found.line, found.lines = _line(node), {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                bases = self.value(value_node, depth + 1)
                bases = bases if isinstance(bases, list) else [bases]
                if not all(isinstance(base, Lined) for base in bases):
                    raise YamlError(_line(value_node), "<< takes an alias of an object, e.g. <<: *defaults")
                for base in bases:
                    inherited.update({key: value for key, value in base.items() if key not in inherited})
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError(_line(key_node), "the name of a member is not a text")
            key = str(key_node.value)  # `on:` and `no:` are names here and nothing else
            if key in found:
                message = f"{key} is given twice, first on line {found.lines[key]}; take one away"
                raise YamlError(_line(key_node), message)
            found[key], found.lines[key] = self.value(value_node, depth + 1), _line(key_node)
        for key, value in inherited.items():
            if key not in found:
                found[key], found.lines[key] = value, found.line
        return found


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.style is not None or node.tag in (f"{_TAG}timestamp", f"{_TAG}value", f"{_TAG}merge"):
        return text
    if text.lower() in _PLAIN and text in (text.lower(), text.capitalize(), text.upper()):
        return _PLAIN[text.lower()]
    if _NUMBER.fullmatch(text):
        if len(text) > 300:
            raise YamlError(_line(node), "it has a number of more than 300 digits")
        return float(text) if "." in text else int(text)
    if node.tag != f"{_TAG}str" or _NUMBER_TO_SOME.fullmatch(text):
        raise YamlError(_line(node), _ambiguous(text, node.tag.removeprefix(_TAG)))
    return text


def _ambiguous(text: str, kind: str) -> str:
    if kind == "bool":
        meant = "true" if text.lower() in ("yes", "on", "y") else "false"
        return f"{text} is {meant} to some readers of YAML and a text to others; write {meant}, or '{text}' in quotes"
    example = " (12:30:00 is 45000 to some)" if ":" in text else ""
    return (
        f"{text} is a number to some readers of YAML and not to others{example}; "
        f"write '{text}' in quotes, or a plain decimal number"
    )


def _yaml_error(text: str, error: yaml.MarkedYAMLError) -> YamlError:
    """The error with a remedy, where the line shows what was meant."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return YamlError(None, f"it is not YAML ({error.problem or error.context})")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if match := _VALUE.search(_QUOTED.split(line, maxsplit=1)[0]):
        return YamlError(mark.line + 1, f"{line.strip()[:80]!r}: {_LEADING[match['first']]}")
    if "mapping values are not allowed" in (error.problem or ""):
        message = f"{line.strip()[:80]!r}: a text with ': ' in it has to be quoted, or the indentation is wrong"
        return YamlError(mark.line + 1, message)
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in (error.problem or ""):
        return YamlError(mark.line + 1, "it has a tab where YAML takes blanks only; indent with blanks")
    return YamlError(mark.line + 1, f"it is not YAML: {error.problem or error.context}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
