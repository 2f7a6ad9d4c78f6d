"""Writes the golden stores: `PYTHONPATH=tests:tests/support/flows python -m golden_stores.make`.

A store that is there already stays as it is: it shows that later versions read what this version wrote. A new version of the
format gets new files beside the old ones.
"""

from __future__ import annotations

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

import kept

import outlast as ol
from golden_stores.images import SCHEMA, files_below, objects_of, pack, rows_of
from outlast.compose import open_store
from outlast.history.ids import RunId
from outlast.http.auth import Auth
from outlast.stores.postgres import schema
from outlast.stores.shared import VERSION
from support.servers import s3
from support.servers.postgres import postgres_server

FOLDER = Path(__file__).parent


async def fill(address: str) -> None:
    """Runs in many states, none of which is held by a worker."""
    async with ol.open(address) as engine:
        order = kept.kept_order

        async def until(run: str, status: str) -> None:
            while (await engine.get(RunId(run))).status != status:
                await asyncio.sleep(0.01)

        done = await engine.start(order.options(id="done", title="An order", tags=["north"]), "lamp", Decimal("2.50"))
        await until("done", "waiting")
        await engine.answer(done.run, True, by="ann")
        await done.result()
        again = await engine.jump(done.run, "approve", by="ben", reason="a second look")  # branch 1
        await until("done", "waiting")
        await engine.answer(again.run, False, by="ben")
        await again.result()
        options = {"id": "waiting", "attributes": {"customer": "acme"}, "idempotency_key": None}
        await engine.start(order.options(**{k: v for k, v in options.items() if v}), "rug", Decimal(7))
        await engine.start(kept.kept_parent.options(id="parent"), "vase")
        await engine.start(kept.kept_mail.options(id="failed"), "ann@example.org")
        await engine.start(kept.kept_reminder.options(id="paused"), 0.5)
        await engine.pause(RunId("paused"), by="ann", reason="lunch")
        await engine.start(kept.kept_alone.options(id="alone"), "one")
        await engine.start(kept.kept_quick.options(id="deferred", start=False), 1)
        gone = await engine.start(kept.kept_quick.options(idempotency_key="order-1"), 1)
        await gone.result()
        await engine.delete(gone.run, by="ann", reason="asked for")
        for run, status in {"waiting": "waiting", "parent": "waiting", "failed": "failed", "paused": "paused"}.items():
            await until(run, status)
        await until("alone", "waiting")
        (child,) = (await engine.get(RunId("parent"))).waits
        await until(child.id, "waiting")
    store = open_store(address)
    await Auth(store).create("token", "deploy", "operator")
    await store.close()
    async with ol.open(address, worker=False) as engine:
        queued = kept.kept_quick.options(id="queued", queue="gpu", priority=5, fairness_key="acme")
        await engine.start(queued, 41)
        await engine.start(kept.kept_quick.options(id="ready"), 1)


def make() -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = FOLDER / f"sqlite-{VERSION}.tar.xz"
        if not target.exists():
            asyncio.run(fill(str(Path(folder) / "runs.db")))
            pack(target, files_below(Path(folder)))
    target = FOLDER / f"postgres-{schema.VERSION}.tar.xz"
    if not target.exists():
        with postgres_server() as server:
            url = f"{server.url}?schema=golden"
            asyncio.run(fill(url))
            text = (schema._text("schema") + schema._text("functions")).encode()
            pack(target, {**asyncio.run(rows_of(url)), SCHEMA: text})
    target = FOLDER / f"bucket-{VERSION}.tar.xz"
    if not target.exists():
        address = s3.shared().address("golden")
        asyncio.run(fill(address))
        pack(target, objects_of(address))


if __name__ == "__main__":
    make()
