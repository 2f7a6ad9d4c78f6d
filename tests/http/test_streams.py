"""Live streams: every event after a cursor once and in order, whatever happens to clients and servers (L1 to L4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import apsw
import pytest
import served
from starlette.types import ASGIApp

import outlast as ol
from outlast.errors import StoreError
from outlast.http.streams import session as sessions

PATIENCE_S = 60


class Client:
    """One connection to the application, as its server would make it. What arrives is parsed as a browser parses it."""

    def __init__(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._given: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._given.put_nowait({"type": "websocket.connect"} if scope["type"] == "websocket" else _NO_BODY)
        self._task = asyncio.ensure_future(app(scope, self._given.get, self._sent.put))
        self._rest = b""
        self.last_id = ""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def opened(self) -> Client:
        message = await self._next()
        self.status = message.get("status", 101 if message["type"] == "websocket.accept" else 403)
        self.headers = {name.decode(): value.decode() for name, value in message.get("headers", ())}
        return self

    async def _next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            return await self._sent.get()

    async def body(self) -> Any:
        return json.loads((await self._next())["body"])

    async def message(self) -> tuple[str, Any]:
        """The next server-sent event: its kind and its data."""
        while b"\n\n" not in self._rest:
            message = await self._next()
            if not message.get("more_body") and not message.get("body"):
                return "closed", None
            self._rest += message["body"]
        frame, _, self._rest = self._rest.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in frame.decode().splitlines())
        self.last_id = fields.get("id", self.last_id)
        return fields["event"], json.loads(fields["data"])

    async def until(self, wanted: Callable[[str, Any], bool]) -> list[tuple[str, Any]]:
        seen = []
        while True:
            seen.append(await self.message())
            if wanted(*seen[-1]):
                return seen

    def say(self, **command: Any) -> None:
        self._given.put_nowait({"type": "websocket.receive", "text": json.dumps(command)})

    async def heard(self) -> Any:
        message = await self._next()
        return json.loads(message["text"]) if message["type"] == "websocket.send" else message

    async def leave(self) -> None:
        self._given.put_nowait({"type": "http.disconnect"})
        self._given.put_nowait({"type": "websocket.disconnect", "code": 1000})
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(self._task), 5)
        self._task.cancel()


_NO_BODY = {"type": "http.request", "body": b"", "more_body": False}


@asynccontextmanager
async def client(server: Any, path: str, *, role: str | None = "viewer", **headers: str) -> AsyncIterator[Client]:
    path, _, query = path.partition("?")
    is_socket = path.endswith("socket")
    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if role is not None:
        given["authorization"] = f"Bearer {server.tokens[role]}"
    scope = {
        "type": "websocket" if is_socket else "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "ws" if is_socket else "http",
        "method": "GET",
        "path": f"/api/v1{path}",
        "raw_path": f"/api/v1{path}".encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "subprotocols": [],
    }
    one = Client(server.app, scope)
    try:
        yield await one.opened()
    finally:
        await one.leave()


def is_end(kind: str, data: Any) -> bool:
    return kind == "event" and data["event"]["type"] in ("RunCompleted", "RunFailed", "RunCancelled")


def seqs(messages: list[tuple[str, Any]], run: str = "") -> list[int]:
    return [data["event"]["seq"] for kind, data in messages if kind == "event" and run in ("", data["run"])]


async def logged(server: Any, run: str) -> list[int]:
    return [entry.seq async for entry in server.engine.events(run, everything=True)]


Serve = Callable[..., Any]
Test = Callable[..., Awaitable[None]]


async def test_a_run_is_followed_from_its_first_event_to_its_last(serve: Serve) -> None:
    """L1, L3"""
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        async with client(server, f"/stream?run={run}") as stream:
            assert (stream.status, stream.headers["content-type"][:17]) == (200, "text/event-stream")
            assert stream.headers["x-accel-buffering"] == "no"
            assert stream.headers["cache-control"] == "no-store"
            before = await stream.until(lambda kind, _: kind == "backfill_complete")
            assert before[0][0] == "open"
            assert before[-1][1]["status"] == "waiting"
            (question,) = before[-1][1]["questions"]
            assert (question["text"], before[-1][1]["failure"]) == ("Publish?", None)
            await server("POST", f"/runs/{run}/answer", json={"value": True})
            after = await stream.until(is_end)
        assert seqs(before + after) == await logged(server, run)


async def test_a_stream_continues_after_every_event_on_any_server(serve: Serve) -> None:
    """L2: also amid an append of several events, and after a restart"""
    async with serve() as server:
        run = await server.start("served_double", value=1, wait=20)
        whole = await logged(server, run)
    async with serve() as server:
        for cursor in [0, *whole]:
            async with client(server, f"/stream?run={run}", last_event_id=str(cursor)) as stream:
                seen = await stream.until(lambda kind, _: kind == "backfill_complete")
                assert seqs(seen) == [seq for seq in whole if seq > cursor]
                assert stream.last_id == (str(whole[-1]) if cursor < whole[-1] else "")
            async with client(server, f"/stream?run={run}@{cursor}") as stream:
                assert seqs(await stream.until(lambda kind, _: kind == "backfill_complete")) == [
                    seq for seq in whole if seq > cursor
                ]


async def test_many_runs_share_a_stream_and_each_continues_at_its_own_place(serve: Serve) -> None:
    """L1, L2"""
    async with serve() as server:
        runs = [await server.start("served_asks", text=f"Question {number}?") for number in range(6)]
        path = "/stream?" + "&".join(f"run={run}" for run in runs)
        seen: list[tuple[str, Any]] = []
        cursor = ""
        answered = 0
        while sum(is_end(*each) for each in seen) < len(runs):
            headers = {"last_event_id": cursor} if cursor else {}
            async with client(server, path, **headers) as stream:  # it breaks after four events
                events = completed = 0
                while events < 4 and completed < len(runs):
                    seen.append(await stream.message())
                    events += seen[-1][0] == "event"
                    completed += seen[-1][0] == "backfill_complete"
                cursor = stream.last_id or cursor
            if answered < len(runs):
                await server.until(runs[answered], "waiting")
                await server("POST", f"/runs/{runs[answered]}/answer", json={"value": True})
                answered += 1
        for run in runs:
            assert seqs(seen, run) == await logged(server, run)


async def test_a_cursor_beyond_the_log_has_expired_and_the_run_is_sent_from_its_beginning(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_double", value=1, wait=20)
        async with client(server, f"/stream?run={run}@999") as stream:
            seen = await stream.until(lambda kind, _: kind == "backfill_complete")
        assert [data["since"] for kind, data in seen if kind == "expired"] == [999]
        assert seqs(seen) == await logged(server, run)


@pytest.mark.parametrize(
    ("path", "cursor"),
    [
        ("/stream?run=a", "x"),
        ("/stream?run=a", "1.2"),
        ("/stream?run=a@b", ""),
        ("/stream?run=a%20b", ""),
        ("/stream?other=1", ""),
        ("/stream?inbox=maybe", ""),
        ("/stream", ""),
    ],
)
async def test_nonsense_is_refused_once_and_clearly(serve: Serve, path: str, cursor: str) -> None:
    """P11"""
    async with serve() as server:
        headers = {"last_event_id": cursor} if cursor else {}
        async with client(server, path, **headers) as stream:
            assert stream.status == 422
            assert (await stream.body())["code"] == "http.invalid"


async def test_a_run_that_is_missing_is_said_to_be_and_followed_when_it_is_there(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as server:
        async with client(server, "/stream?run=later") as stream:
            await stream.until(lambda kind, data: kind == "missing" and data["run"] == "later")
            await server.engine.start(served.served_double.options(id="later"), 1)
            seen = await stream.until(is_end)
        assert seqs(seen) == await logged(server, "later")


async def test_a_run_that_no_worker_advances_is_stalled_and_resumes(serve: Serve) -> None:
    """F1"""
    async with serve(worker=False) as server:
        run = await server.start("served_double", value=1)
        async with client(server, f"/stream?run={run}") as stream:
            await stream.until(lambda kind, data: kind == "stalled" and data["run"] == run)
            async with ol.open(server.engine._store.path):
                seen = await stream.until(is_end)
        assert seqs(seen)[-1] == (await logged(server, run))[-1]


async def test_a_credential_that_is_revoked_ends_its_streams(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """L4"""
    monkeypatch.setattr(sessions, "CHECK_S", 0.05)
    async with serve() as server:
        run = await server.start("served_asks")
        async with client(server, f"/stream?run={run}") as stream, client(server, "/socket?changes=true") as socket:
            await stream.until(lambda kind, _: kind == "backfill_complete")
            (mine,) = [each for each in await server.state.auth.list("token") if each.role == "viewer"]
            await server.state.auth.revoke("token", mine.id)
            seen = await stream.until(lambda kind, _: kind == "end")
            assert seen[-1][1]["reason"] == "unauthenticated"
            assert (await stream.message())[0] == "closed"
            while (heard := await socket.heard()).get("kind") in ("open", "changed", "heartbeat"):
                pass
            assert heard["data"]["reason"] == "unauthenticated"


async def test_streams_end_when_the_server_shuts_down(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        async with client(server, f"/stream?run={run}") as stream:
            await stream.until(lambda kind, _: kind == "backfill_complete")
            assert server.state.stream_clients == 1
            server.state.drain()
            seen = await stream.until(lambda kind, _: kind == "end")
            assert seen[-1][1]["reason"] == "shutdown"
            assert (await stream.message())[0] == "closed"
        assert server.state.stream_clients == 0


async def test_without_a_credential_nothing_is_streamed(serve: Serve) -> None:
    async with serve() as server:
        async with client(server, "/stream?changes=true", role=None) as stream:
            assert stream.status == 401
        async with client(server, "/socket", role=None) as socket:
            assert socket.status == 403


async def test_texts_of_users_break_no_frame(serve: Serve) -> None:
    hostile = "a\r\ndata: {}\n\nevent: end\u2028\u2029\x1b[31m"
    async with serve() as server:
        run = await server.start("served_asks", text=hostile)
        await server.until(run, "waiting")
        async with client(server, f"/stream?run={run}&inbox=true") as stream:
            seen = await stream.until(lambda kind, _: kind == "backfill_complete")
        assert seqs(seen) == await logged(server, run)
        assert seen[-1][1]["questions"][0]["text"] == hostile
        (restored,) = [data for kind, data in seen if kind == "question"]
        assert (restored["question"]["text"], restored["restored"]) == (hostile, True)


async def test_a_websocket_subscribes_and_unsubscribes(serve: Serve) -> None:
    """L1"""
    async with serve() as server:
        first = await server.start("served_double", value=1, wait=20)
        second = await server.start("served_asks")
        await server.until(second, "waiting")
        async with client(server, "/socket") as socket:
            assert socket.status == 101
            socket.say(subscribe=first)
            socket.say(subscribe=second, since=1)
            heard: list[Any] = []
            while sum(each["kind"] == "backfill_complete" for each in heard) < 2:
                heard.append(await socket.heard())
            for run, since in ((first, 0), (second, 1)):
                sent = [each["seq"] for each in heard if each["kind"] == "event" and each["data"]["run"] == run]
                assert sent == [seq for seq in await logged(server, run) if seq > since]
            socket.say(unsubscribe=second)
            socket.say(subscribe="no-such-run")
            while (await socket.heard())["kind"] != "missing":
                pass
            await server("POST", f"/runs/{second}/answer", json={"value": True})
            await server.until(second, "completed")
            socket.say(subscribe=first, since=0)
            socket.say(nonsense=True)
            while (last := await socket.heard()).get("type") != "websocket.close":
                assert last["kind"] != "event", "it unsubscribed, and the other run is followed already"
            assert last["code"] == 1007


async def test_changes_of_all_runs_are_announced(serve: Serve) -> None:
    async with serve() as server, client(server, "/stream?changes=true") as stream:
        run = await server.start("served_double", value=1, wait=20)
        await stream.until(lambda kind, data: kind == "changed" and run in data["runs"])


async def test_a_store_that_is_away_ends_a_stream_with_the_reason(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """L4"""
    monkeypatch.setattr(sessions, "CHECK_S", 0.05)
    async with serve() as server:
        run = await server.start("served_asks")
        async with client(server, f"/stream?run={run}") as stream, client(server, "/socket?changes=true") as socket:
            await stream.until(lambda kind, _: kind == "backfill_complete")

            async def away(_: Any) -> bool:
                raise StoreError("the store does not answer\x1b[2J")

            with monkeypatch.context() as outage:
                outage.setattr(server.state.auth, "is_valid", away)
                seen = await stream.until(lambda kind, _: kind == "end")
                assert seen[-1][1] == {"reason": "store"}
                assert (await stream.message())[0] == "closed"
                while (heard := await socket.heard()).get("kind") in ("open", "changed", "heartbeat"):
                    pass
                assert heard["data"] == {"reason": "store"}
        assert "a stream ends: the store does not answer [2J" in caplog.text
        assert server.state.stream_clients == 0


async def test_a_damaged_log_ends_only_its_own_part_of_a_stream(serve: Serve) -> None:
    """G1"""
    async with serve() as server:
        sound, damaged = await server.start("served_asks"), await server.start("served_double", value=1, wait=10)
        connection = apsw.Connection(str(server.engine._store.path))
        connection.execute(
            "update log set body = ? where run = (select id from head where run = ?)", (b'[{"type":"RunSta', damaged)
        )
        connection.close()
        async with client(server, f"/stream?run={damaged}&run={sound}") as stream:
            seen = await stream.until(lambda kind, _: kind == "damaged")
            assert seen[-1][1]["run"] == damaged
            await server("POST", f"/runs/{sound}/approve")
            seen += await stream.until(is_end)
        assert seqs(seen, sound) == await logged(server, sound)
