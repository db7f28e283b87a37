"""The manager's process: ``python -m manager --config manager.json``; and the notifier's, which serves nothing."""

from __future__ import annotations

import gc

gc.disable()  # nothing of what is imported is garbage: to look for some takes a tenth of the start

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from aiohttp import web

from common.configuration.config import ManagerConfig
from common.configuration.flags import add_config_arguments, explain, manager_config_from
from common.errors import ConfigError, InvalidInputError, Problem
from common.process import failpoints
from common.process.lifecycle import Stop, run, run_loops
from common.process.logs import configure_logging
from common.process.runtime import leave_alone_what_is_read
from manager.app import create_app, loops_of, notifier_loops_of
from manager.http.https import Certificate, certificate_of
from manager.http.server import Runner
from manager.http.unix_socket import UnixSocketSite, unix_socket
from manager.parts import PARTS

gc.freeze()  # a collection when it is on again would look at all of it
gc.enable()

_log = logging.getLogger("manager")

_NOTIFIER: Final = "Makes notices of what happens and sends them, with the configuration of a manager; serves nothing."
_LAST_ANSWERS_S = 5.0
"""How long requests that are going may take when the process is asked to stop."""


def main(arguments: Sequence[str] | None = None, *, serves: bool = True) -> int:
    """Run a manager until it is asked to stop; the exit status: 0, 1 (it failed), or a ConfigError's.

    ``serves`` false: it listens nowhere, and does nothing but make notices and send them.
    """
    program, does = ("manager", "Serves the API and the page of etcron.") if serves else ("notifier", _NOTIFIER)
    parser = argparse.ArgumentParser(prog=f"etcron start {program}", description=does)
    add_config_arguments(parser, "manager")
    try:
        config = manager_config_from(parser.parse_args(arguments))
    except ConfigError as error:
        print(explain(error), file=sys.stderr)  # noqa: T201 - for the person who has started it
        return error.exit_status
    return run_manager(config, serves=serves)


def run_manager(config: ManagerConfig, *, serves: bool = True) -> int:
    """The same with a configuration that is checked already."""
    configure_logging(config.log_level, config.log_format)
    for note in config.notes:
        _log.warning("%s", note, extra={"action": "config.note"})
    os.umask(0o077)  # the audit is for nobody else; a socket has the mode that it is given
    try:
        failpoints.arm(os.environ)
    except InvalidInputError as error:
        print(f"etcron start manager: {error}", file=sys.stderr)  # noqa: T201
        return 2
    refused: list[ConfigError] = []

    async def serve_or_say(stop: Stop) -> None:
        try:
            await (serve if serves else notify)(config, stop)
        except ConfigError as error:
            refused.append(error)

    status = run(serve_or_say)
    if refused:
        print(explain(refused[0]), file=sys.stderr)  # noqa: T201 - for the person who has started it
        return refused[0].exit_status
    return status


async def serve(config: ManagerConfig, stop: Stop) -> None:
    """Serve until asked to stop. ConfigError where the address cannot be listened on."""
    app = create_app(config)
    runner = Runner(
        app,
        per_address=config.connections_per_address,
        proxies=config.proxies,
        access_log=None,
        # Also how long a connection may take to send the head of a request.
        keepalive_timeout=config.api_read_timeout_ms / 1000,
        shutdown_timeout=_LAST_ANSWERS_S,
    )

    async def stop_listening() -> None:
        for site in list(runner.sites):
            await site.stop()

    await runner.setup()
    with ExitStack() as stack:
        try:
            certificate = certificate_of(config)
            await _listen(runner, config, certificate)
            if config.socket is not None:
                await UnixSocketSite(runner, stack.enter_context(unix_socket(config.socket))).start()
                _log.info("serving at %s", config.socket, extra={"action": "listening", "socket": str(config.socket)})
            loops = {**loops_of(app), **({"certificate": certificate.run} if certificate else {})}
            loops["heap"] = partial(leave_alone_what_is_read, app[PARTS].watching.jobs_read)
            await run_loops(stop, loops, shut_down=stop_listening)
        finally:
            # The last answers, then the connections to the servers.
            await runner.cleanup()


async def notify(config: ManagerConfig, stop: Stop) -> None:
    """Make notices and send them until asked to stop."""
    app = create_app(config)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        _log.info("makes notices and sends them", extra={"action": "notifier.started"})
        await run_loops(stop, notifier_loops_of(app))
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, config: ManagerConfig, certificate: Certificate | None) -> None:
    context = certificate.context if certificate is not None else None
    try:
        await web.TCPSite(runner, config.host.strip("[]"), config.api_port, ssl_context=context).start()
    except OSError as error:
        raise ConfigError([_cannot_listen(config, error)]) from error
    for address in runner.addresses:
        host, port = address[:2]
        shown = f"[{host}]" if ":" in host else host
        extra = {"action": "listening", "host": host, "port": port}
        _log.info("serving at %s://%s:%s", "https" if certificate else "http", shown, port, extra=extra)


def _cannot_listen(config: ManagerConfig, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        message = f"port {config.api_port} of {config.host} is taken"
        remedy = "stop what listens there, or give another one (--api-port, 0 for any free one)"
        return Problem(field="apiPort", message=message, remedy=remedy, may_pass=True)
    if error.errno == errno.EACCES:
        message = f"port {config.api_port} may not be used by this user"
        return Problem(field="apiPort", message=message, remedy="give one from 1024 up")
    message = f"cannot listen on {config.host} port {config.api_port}: {error.strerror or error}"
    remedy = "give an address of this machine, e.g. 127.0.0.1"
    return Problem(field="host", message=message, remedy=remedy, may_pass=True)  # it may come: DHCP, a VIP


if __name__ == "__main__":
    sys.exit(main())
