"""A browser's side of a server-sent event stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse

from tests.support.managing import Managed


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event as it came."""

    kind: str
    data: Any
    id: str | None


class EventStream:
    """Reads events one after the other."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream. TimeoutError after 10 s."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while line := (await self.response.content.readline()).decode():
                if line == "\n" and "event" not in fields:
                    continue  # only that it goes on
                if line == "\n":
                    return Event(kind=fields["event"], data=json.loads(fields["data"]), id=fields.get("id"))
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        return None

    async def until(self, kind: str) -> Event:
        """The next event of a kind; those before it are passed over."""
        while (event := await self.next()) is not None:
            if event.kind == kind:
                return event
        raise AssertionError(f"the stream ended before an event {kind}")

    async def rest(self) -> list[Event]:
        """Everything up to the end of the stream."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def listening(manager: Managed, headers: Mapping[str, str] | None = None) -> AsyncIterator[EventStream]:
    """An open stream."""
    async with manager.http.get("/api/v1/events", headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        yield EventStream(response)
