"""``etcron worker``: one worker in this process, or several kept by this one; loads nothing more than the one needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cli.errors import CommandError, ExitStatus
from common.configuration.flags import add_config_arguments, explain, worker_config_from
from common.errors import ConfigError
from worker.__main__ import main as run_worker


def main(arguments: Sequence[str]) -> int:
    """Run until told to stop; the exit status, as a worker's."""
    parser = argparse.ArgumentParser(prog="etcron worker", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    add_config_arguments(parser, "worker")
    parsed = parser.parse_args(arguments)
    if parsed.help:
        return run_worker(arguments)
    try:
        config = worker_config_from(parsed)
        if config.processes == 1:
            return run_worker(arguments)
        from cli.worker_processes import run_processes

        return run_processes(config)
    except ConfigError as error:
        raise CommandError(explain(error), ExitStatus.USAGE) from error
