"""What a run has printed: of one that has ended from its record, of one that goes from what its worker sends.

A stream goes through the whole life of a run:

    waiting --> running (chunks, gaps) --> waiting for the record --> the rest of the output, out of the record --> end

It has ended for a reader only once the record can be read; so nothing is missing between the two.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from common.access.rights import Rights
from common.clock import Clock
from common.errors import UnavailableError
from common.protocol.keys import RunId
from manager.views.history import History, read_run_id
from manager.watch.open_runs import OpenRun, OpenRuns
from manager.watch.tails import Piece, Progress, Tail, TailReader

_FIRST_S: Final = 2.0
"""How long an answer waits for the worker's first words."""
_LOOK_S: Final = 1.0
_PART: Final = 65_536
_CUT: Final = re.compile(r"\.\.\. ([\d,]{1,30}) bytes cut \.\.\.\n")
_ON_ITS_WAY: Final = "it has ended; its record is on its way to the log store"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """An event of a stream; of no kind: nothing is new, so that its sender looks whether a client listens."""

    kind: str
    data: Mapping[str, Any]
    place: int | None = None
    """Behind its bytes; a stream may go on from there."""


_NOTHING_NEW: Final = OutputEvent(kind="", data={})


class Outputs:
    """Tells what runs have printed to those who may know of them."""

    def __init__(self, history: History, tails: TailReader, open_runs: OpenRuns, *, clock: Clock) -> None:
        self._history = history
        self._tails = tails
        self._open_runs = open_runs
        self._clock = clock

    async def now(self, text: str, rights: Rights, *, by: str, lines: int | None) -> dict[str, Any]:
        """What there is of the output of this run, ``lines``: the last ones alone; while it goes, more comes for 30 s.

        NotFoundError where there is no such run, or the caller may not know of it.
        """
        run = read_run_id(text)
        if self._going(run, rights) is None:
            view = await self._history.run(text, rights)
            if "status" in view or self._going(run, rights) is None:
                return _of_record(view, lines)
        tail = self._tails.glance(run, by=by, is_short=lines is not None)
        if tail is None:
            return _document([], None, lines, is_live=False)
        await tail.changes.until(
            lambda: tail.is_served or tail.fault is not None, max(0.0, tail.since + _FIRST_S - self._clock.monotonic())
        )
        return _document(tail.pieces, tail.progress, lines, is_live=tail.is_served and tail.fault is None)

    async def follow(self, text: str, rights: Rights, *, by: str, place: int) -> AsyncGenerator[OutputEvent]:
        """From this place on to the end. NotFoundError, TooManyClientsError: before the first event, or later on.

        ``place``: how many bytes are known already.
        """
        run, sent = read_run_id(text), None
        while True:
            if self._going(run, rights) is not None:
                with self._tails.viewing(run, by=by) as tail:
                    async for event in self._live(run, rights, tail, place):
                        place = place if event.place is None else event.place
                        sent = event.data if event.kind == "state" else sent
                        yield event
            state, view = await self._what_it_waits_for(text, rights)
            if view is not None and "status" in view:
                for event in _rest(view, place):
                    yield event
                yield OutputEvent(kind="end", data={"status": view["status"]})
                return
            if state.data != sent:
                sent = state.data
                yield state
            if not await self._open_runs.changes.until(lambda: self._going(run, rights) is not None, _LOOK_S):
                yield _NOTHING_NEW

    async def _live(self, run: RunId, rights: Rights, tail: Tail, place: int) -> AsyncGenerator[OutputEvent]:
        """While the run goes."""
        sent, progress = None, None
        while (going := self._going(run, rights)) is not None:
            why = self._tails.why_silent(tail)
            started = going.has_started(self._clock.wall_ms())
            state = ("unavailable", why) if why is not None else ("running" if started else "waiting", None)
            if state != sent:
                sent = state
                yield _state(*state)
            for piece in tail.after(place):
                if piece.start > place:
                    yield _gap(place, piece.start)
                yield _chunk(piece)
                place = piece.end
            if tail.progress is not None and tail.progress != progress:
                progress = tail.progress
                yield OutputEvent(kind="progress", data=progress.to_document())
            if not await tail.changes.until(partial(self._has_news, tail, place, run, rights), _LOOK_S):
                yield _NOTHING_NEW

    def _has_news(self, tail: Tail, place: int, run: RunId, rights: Rights) -> bool:
        return tail.end > place or self._going(run, rights) is None

    async def _what_it_waits_for(self, text: str, rights: Rights) -> tuple[OutputEvent, dict[str, Any] | None]:
        try:
            view = await self._history.run(text, rights)
        except UnavailableError as error:
            return _state("waiting", str(error)), None
        match view["state"]:
            case "created":
                return _state("waiting", view["waitsFor"]), view
            case "claimed" | "running":  # this manager's watch will see it soon
                return _state("waiting", None), view
            case _:
                return _state("waiting", _ON_ITS_WAY), view

    def _going(self, run: RunId, rights: Rights) -> OpenRun | None:
        """The run, while it goes and the caller may know of it."""
        going = self._open_runs.get(run)
        return going if going is not None and rights.sees(going.labels) else None


def _state(state: str, why: str | None) -> OutputEvent:
    return OutputEvent(kind="state", data={"state": state, "why": why})


def _chunk(piece: Piece) -> OutputEvent:
    data = {"offset": piece.start, "bytes": piece.end - piece.start, "text": piece.text}
    return OutputEvent(kind="chunk", data=data, place=piece.end)


def _gap(start: int, end: int) -> OutputEvent:
    return OutputEvent(kind="gap", data={"from": start, "to": end}, place=end)


def _document(
    pieces: list[Piece], progress: Progress | None, lines: int | None, *, is_live: bool
) -> dict[str, Any]:  # fmt: skip
    """Of a run that goes."""
    texts = list[str]()
    place, is_cut = 0, False
    for piece in pieces:
        if piece.start > place:
            is_cut = True
            line_end = "\n" if texts and not texts[-1].endswith("\n") else ""
            texts.append(f"{line_end}... {piece.start - place:,} bytes cut ...\n")
        texts.append(piece.text)
        place = piece.end
    document = _cut("".join(texts), lines) | {"printed": place, "truncated": is_cut, "ended": False, "live": is_live}
    return document if progress is None else document | {"progress": progress.to_document()}


def _of_record(view: Mapping[str, Any], lines: int | None) -> dict[str, Any]:
    """Of a run that has ended, or that has no process yet, or none any more."""
    output = str(view.get("output") or "")
    return _cut(output, lines) | {
        "printed": _printed(view), "truncated": bool(view.get("outputTruncated")),
        "ended": "status" in view or view["state"] in ("ended", "ending"), "live": False,
    }  # fmt: skip


def _cut(text: str, lines: int | None) -> dict[str, Any]:
    """The last lines, and how many bytes of the text stand before them."""
    if lines is None:
        return {"text": text, "offset": 0}
    last = "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
    return {"text": last, "offset": len(text.encode()) - len(last.encode())}


def _printed(view: Mapping[str, Any]) -> int:
    size = view.get("outputBytes")
    return size if isinstance(size, int) and size >= 0 else len(str(view.get("output") or "").encode())


def _rest(view: Mapping[str, Any], place: int) -> Iterator[OutputEvent]:
    """What of a record's output is behind this place, with the gap in its middle."""
    printed = _printed(view)
    for start, text in _kept(str(view.get("output") or ""), printed, is_cut=bool(view.get("outputTruncated"))):
        if start > place:
            yield _gap(place, start)
            place = start
        for part in _parts(_as_printed(text)[place - start :]):
            yield _chunk(Piece(start=place, end=place + len(part), text=_shown(part)))
            place += len(part)
    if printed > place:
        yield _gap(place, printed)


def _kept(output: str, printed: int, *, is_cut: bool) -> list[tuple[int, str]]:
    """Where the head and the tail of what is kept begin; of what is whole, or cut in some other way, all of it."""
    for mark in _CUT.finditer(output) if is_cut else ():
        head, tail = output[: mark.start()], output[mark.end() :]
        start = printed - len(_as_printed(tail))
        more = len(_as_printed(head)) - (start - int(mark[1].replace(",", "")))
        if more in (0, 1):  # a line end was put in
            return [(0, head[: len(head) - more]), (start, tail)]
    return [(max(0, printed - len(_as_printed(output))), output)]


def _parts(raw: bytes) -> Iterator[bytes]:
    """Some 64 KiB each, no character torn."""
    start = 0
    while start < len(raw):
        end = start + _PART
        while start < end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        yield raw[start:end]
        start = end


_ODD, _ODD_SHOWN, _NUL_SHOWN = b"\xff", "\N{REPLACEMENT CHARACTER}".encode(), "\N{SYMBOL FOR NULL}".encode()


def _as_printed(text: str) -> bytes:
    """The bytes that a text was made of; of several that have become one U+FFFD only one."""
    return text.encode(errors="replace").replace(_ODD_SHOWN, _ODD).replace(_NUL_SHOWN, b"\0")


def _shown(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("\0", _NUL_SHOWN.decode())
