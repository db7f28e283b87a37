"""``python -m worker``, ``etcron start worker``: one worker process."""

from __future__ import annotations

import gc

gc.disable()  # nothing of what is imported is garbage: to look for some takes a tenth of the start

import argparse
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from common.clock import Clock, SystemClock
from common.configuration.config import WorkerConfig
from common.configuration.flags import add_config_arguments, explain, worker_config_from
from common.configuration.signatures import trust_of
from common.connections import open_etcd, open_runlog
from common.errors import ConfigError, ConflictError, InvalidInputError
from common.etcd import EtcdClient, check_access
from common.process import failpoints
from common.process.lifecycle import Stop, gain_no_privileges, is_done_before, run, run_loops
from common.process.logs import configure_logging
from common.process.runtime import collect_rarely, leave_alone_what_is_read
from common.process.threads import can_start_threads
from common.protocol import permissions
from common.protocol.signatures import Trust
from worker.agent import Agent
from worker.data_directory import DataDirectory, open_data_directory
from worker.identity import alone_on_this_machine, locked_directory
from worker.launcher.accounts import is_undecided, lacking_capabilities
from worker.metrics import Counts, MetricsPort
from worker.record.spool import SpoolError

gc.freeze()  # a collection when it is on again would look at all of it
gc.enable()

_log = logging.getLogger(__name__)

_TOLD = (ConflictError, SpoolError, InvalidInputError)
"""Errors that end the process with a message, and no traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is asked to stop; its exit status: 0 stopped, 1 failed, 2 configuration, 4 name or
    directory taken."""
    parser = argparse.ArgumentParser(prog="etcron start worker", description="Runs the jobs.", allow_abbrev=False)
    add_config_arguments(parser, "worker")
    try:
        config = worker_config_from(parser.parse_args(argv))
    except ConfigError as error:
        print(f"etcron start worker: {explain(error)}", file=sys.stderr)  # noqa: T201 - for the person who has started it
        return error.exit_status
    configure_logging(config.log_level, config.log_format)
    for note in config.notes:
        _log.warning("%s", note, extra={"action": "config.note"})
    if config.processes > 1:
        _log.warning("one worker; `etcron start worker` runs %s", config.processes, extra={"action": "config.note"})
    if is_undecided(config.allowed_users, config.default_user):
        remedy = "set defaultUser, and in allowedUsers those that jobs may name"
        _log.warning("commands may run as root here: %s", remedy, extra={"action": "config.note"})
    own_status = Path("/proc/self/status").read_text()
    may_run = config.allowed_users, config.default_user
    if lacking := lacking_capabilities(*may_run, own_status, has_secrets=config.secrets_file is not None):
        what = "commands of other users, or what they leave behind, cannot all be started or ended: this process lacks"
        _log.warning("%s %s", what, ", ".join(lacking), extra={"action": "config.note"})
    if config.no_new_privileges:
        gain_no_privileges()
    os.umask(0o077)  # records and outputs are for no other user; commands have a umask of their own
    try:
        failpoints.arm(os.environ)
        collect_rarely()
        with locked_directory(config.data_dir):
            clock = SystemClock()
            data, trust = open_data_directory(config), trust_of(config)
            with alone_on_this_machine(data.identity.instance):
                return run(lambda stop: _work(config, data, clock, stop, trust), passed_on=_TOLD)
    except ConfigError as error:
        print(f"etcron start worker: {explain(error)}", file=sys.stderr)  # noqa: T201
        return error.exit_status
    except InvalidInputError as error:
        print(f"etcron start worker: {error}", file=sys.stderr)  # noqa: T201 - for the person who has started it
        return 2
    except (ConflictError, SpoolError, OSError) as error:
        print(f"etcron start worker: {error}", file=sys.stderr)  # noqa: T201
        return 4


async def _work(
    config: WorkerConfig, data: DataDirectory, clock: Clock, stop: Stop, trust: Trust | None = None
) -> None:  # fmt: skip
    identity = data.identity
    data.spool.disk.start()
    async with (
        open_etcd(config, timeout_s=config.etcd_dial_timeout_ms / 1000, clock=clock) as client,
        open_runlog(config) as runlog,
    ):
        agent = Agent(config, data, client, runlog, clock, trust)
        async with AsyncExitStack() as entered:
            # The guardian of a former life may take as long as the longest killGraceSeconds.
            if not await is_done_before(stop.requested, entered.enter_async_context(agent.parts.guardian)):
                return
            await entered.enter_async_context(agent.parts.launcher)
            # First: what a killed worker has left running does not wait for an etcd that is away. Nobody else ends it,
            # so a stop that does not hurry waits for it.
            if not await is_done_before(stop.hurry, agent.prepare()):
                return
            if not await can_start_threads(stop.requested):  # once more: that took its time, and now grpc needs some
                return
            await check_access(client, permissions.of_worker(config.key_prefix))
            extra = {"action": "worker.started", "instance": identity.instance, "slots": config.slots}
            _log.info("worker %s started", identity.worker, extra=extra)
            heap = partial(leave_alone_what_is_read, agent.parts.jobs_read)
            async with _told_outside(config, agent, client):
                await run_loops(stop, {"heap": heap, **agent.loops()}, shut_down=lambda: agent.shut_down(stop))
        _log.info("worker %s stopped", identity.worker, extra={"action": "worker.stopped"})


@asynccontextmanager
async def _told_outside(config: WorkerConfig, agent: Agent, client: EtcdClient) -> AsyncIterator[None]:
    """With the port for metrics, where one is configured. OSError: it is taken."""
    if not config.metrics_port:
        yield
        return
    counts = Counts()
    agent.parts.spool.on_record = counts.recorded

    def why_not() -> str | None:
        if (why := agent.parts.admission.why_not) is not None:
            return why
        if (session := agent.parts.scheduler.session) is None:
            return "it has no session with etcd"
        return None if session.healthy else "its session with etcd is not confirmed"

    def claims_lost() -> int:
        return agent.parts.scheduler.claims_lost + agent.parts.requests.claims_lost

    async with MetricsPort(
        counts, client, host=config.metrics_host, port=config.metrics_port, why_not=why_not, claims_lost=claims_lost
    ):
        yield


if __name__ == "__main__":
    sys.exit(main())
