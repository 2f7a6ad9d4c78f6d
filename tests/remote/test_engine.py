"""The engine of a server has the verbs, results and errors of the engine over its store."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import apsw
import msgspec
import pytest
import served

import outlast as ol
from outlast.client.bulk import Bulk
from outlast.client.diagnostics import Diagnostics
from outlast.client.reader import Reader
from outlast.client.versions import Versions
from outlast.compose import open_desk
from outlast.errors import NotPermitted, ServerAway, ServerMismatch
from outlast.history.record import Entry
from outlast.lifecycle.status import RunStatus
from outlast.remote.engine import RemoteBulk, RemoteDiagnostics, RemoteEngine, RemoteReader, RemoteVersions
from outlast.views.build import event_view
from support.server_thread import ServerThread

PATIENCE_S = 30


def connected(server: ServerThread, role: str = "admin", **options: Any) -> Any:
    return ol.connect(server.url, token=server.tokens[role], **options)


@pytest.mark.parametrize(
    ("remote", "local", "inherited"),
    [
        (RemoteEngine, ol.Engine, "find get list_runs iter_runs events lines verify workers migrate"),
        (RemoteVersions, Versions, ""),
        (RemoteDiagnostics, Diagnostics, "now holder scratch run_ids current_branch lineage"),
        (RemoteBulk, Bulk, "preview start"),
        (RemoteReader, Reader, "iter_runs must_not_be_deleted head state branches_around state_at"),
    ],
)
def test_every_verb_has_its_own_way_over_http(remote: type, local: type, inherited: str) -> None:
    """What is inherited uses verbs that are remote, or is used by no remote verb."""
    for name, verb in vars(local).items():
        if not name.startswith("_") and (inspect.isfunction(verb) or isinstance(verb, property)):
            assert (name in vars(remote)) is not (name in inherited.split()), name


# --- starting and results


async def test_values_are_exact(server: ServerThread) -> None:
    value = {"big": 2**100, "price": Decimal("1.10"), "odd": [float("inf"), -0.0, 0.1], "text": "ü\u2028\x85"}
    async with connected(server) as engine:
        handle = await engine.start(served.served_echo, value)
        assert await handle.result() == value
        assert await handle.output(served.exactly) == value
        price = await engine.start(served.served_price, Decimal("0.1000000000000000055511151231257827"))
        assert await price.result() == Decimal("0.1000000000000000055511151231257827")
        assert str(await (await engine.start(served.served_nan)).result()) == "nan"


async def test_a_large_value_comes_back_whole(server: ServerThread) -> None:
    text = "x" * 900_000
    async with connected(server) as engine:
        assert await (await engine.start(served.served_echo, text)).result() == text


async def test_search_attributes_are_those_of_the_store(server: ServerThread) -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    given = {"customer": "acme", "total": 12.5, "items": 3, "due": noon, "paid": True, "code": "12"}
    async with connected(server) as engine, open_desk(str(server.store)) as there:
        handle = await engine.start(served.served_asks.options(id="one", attributes=given), "Yes?")
        await engine.start(served.served_asks.options(id="two", attributes={"total": 7, "code": 12}), "No?")
        assert (await handle.get()).attributes == (await there.get(handle.run)).attributes
        (created, *_) = [entry.event async for entry in engine.events(handle.run)]
        assert created == (await anext(there.events(handle.run))).event
        for conditions, sort, runs in (
            (given, None, ["one"]),
            (["total>=7"], "-total", ["one", "two"]),
            (['code="12"'], None, ["one"]),
            (["code=12"], None, ["two"]),
            ([], "due", ["one"]),
        ):
            for each in (engine, there):
                assert [run.run for run in await each.list_runs(attributes=conditions, sort=sort)] == runs
        named = [entry async for entry in engine.events(handle.run, node="nothing")]
        assert named == []
        with pytest.raises(ol.InvalidInput, match="attributes: 'Total' is not a name"):
            await engine.start_by_name("served_asks", {}, attributes={"Total": 1})


async def test_errors_of_user_code_come_back_as_their_class(server: ServerThread) -> None:
    async with connected(server) as engine:
        handle = await engine.start(served.served_fails, "it")
        with pytest.raises(ValueError, match="it is broken"):
            await handle.result()
        refused = await engine.start(served.served_rejected, "it")
        with pytest.raises(ol.Rejected, match="it was refused"):
            await refused.result()


async def test_errors_of_the_engine_come_back_by_their_code(server: ServerThread) -> None:
    async with connected(server) as engine:
        run = (await engine.start(served.served_double, 2)).run
        await engine.result(run)
        with pytest.raises(ol.NotFound):
            await engine.get("no-such-run")
        with pytest.raises(ol.RunGone):
            await engine.answer(run, True)
        with pytest.raises(ol.NotAllowed, match="is completed"):
            await engine.resume(run)
        with pytest.raises(ol.AlreadyExists):
            await engine.start(served.served_double.options(id=run), 3)
        with pytest.raises(ol.InvalidInput, match="served_double"):
            await engine.start_by_name("served_double", {"value": "two"})
        with pytest.raises(ol.NotFound, match="no versions begin with it"):
            await engine.versions.diff(run, "no-such-version")
        with pytest.raises(ol.InvalidInput, match="records the name of the token"):
            await engine.cancel(run, by="ann")
    async with connected(server, "viewer") as engine:
        with pytest.raises(NotPermitted, match="runs:cancel"):
            await engine.cancel(run)
    async with ol.connect(server.url, token="nonsense") as engine:
        with pytest.raises(NotPermitted, match="valid token"):
            await engine.get(run)


async def test_a_key_is_one_run_for_all_ways_to_start(server: ServerThread) -> None:
    once = served.served_fails.options(idempotency_key="order-7")
    async with connected(server) as engine:
        failed = (await engine.start(once, "it")).run
        with pytest.raises(ValueError):
            await engine.result(failed)
        assert (await engine.start(once, "it")).run == failed, "also after it failed"
        with pytest.raises(ol.AlreadyExists, match="order-7"):
            await engine.start(once, "other")
        with pytest.raises(ol.AlreadyExists, match="served_fails"):
            await engine.start(served.served_double.options(idempotency_key="order-7"), 2)
    async with open_desk(str(server.store)) as desk:
        assert (await desk.start(once, "it")).run == failed
        with pytest.raises(ol.AlreadyExists, match="served_fails"):
            await desk.start(served.served_double.options(idempotency_key="order-7"), 2)


async def test_a_start_names_the_queue_the_priority_and_the_fairness_key(server: ServerThread) -> None:
    placed = served.served_double.options(queue="gpu", priority=-7, fairness_key="acme")
    async with connected(server) as engine:
        handle = await engine.start(placed, 2)
        assert await handle.result() == 4
    async with open_desk(str(server.store)) as desk:
        summary = await desk.get(handle.run)
    assert (summary.queue, summary.priority, summary.fairness_key) == ("gpu", -7, "acme")


async def test_a_run_that_has_not_ended_is_still_running(server: ServerThread) -> None:
    async with connected(server) as engine:
        handle = await engine.start(served.served_asks)
        with pytest.raises(ol.StillRunning):
            await handle.result(timeout=0.2)
        question = await handle.asked(timeout=PATIENCE_S)
        assert (question.id, question.prompt, question.schema) == ("approve", "Publish?", {"type": "boolean"})
        with pytest.raises(ol.InvalidInput):
            await handle.answer("perhaps")
        waiting = asyncio.create_task(handle.result())
        assert await handle.answer(True) == handle.run
        assert await waiting == "yes"
        with pytest.raises(ol.AlreadyAnswered):
            await handle.answer(True, interaction="approve")
        cancelled = await engine.start(served.served_asks)
        await cancelled.asked(timeout=PATIENCE_S)
        await cancelled.cancel(reason="enough")
        with pytest.raises(ol.RunCancelled, match="enough"):
            await cancelled.result()


# --- reading


async def test_what_is_read_is_what_the_store_has(server: ServerThread) -> None:
    async with connected(server) as engine:
        for value in range(3):
            await (await engine.start(served.served_double, value)).result()
        failed = (await engine.start(served.served_fails, "it")).run
        with pytest.raises(ValueError):
            await engine.result(failed)
        async with open_desk(str(server.store), readonly=True) as desk:
            runs = [each.run async for each in desk.iter_runs()]
            assert [each async for each in engine.iter_runs()] == [each async for each in desk.iter_runs()]
            assert [run async for run in engine.diagnostics.run_ids()] == runs
            assert await engine.find(failed[:20]) == failed
            assert [each.run for each in await engine.list_runs(status="failed")] == [failed]
            for run in runs:
                assert await engine.get(run) == await desk.get(run)
                assert _plain([each async for each in engine.events(run)]) == _plain(
                    [each async for each in desk.events(run)]
                )
                assert await engine.explain(run) == await desk.explain(run)
                assert await engine.branches(run) == await desk.branches(run)
                assert await engine.verify(run) == await desk.verify(run)
                assert await engine.diagnose(run) == await desk.diagnose(run)
                assert (await engine.diagnostics.created(run)).by == (await desk.diagnostics.created(run)).by
                assert await engine.diagnostics.lineage(run) == await desk.diagnostics.lineage(run)
            one, other = runs[1:3]
            ours, theirs = await engine.compare(one, other), await desk.compare(one, other)
            assert (ours.left, ours.right, ours.counts) == (theirs.left, theirs.right, theirs.counts)
            assert _plain([row.left for row in ours.rows]) == _plain([row.left for row in theirs.rows])
            assert await engine.versions.of("served_double") == await desk.versions.of("served_double")
            assert await engine.versions.diff(run) == await desk.versions.diff(run)
            assert [each.worker for each in await engine.workers()] == [each.worker for each in await desk.workers()]
            assert abs(await engine.diagnostics.now() - await desk.diagnostics.now()) < 60_000_000


def _plain(entries: Iterable[Entry | None]) -> Any:
    """Equal for equal entries: `Raw` compares by identity."""
    return [msgspec.json.decode(msgspec.json.encode(event_view(each))) for each in entries if each is not None]


async def test_actions_are_planned_and_carried_out(server: ServerThread) -> None:
    async with connected(server) as engine:
        run = (await engine.start(served.served_double, 4)).run
        assert await engine.result(run) == 8
        planned = await engine.diagnostics.preview_retry(run, "double")
        assert "BranchOpened" in [type(each).__name__ for each in planned]
        again = await engine.jump(run, "double", inputs={"value": 5}, reason="it was wrong")
        async with asyncio.timeout(PATIENCE_S):
            while (await again.get()).status is not RunStatus.COMPLETED:
                await asyncio.sleep(0.02)
        assert await again.result() == 10
        copy = await engine.fork(run, id="copy")
        assert copy.run == "copy"


async def test_a_bulk_action_is_followed(server: ServerThread) -> None:
    async with connected(server) as engine:
        runs = [(await engine.start(served.served_asks)).run for _ in range(3)]
        for run in runs:
            await engine.asked(run, timeout=PATIENCE_S)
        wanted = ol.RunFilter(workflow="served_asks")
        assert (await engine.bulk.preview(wanted)).allowed["approve"] == 3
        bulk = await engine.bulk.start("approve", wanted)
        await engine.result(bulk, timeout=PATIENCE_S)
        progress = await engine.bulk.progress(bulk)
        assert (progress.count("done"), len(progress.targets)) == (3, 3)
        assert [await engine.result(run) for run in runs] == ["yes"] * 3


# --- code that does not await


def test_the_same_verbs_block(server: ServerThread) -> None:
    with connected(server) as engine:
        handle = engine.start(served.served_double, 21)
        assert handle.result() == 42
        assert [entry.seq for entry in handle.watch()] == list(range(1, handle.get().at + 1))
        assert [each.run for each in engine.iter_runs()] == [handle.run]
        assert engine.diagnostics.current_branch(handle.run) == 0
        assert engine.versions.of("served_double")[0].runs == 1


# --- servers that are away, and others


async def test_a_server_that_does_not_run_is_named_at_once(tmp_path: Any) -> None:
    async with ol.connect("http://127.0.0.1:9") as engine:
        async with asyncio.timeout(10):
            with pytest.raises(ServerAway, match=r"Server not running: nothing answers at http://127\.0\.0\.1:9"):
                await engine.get("x")


async def test_another_program_at_the_address_is_no_server() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(page, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with ol.connect(f"http://127.0.0.1:{port}") as engine:
            with pytest.raises(ServerMismatch, match="there is no Outlast server"):
                await engine.get("x")


async def test_a_server_of_another_version_is_named() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = b'{"info":{"version":"9.1.0"}}' if path.endswith(b"openapi.json") else b'{"runs":[]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(old, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with ol.connect(f"http://127.0.0.1:{port}") as engine:
            with pytest.raises(ServerMismatch, match=r"the server is 9\.1\.0; install the same version"):
                await engine.get("x")


async def test_a_token_is_not_sent_to_where_a_server_redirects() -> None:
    seen: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 307 Go\r\nLocation: /stolen\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(elsewhere, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with ol.connect(f"http://127.0.0.1:{port}", token="secret") as engine:
            with pytest.raises(ServerMismatch):
                await engine.get("x")
    assert len(seen) == 1


def test_no_server_is_named() -> None:
    with pytest.raises(ol.InvalidInput, match="no server is named"):
        ol.connect()


async def test_watching_a_run_whose_log_is_damaged_is_an_error(server: ServerThread) -> None:
    async with connected(server) as engine:
        handle = await engine.start(served.served_double, 2)
        await handle.result()
        with closing(apsw.Connection("runs.db")) as store:
            store.execute("update log set body = ?", (b'[{"type":"RunSta',))
        with pytest.raises(ol.Damaged, match=f"run {handle.run}"):
            async for _ in handle.watch():
                pass
