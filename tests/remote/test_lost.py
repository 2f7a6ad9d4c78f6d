"""What a client does when the server, or the connection, is lost: each event once, each request at most once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import served

import outlast as ol
from outlast.errors import ServerAway
from outlast.views.detail import exported
from support.server_thread import ServerThread

PATIENCE_S = 60


async def test_watch_continues_after_the_server_was_restarted(server: ServerThread) -> None:
    async with ol.connect(server.url, token=server.tokens["admin"]) as engine:
        handle = await engine.start(served.served_asks)
        await handle.asked(timeout=PATIENCE_S)
        seen: list[Any] = []

        async def watch() -> None:
            async for entry in handle.watch():
                seen.append(entry)  # noqa: PERF401 - it is read meanwhile

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(PATIENCE_S):
            while not seen:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(server.end)
        restarting = asyncio.create_task(asyncio.to_thread(server.begin))
        await handle.answer(True)  # is repeated until the server answers
        await restarting
        async with asyncio.timeout(PATIENCE_S):
            await watching
        assert [entry.seq for entry in seen] == list(range(1, seen[-1].seq + 1))
        assert type(seen[-1].event).__name__ == "RunCompleted"


async def test_a_start_whose_answer_was_lost_is_repeated_and_is_one_run(server: ServerThread) -> None:
    """A proxy carries the first request out and loses its answer."""
    count = 0

    async def losing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        there_writer.write(head + await reader.readexactly(size))
        answer = await there_reader.readuntil(b"\r\n\r\n")
        if count > 1:
            length = next(
                int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n") if b"content-length" in line
            )
            writer.write(answer + await there_reader.readexactly(length))
            await writer.drain()
        there_writer.close()
        writer.close()

    async with await asyncio.start_server(losing, "127.0.0.1", 0) as proxy:
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        async with ol.connect(address, token=server.tokens["admin"]) as engine:
            run = (await engine.start(served.served_double, 2)).run
    assert count == 2
    async with ol.connect(server.url, token=server.tokens["admin"]) as engine:
        assert [each.run async for each in engine.iter_runs()] == [run]


async def test_a_request_that_may_not_be_repeated_says_so(server: ServerThread) -> None:
    async def losing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(losing, "127.0.0.1", 0) as proxy:
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        async with ol.connect(address, patience=2) as engine:
            with pytest.raises(ol.ServerError, match="may have been carried out: look at the run"):
                await engine.cancel("some-run")


async def test_messages_of_a_stream_may_hold_other_line_ends(server: ServerThread) -> None:
    async with ol.connect(server.url, token=server.tokens["admin"]) as engine:
        odd = "a\u2028b\x85c\x1cd\r\ne"
        handle = await engine.start(served.served_echo, odd)
        await handle.result()
        assert [entry.seq async for entry in handle.watch()] == list(range(1, (await handle.get()).at + 1))


async def test_a_revoked_token_ends_a_watch(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.http import auth
    from outlast.http.streams import session

    monkeypatch.setattr(session, "CHECK_S", 0.2)
    monkeypatch.setattr(auth, "CACHE_S", 0.1)
    async with ol.connect(server.url, token=server.tokens["admin"]) as admin:
        made = await admin.create_token("short", "viewer", None)
        run = (await admin.start(served.served_asks)).run
        async with ol.connect(server.url, token=made.secret) as engine:
            seen = threading.Event()

            async def watch() -> None:
                async for _ in engine.watch(run):
                    seen.set()

            watching = asyncio.create_task(watch())
            async with asyncio.timeout(PATIENCE_S):
                while not seen.is_set():
                    await asyncio.sleep(0.01)
                await admin.revoke_token(made.token.id)
                with pytest.raises(ol.ServerError, match=r"valid token|no longer valid"):
                    await watching


async def test_messages_arrive_in_any_pieces() -> None:
    from outlast.remote.connection import _messages

    body = b'id: 1\nevent: event\ndata: {"a":"\xc2\x85"}\n\nevent: end\ndata: {}\n\n'
    for size in (1, 2, 7, len(body)):

        async def pieces(size: int = size) -> Any:
            for at in range(0, len(body), size):
                yield body[at : at + size]

        assert [each async for each in _messages(pieces())] == [("event", b'{"a":"\xc2\x85"}'), ("end", b"{}")]


async def collect(engine: ol.Engine, run: Any, lines: list[bytes]) -> None:
    async for line in exported(engine, run):
        lines.append(line)  # noqa: PERF401 - they are looked at after an error


async def test_an_export_that_is_cut_off_is_an_error(server: ServerThread) -> None:
    """A proxy closes the connection before the last chunk, at the end of a line."""

    async def cutting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", server.port)
        there_writer.write(await reader.readuntil(b"\r\n\r\n"))
        writer.write(await there_reader.readuntil(b"\r\n\r\n"))
        size = await there_reader.readline()
        writer.write(size + await there_reader.readexactly(int(size, 16) + 2))
        await writer.drain()
        there_writer.close()
        writer.close()

    token = server.tokens["admin"]
    async with (
        ol.connect(server.url, token=token) as engine,
        await asyncio.start_server(cutting, "127.0.0.1", 0) as proxy,
    ):
        handle = await engine.start(served.served_double, 2)
        await handle.result()
        whole = [line async for line in exported(engine, handle.run)]
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        some = list[bytes]()
        async with ol.connect(address, token=token) as cut_off:
            with pytest.raises(ServerAway, match="was lost"):
                await collect(cut_off, handle.run, some)
        assert 0 < len(some) < len(whole)
