"""`etcron access explain`: what may a user do, and who may touch a job?"""

from __future__ import annotations

import argparse

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.bindings import print_bindings
from cli.client import Client, Document
from cli.errors import ExitStatus
from cli.printing import print_json, print_pairs, print_table, tell, warn


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron access", "Who may do what.")
    explain = add_command(
        verbs, "explain", _explain, does="say what someone may do, or who may touch a job",
        examples=("etcron access explain --subject user:alice", "etcron access explain --job backup"),
    )  # fmt: skip
    about = explain.add_mutually_exclusive_group(required=True)
    about.add_argument("--subject", metavar="WHO", help="user:NAME, group:NAME, service:NAME, uid:NUMBER or gid:NUMBER")
    about.add_argument("--job", metavar="JOB", help="by its labels as they are now")
    add_output(explain)
    add_server(explain)
    return group


def _explain(arguments: argparse.Namespace) -> int:
    query = {"subject": arguments.subject, "job": arguments.job}
    with Client.of(arguments) as client:
        explained = client.get("/api/v1/access/explain", query)
    warn(explained.get("warnings") or ())
    if arguments.output == "json":
        print_json(explained)
    elif arguments.job is not None:
        heads = ("WHO", "USERS", "ROLE", "SEE", "RUN", "CHANGE", "WHY NOT", "BINDING")
        print_table(heads, map(_who, explained["who"]), none="no user: no binding reaches it", spare=("USERS", "ROLE"))
    else:
        print_pairs(
            [
                ("who", str(explained["subject"])), ("counts as", ", ".join(explained["subjects"])),
                ("roles", ", ".join(explained["roles"]) or "-"), ("tokens", str(explained["tokens"])),
            ]
        )  # fmt: skip
        tell()
        print_bindings(explained["bindings"])
    return ExitStatus.OK


def _who(binding: Document) -> tuple[str, ...]:
    may = binding.get("may") or {}
    change = "yes" if may.get("saveAsItIs") else "not as it is" if may.get("change") else "no"
    return (
        str(binding.get("subject")), ", ".join(binding.get("users") or ()) or "-", str(binding.get("role")),
        "yes" if may.get("see") else "no", "yes" if may.get("run") else "no", change, str(binding.get("why") or "-"),
        str(binding["id"]),
    )  # fmt: skip
