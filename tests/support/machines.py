"""Machines of one's own on this one: each has a root file system, a network address, a name, and loses its power.

They are network namespaces on a bridge, in mount and process namespaces that all end with the test; what they write
lies in memory, over this machine's own files. `tests/support/machine/` has what stands in for the programs that need
more: systemctl, apt-get, scp.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STAND_INS = Path(__file__).parent / "machine"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_BEGIN = """
mount -t tmpfs tmpfs /mnt && mount -t tmpfs tmpfs /run && mkdir -p /run/netns /mnt/machines
ip link add hub type bridge && ip link set hub up
echo ready
while :; do sleep 3600 & wait; done
"""
_ADD = """
name=$1 address=$2 place=/mnt/machines/$1
mkdir -p $place/upper $place/work $place/root
mount -t overlay overlay -o lowerdir=/,upperdir=$place/upper,workdir=$place/work $place/root
mount -t proc proc $place/root/proc && mount --rbind /dev $place/root/dev
mount -t tmpfs -o mode=755 tmpfs $place/root/run
mkdir -p $place/root/run/systemd/system $place/root/packages $place/root/machines
mount --bind "$3" $place/root/packages
rm -rf $place/root/usr/sbin/policy-rc.d $place/root/etc/etcron $place/root/opt/etcron
cp "$4"/* $place/root/usr/local/sbin/ && cp "$4/systemctl" $place/root/usr/bin/
rm -f $place/root/etc/resolv.conf && : >$place/root/etc/resolv.conf
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$name" >$place/root/etc/hosts
ip netns add "$name" && ip link add "$name" type veth peer name eth0 netns "$name"
ip link set "$name" master hub up
ip -n "$name" link set lo up && ip -n "$name" link set eth0 up && ip -n "$name" addr add "$address/24" dev eth0
"""
_RUN = 'exec unshare --uts sh -c \'hostname "$1" && shift && exec chroot "$@"\' sh "$@"'


def why_no_machines() -> str | None:
    """What this machine lacks for it; None: nothing."""
    if os.geteuid() != 0:
        return "machines of one's own need root"
    lacking = [name for name in ("unshare", "nsenter", "ip", "chroot", "dpkg-deb") if shutil.which(name) is None]
    if lacking:
        return f"no {', '.join(lacking)} here"
    trial = (
        "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m && ip link add hub type bridge &&"
        " mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/m"
    )
    tried = subprocess.run(["unshare", "-mn", "sh", "-c", trial], capture_output=True, text=True, check=False)
    return f"no namespaces, overlays or bridges here: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True, slots=True)
class Machine:
    """One of them; it runs commands as root."""

    name: str
    address: str
    _holder: int

    @property
    def root(self) -> str:
        """Of its files, as the holder's namespace sees them."""
        return f"/mnt/machines/{self.name}/root"

    def _command(self, script: str) -> list[str]:
        environ = ["/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        own = ["ip", "netns", "exec", self.name, "sh", "-c", _RUN, "sh", self.name, self.root]
        return [*_inside(self._holder), *own, *environ, "bash", "-euo", "pipefail", "-c", f"cd /root\n{script}"]

    def tries(self, script: str, *, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """What a bash script gave, wherever it came to; subprocess.TimeoutExpired."""
        command = self._command(script)
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout
        )

    def does(self, script: str) -> str:
        """What a bash script printed; AssertionError where one of its commands fails."""
        done = self.tries(script)
        assert done.returncode == 0, (
            f"{self.name}: status {done.returncode}\n{script}\n--\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def loses_power(self) -> None:
        """It is gone from the network at once, and all that ran there with it. `boot` switches it on again."""
        script = 'ip link set "$1" down && ip netns pids "$1" | xargs -r kill -9'
        subprocess.run([*_inside(self._holder), "sh", "-c", script, "sh", self.name], check=True)

    def boots(self) -> None:
        """It is on the network again, and starts the services that are enabled."""
        subprocess.run([*_inside(self._holder), "ip", "link", "set", self.name, "up"], check=True)
        self.does("rm -rf /run/* && mkdir -p /run/systemd/system && systemctl boot")


def _inside(holder: int) -> list[str]:
    return ["nsenter", "--target", str(holder), "--mount", "--net", "--pid"]


@contextmanager
def machines(addresses: dict[str, str], packages: Path) -> Iterator[dict[str, Machine]]:
    """One for each name; files of the directory ``packages`` are in ``/packages`` there. The last one reaches the files
    of the others, for scp."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-ec", _BEGIN]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None
            assert outer.stdout.readline() == "ready\n"
            holder = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
            for name, address in addresses.items():
                arguments = [name, address, str(packages), str(STAND_INS)]
                subprocess.run([*_inside(holder), "sh", "-ec", _ADD, "sh", *arguments], check=True)
            found = {name: Machine(name, address, holder) for name, address in addresses.items()}
            desk = list(found.values())[-1]
            reach = 'mkdir -p "$2/machines/$1" && mount --bind "$3" "$2/machines/$1"'
            for one in found.values():
                if one is not desk:
                    subprocess.run(
                        [*_inside(holder), "sh", "-ec", reach, "sh", one.name, desk.root, one.root], check=True
                    )
            yield found
        finally:
            outer.kill()


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page, and what is said above them of where they are copied."""

    section: str
    title: str
    text: str
    line: int

    @property
    def places(self) -> list[str]:
        """Names of machines, in their order."""
        return re.findall(r"\bm[1-9]\b|your computer", self.title)


_FENCE = re.compile(
    r'^On \*\*(?P<title>[^*]+)\*\*:\n\n```sh title="as root"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
"""The title keeps tests of other pages from running them on this machine."""


def blocks(page: str) -> list[Block]:
    """All of the page, in their order."""
    found = []
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()]
        sections = re.findall(r"^## (.+)$", before, re.MULTILINE)
        found.append(Block(sections[-1] if sections else "", fence["title"], fence["text"], before.count("\n") + 2))
    return found
