"""The command line of `etcron job apply`; what it does is loaded only when it is called."""

from __future__ import annotations

import argparse

from cli.arguments import Verbs, add_command, add_output, add_server


def add_to(verbs: Verbs) -> None:
    """The command's own command line."""
    apply = add_command(
        verbs, "apply", _apply, does="make the jobs what files (YAML or JSON) say; one mistake changes nothing",
        examples=(
            "etcron job apply -f jobs/ --dry-run",
            "etcron job apply -f jobs/ --owner billing --prune",
            "etcron job show backup -o json | jq .spec | etcron job apply -f - --dry-run",
        ),
    )  # fmt: skip
    apply.add_argument(
        "-f", "--file", dest="files", action="append", nargs="+", required=True, metavar="FILE",
        help="a file, a folder (with what is below it), or - for stdin (repeatable)",
    )  # fmt: skip
    apply.add_argument("--dry-run", action="store_true", help="only show what would change, and the next fires")
    apply.add_argument(
        "--owner", metavar="NAME", help="label the jobs etcron/owner=NAME; a job of another owner is refused"
    )
    apply.add_argument(
        "--prune", action="store_true", help="delete the owner's jobs that are in no file (needs --owner)"
    )
    add_server(apply)
    add_output(apply)


def _apply(arguments: argparse.Namespace) -> int:
    from cli.manifests.applying import apply

    return apply(arguments)
