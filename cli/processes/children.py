"""The children of `etcron up`: how each is started, and how to tell that it is ready."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import aiohttp

from cli.errors import CommandError, ExitStatus
from cli.processes.data_dir import DataDir
from cli.processes.embedded import etcd_command, log_store_command, without_etcd_variables
from cli.processes.etcd_user import Given, give_user
from cli.processes.plan import Plan
from cli.processes.supervisor import ChildSpec
from common.configuration.config import file_object
from common.configuration.sources import PREFIX

AFTER_GRACE_S = 15.0
"""What a worker may take beyond its own grace: the end of its runs, and the delivery of their logs."""


def store_specs(plan: Plan, data: DataDir, http: aiohttp.ClientSession) -> list[ChildSpec]:
    """The stores that the plan starts here, in the order of their start."""
    specs = []
    if plan.etcd:
        client, peer = plan.etcd_ports
        specs.append(
            ChildSpec(
                name="etcd",
                command=etcd_command(plan.etcd, data.etcd, client_port=client, peer_port=peer),
                environ=without_etcd_variables(os.environ),
                directory=data.sockets,
                log=data.log("etcd"),
                is_ready=lambda: _asks_for_password(http, f"127.0.0.1:{client}", data),
                port=client,
            )
        )
    if plan.log_store:
        socket, port = plan.log_store_socket, plan.log_store_port
        specs.append(
            ChildSpec(
                name="log store",
                command=log_store_command(plan.log_store, data.log_store, data.log_store_pid, socket=socket, port=port),
                log=data.log("log-store"),
                is_ready=at_once if socket is None else lambda: _takes_connections(socket),
                port=port or None,
                # Left by one that was killed; nx-27017 refuses to start while any process has the pid in it.
                before_start=lambda: data.log_store_pid.unlink(missing_ok=True),
            )
        )
    return specs


def manager_spec(plan: Plan, data: DataDir, http: aiohttp.ClientSession) -> ChildSpec:
    """The manager, with its configuration written."""
    return ChildSpec(
        name="manager",
        command=program("manager", data.write_config("manager", file_object(plan.manager))),
        environ=without_configuration(),
        log=data.log("manager"),
        is_ready=lambda: answers(http, f"{plan.url}/livez"),
        port=plan.manager.api_port,
    )


def worker_spec(plan: Plan, data: DataDir, index: int) -> ChildSpec:
    """One of the workers, with its configuration written."""
    worker, name = plan.workers[index], f"worker-{index + 1}"
    return ChildSpec(
        name=name,
        command=program("worker", data.write_config(name, file_object(worker))),
        environ=without_configuration(),
        log=data.log(name),
        is_ready=at_once,
        stop_within_s=worker.shutdown_grace_s + AFTER_GRACE_S,
    )


async def _asks_for_password(http: aiohttp.ClientSession, etcd: str, data: DataDir) -> bool:
    """Whether it answers, and asks for the password. An older data directory is given it here."""
    if not await answers(http, f"http://{etcd}/health"):
        return False
    given = await give_user(etcd, data.etcd_password)
    if given is Given.OTHER_PASSWORD:
        raise CommandError(
            f"{data.etcd_password} does not hold the password that {data.etcd} was made with; put that back, or name "
            "another directory with --data-dir",
            ExitStatus.REFUSED,
        )
    return given is Given.DONE


async def _takes_connections(path: Path) -> bool:
    """Whether a process listens on a Unix socket, which is in a directory of ours."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


async def answers(http: aiohttp.ClientSession, url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        async with http.get(url) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


def program(module: str, config: Path) -> list[str]:
    """The command line of a manager or worker with this configuration."""
    return [sys.executable, "-P", "-m", module, "--config", str(config)]


def without_configuration() -> dict[str, str]:
    """The environment without our variables: the file given to a child holds what they said already."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX)}


async def at_once() -> bool:
    """Ready as soon as it runs, and listens on its port if it has one."""
    return True
