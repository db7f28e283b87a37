"""HTTP calls of another system user of this machine."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field

_PROGRAM = """
import encodings.idna, http.client, json, os, socket, sys
asked = json.load(sys.stdin)
os.setgroups(asked["groups"]); os.setresgid(*3 * [asked["gid"]]); os.setresuid(*3 * [asked["uid"]])
to = asked["to"]
connection = http.client.HTTPConnection("localhost" if isinstance(to, str) else to[0], timeout=10)
try:
    if isinstance(to, str):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(to)
    else:
        connection.sock = socket.create_connection(tuple(to), timeout=10)
    connection.request("GET", asked["path"], headers=asked["headers"])
    answer = connection.getresponse()
    print(json.dumps([answer.status, answer.read().decode()]))
except OSError as error:
    print(json.dumps([type(error).__name__, ""]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherUser:
    """Calls as this user; only root can."""

    uid: int = 65534
    gid: int = 65534
    groups: tuple[int, ...] = field(default=())

    async def get(
        self, to: str | tuple[str, int], path: str = "/api/v1/jobs", headers: Mapping[str, str] | None = None
    ) -> tuple[int | str, str]:
        """Status and body, or the name of the error. ``to``: host and port, or the path of a Unix socket."""
        asked = {
            "uid": self.uid, "gid": self.gid, "groups": self.groups, "to": to, "path": path, "headers": headers or {},
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", _PROGRAM, stdin=PIPE, stdout=PIPE)
        told, _ = await process.communicate(json.dumps(asked).encode())
        status, body = json.loads(told)
        return status, body
