"""Every command has a help text with an example, which is accepted."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cli import (
    access,
    alerts,
    audit,
    bindings,
    channels,
    cron,
    jobs,
    login,
    notices,
    programs,
    rules,
    runs,
    services,
    sessions,
    silences,
    tokens,
    users,
    workers,
)
from cli.__main__ import main
from cli.arguments import GROUPS, LOGIN_COMMANDS, with_options_behind
from cli.crontab import commands as crontab_commands
from cli.errors import ExitStatus

_GROUPS = {
    "job": jobs.parser, "run": runs.parser, "worker": workers.parser,
    "cron": cron.parser, "crontab": crontab_commands.parser, "user": users.parser, "service": services.parser,
    "token": tokens.parser, "session": sessions.parser, "binding": bindings.parser, "access": access.parser,
    "audit": audit.parser, "channel": channels.parser, "rule": rules.parser, "silence": silences.parser,
    "alert": alerts.parser, "notice": notices.parser,
}  # fmt: skip
_WANTED = {
    "job": "save list show delete pause resume unblock run kill log next fires apply versions restore",
    "run": "show log kill give-up list",
    "worker": "list drain undrain forget",
    "audit": "list verify",
    "cron": "explain next",
    "crontab": "import sync",
    "user": "list add show set password remove",
    "service": "list add set remove",
    "token": "list add revoke",
    "session": "list revoke",
    "binding": "list add remove",
    "access": "explain",
    "channel": "list show add test remove",
    "rule": "list add remove",
    "silence": "list add end",
    "alert": "list ack",
    "notice": "list resend",
}


def _commands(group: str) -> dict[str, argparse.ArgumentParser]:
    parser = _GROUPS[group]()
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(verbs.choices)


def _all() -> Iterator[tuple[str, str]]:
    for group in _GROUPS:
        for name in _commands(group):
            yield group, name


ALL = list(_all())


@pytest.mark.parametrize("group", _GROUPS)
def test_the_commands_that_there_are(group: str) -> None:
    assert set(_commands(group)) == set(_WANTED[group].split())


@pytest.mark.parametrize(("group", "name"), ALL)
def test_a_command_has_an_example_that_is_accepted(group: str, name: str) -> None:
    parser = _commands(group)[name]
    text = parser.format_help()
    examples = re.findall(rf"etcron {group} {name}\b[^|\n]*", text.partition("example")[2])
    assert examples
    for example in examples:
        # The parser alone: nothing is done.
        _GROUPS[group]().parse_args(shlex.split(re.split(r" [<>] ", example)[0])[2:])


@pytest.mark.parametrize("name", LOGIN_COMMANDS)
def test_the_commands_without_a_noun_have_examples_that_are_accepted(name: str) -> None:
    (verbs,) = (action for action in login.parser()._actions if isinstance(action, argparse._SubParsersAction))
    parser = verbs.choices[name]
    examples = re.findall(rf"etcron {name}\b[^|\n]*", parser.format_help().partition("example")[2])
    assert examples
    for example in examples:
        login.parser().parse_args(shlex.split(re.split(r" [<>] ", example)[0])[1:])


def test_options_are_not_abbreviated() -> None:
    with pytest.raises(SystemExit):
        _GROUPS["job"]().parse_args(["list", "--lab", "a=b"])


def test_option_that_takes_one_value_is_not_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        audit.parser().parse_args(["list", "--action", "login", "--action", "logout"])
    assert "argument --action: given twice, and takes one value" in capsys.readouterr().err
    _, *aliased = with_options_behind(["-o", "json", "audit", "list", "-o", "table", "--action", "login"])
    given = audit.parser().parse_args(aliased)
    assert (given.output, given.action) == ("table", "login")


def test_the_top_lists_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = programs.parser().format_help()
    assert all(
        re.search(rf"^ +{group} ", text, re.MULTILINE) for group in (*_GROUPS, "up", "start", "config", "version")
    )


@pytest.mark.parametrize(
    ("line", "is_loaded"),
    [("job list --server http://127.0.0.1:9", False), ("job save --help", True)],
)
def test_only_what_the_fields_of_a_job_mean_loads_their_definition(line: str, is_loaded: bool) -> None:
    code = (
        "import atexit, sys; from cli.__main__ import main; "
        "atexit.register(lambda: print('pydantic_core' in sys.modules)); main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == str(is_loaded)


@pytest.mark.parametrize(
    "option",
    [("--server", "http://h:1"), ("--server=http://h:1",), ("--ca", "f"), ("--profile", "job"), ("-o", "json")],
)
def test_options_of_most_commands_may_stand_before_the_noun_or_the_verb(option: tuple[str, ...]) -> None:
    rest = ("list", "x", "--", "--server", "echoed")
    for noun in (*GROUPS, *LOGIN_COMMANDS):
        words = [noun, "list"] if noun in GROUPS else [noun]
        behind = [*words, *option, *[noun, *rest][len(words) :]]
        assert with_options_behind([*option, noun, *rest]) == behind
        assert with_options_behind([noun, *option, *rest]) == behind
        assert with_options_behind([noun, "list", "x", *option]) == [noun, "list", "x", *option]


@pytest.mark.parametrize(
    "line", ["", "--server", "--server URL", "--server URL up", "start worker --ca f", "--version", "--help job"]
)
def test_what_has_no_noun_stays_as_it_was_given(line: str) -> None:
    assert with_options_behind(line.split()) == line.split()


def test_another_option_before_the_noun_is_told_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--server", "http://127.0.0.1:9", "--insecure", "job", "list"]) == ExitStatus.USAGE
    said = "etcron: --insecure stands before job: options go behind the command (etcron job --help)\n"
    assert capsys.readouterr().err == said


def test_a_server_before_the_noun_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--server", "http://127.0.0.1:9", "job", "list"]) == ExitStatus.UNAVAILABLE
    assert "cannot reach http://127.0.0.1:9" in capsys.readouterr().err
