"""The transports of streams: server-sent events at `/api/v1/stream`, WebSocket at `/api/v1/socket`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlast.errors import InvalidInput, OutlastError
from outlast.history.ids import RunId, checked_run
from outlast.http.auth import COOKIE, Principal
from outlast.http.operations import sender
from outlast.http.problems import HttpError, response_of
from outlast.http.state import ServerState
from outlast.http.streams.feed import Feeds
from outlast.http.streams.session import MAX_RUNS, Message, Session

MAX_URL_RUNS = 500
"""Runs that the URL of a stream may name; a WebSocket may follow more."""
MAX_COMMAND = 65_536
"""Bytes of one message from a WebSocket client."""
_CURSOR = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})*")
FLAGS = ("changes", "inbox", "lines")


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """What a WebSocket client sends: `{"subscribe": RUN, "since": 12}` or `{"unsubscribe": RUN}`."""

    subscribe: str = ""
    unsubscribe: str = ""
    since: int = 0


def routes() -> Sequence[BaseRoute]:
    return [Route("/api/v1/stream", stream, methods=["GET"]), WebSocketRoute("/api/v1/socket", socket)]


def feeds_of(state: ServerState) -> Feeds:
    if state.feeds is None:
        state.feeds = Feeds(state.engine)
    return state.feeds


# --- server-sent events


async def stream(request: Request) -> Response:
    """Follow runs: `?run=ID&run=ID@SEQ`. `Last-Event-ID` continues an earlier stream of the same URL."""
    state: ServerState = request.app.state.outlast
    try:
        who = await sender(request, state)
        if not who.may("runs:read"):
            raise HttpError("http.forbidden", "this role does not have the permission runs:read")
        runs, flags = _asked(request)
        session = Session(state, feeds_of(state), who, **flags)
    except (HttpError, OutlastError) as error:
        return response_of(error)
    for run, since in runs.items():
        session.subscribe(run, since)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
    return StreamingResponse(_frames(state, session, list(runs)), media_type="text/event-stream", headers=headers)


async def _frames(state: ServerState, session: Session, runs: list[RunId]) -> AsyncIterator[bytes]:
    state.stream_clients += 1
    state.wakers.add(session.wake)
    try:
        async for message in session.messages():
            cursor = ".".join(map(str, session.cursor(runs))) if message.kind in ("event", "expired") else ""
            yield frame(message, cursor)
    finally:
        state.stream_clients -= 1
        state.wakers.discard(session.wake)
        session.close()


def frame(message: Message, cursor: str) -> bytes:
    """One server-sent event. The data is JSON on one line: it has no line end of its own."""
    head = b"id: %b\n" % cursor.encode() if cursor else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, message.kind.encode(), message.data)


def _asked(request: Request) -> tuple[dict[RunId, int], dict[str, bool]]:
    """The runs with their cursors, and the flags."""
    given = request.query_params
    if unknown := set(given) - {"run", *FLAGS}:
        raise HttpError("http.invalid", f"there is no query parameter {min(unknown)[:80]!r}", field="query")
    if len(given.getlist("run")) > MAX_URL_RUNS:
        raise HttpError(
            "http.invalid", f"a stream follows at most {MAX_URL_RUNS} runs; use the WebSocket", field="query.run"
        )
    runs: dict[RunId, int] = {}
    for text in given.getlist("run"):
        name, at, since = text.rpartition("@") if "@" in text else (text, "", "0")
        if at and not re.fullmatch(r"[0-9]{1,15}", since):
            raise HttpError("http.invalid", f"{text[:80]!r} is not RUN or RUN@SEQ", field="query.run")
        try:
            runs[checked_run(name)] = int(since)
        except InvalidInput as error:
            raise HttpError("http.invalid", str(error), field="query.run") from None
    if last := request.headers.get("last-event-id", ""):
        seqs = last.split(".")
        if not _CURSOR.fullmatch(last) or len(seqs) != len(runs):
            raise HttpError(
                "http.invalid", "Last-Event-ID is not a cursor of this stream", field="header.Last-Event-ID"
            )
        runs = dict(zip(runs, map(int, seqs), strict=True))
    flags = {}
    for name in FLAGS:
        if (value := given.get(name, "false")) not in ("true", "false"):
            raise HttpError("http.invalid", f"{name} is true or false", field=f"query.{name}")
        flags[name] = value == "true"
    if not runs and not any(flags.values()):
        raise HttpError("http.invalid", "name what to follow: run=ID, changes=true or inbox=true", field="query")
    return runs, flags


# --- WebSocket


async def socket(websocket: WebSocket) -> None:
    """The same over a WebSocket: the client subscribes to runs and unsubscribes while it is open."""
    state: ServerState = websocket.app.state.outlast
    who = await _who(websocket, state)
    if who is None or not who.may("runs:read"):
        await websocket.close(1008, "this needs a valid token or session, from a page of this server")
        return
    flags = {name: websocket.query_params.get(name) == "true" for name in FLAGS}
    await websocket.accept()
    session = Session(state, feeds_of(state), who, **flags)
    state.stream_clients += 1
    state.wakers.add(session.wake)
    sending = asyncio.create_task(_send(websocket, session))
    receiving = asyncio.create_task(_receive(websocket, session))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, receiving):
            task.cancel()
        ended = await asyncio.gather(sending, receiving, return_exceptions=True)
        state.stream_clients -= 1
        state.wakers.discard(session.wake)
        session.close()
        code, reason = next((each for each in ended if isinstance(each, tuple)), (1000, ""))
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close(code, reason)


async def _who(websocket: WebSocket, state: ServerState) -> Principal | None:
    """The sender; a session must come from a page of this server."""
    connection: HTTPConnection = websocket
    who = await state.auth.principal(connection.headers.get("authorization"), connection.cookies.get(COOKIE))
    if state.limit is not None:
        try:
            state.limit.check(connection, who)
        except HttpError:
            return None
    if who is not None and who.kind != "token":
        scheme = {"ws": "http", "wss": "https"}[connection.url.scheme]
        origin = connection.headers.get("origin")
        if origin is not None and origin != f"{scheme}://{connection.headers.get('host', '')}":
            return None
        if origin is None and who.kind == "session":
            return None
    return who


async def _send(websocket: WebSocket, session: Session) -> tuple[int, str]:
    async for message in session.messages():
        seq = b',"seq":%d' % message.seq if message.kind == "event" else b""
        await websocket.send_text((b'{"kind":"%b"%b,"data":%b}' % (message.kind.encode(), seq, message.data)).decode())
    return 1001, "the stream ended"


async def _receive(websocket: WebSocket, session: Session) -> tuple[int, str]:
    followed: set[str] = set()
    while True:
        try:
            text = await websocket.receive_text()
        except (WebSocketDisconnect, KeyError, RuntimeError):
            return 1000, ""
        if len(text) > MAX_COMMAND:
            return 1009, "the message is too large"
        try:
            command = msgspec.json.decode(text, type=Command)
            if command.subscribe:
                if len(followed) >= MAX_RUNS:
                    return 1008, f"a client follows at most {MAX_RUNS} runs"
                followed.add(command.subscribe)
                session.subscribe(checked_run(command.subscribe), command.since)
            if command.unsubscribe:
                followed.discard(command.unsubscribe)
                session.unsubscribe(RunId(command.unsubscribe))
        except (msgspec.DecodeError, RecursionError, InvalidInput) as error:
            return 1007, f"not a command: {error}"[:120]
