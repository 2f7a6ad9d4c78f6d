"""Fills the store of a server with runs of the shop in every state that a person can meet."""

from __future__ import annotations

from typing import Any

import outlast as ol

HOSTILE = "<img src=x onerror=alert(1)>\"'`${7*7}{{7*7}}</script><script>alert(2)</script>\u202e\u2028\x07"
RUN = "invoice-2231"
"""A run that failed and can be resumed."""


@ol.workflow
async def quarter_close(quarter: str) -> None:
    """No worker knows this one."""


async def fill(site: Any) -> None:
    """`site` has a server that runs; it is killed and started again for a run that is held."""
    start = site.start
    async with ol.open(site.store, worker=False) as engine:
        await engine.start(quarter_close.options(id="close-2026-q3", title="Third quarter"), "2026-q3")
    await start("payout", "payout-2026-w46", title="Sellers, week 46", tags=["money"], week=46)
    await site.until("payout-2026-w46", "running")
    site.kill()
    site.begin()
    articles = ["lamp-40", "rug-17", "chair-9"]
    await start("invoice", RUN, title="Ada Lindqvist, November", tags=["eu"], customer="c-118", articles=articles)
    await site.until(RUN, "failed")
    site.allow("relay")
    await start(
        "invoice", "invoice-2232", until="completed", title="Grace Oyelaran", customer="c-204", articles=["lamp-40"]
    )
    await start("stock_import", "import-20261118", until="completed", title="Stock", articles=60)
    await start("quotation", "quotation-7", until="completed", title="Garden chairs", article="chair-9", amount=12)
    await site.get("/runs/quotation-7/jump", {"to": "quote", "inputs": {"amount": 24}, "reason": "twice as many"})
    await start("echo", "echo-1", until="completed", title=HOSTILE, tags=[HOSTILE], value={"text": HOSTILE})
    for number, (order, amount) in enumerate({"A-1180": "49.90", "A-1187": "129.00", "A-1201": "2199.00"}.items()):
        id, title = f"refund-{5519 + number}", f"Order {order}"
        await start("refund", id, until="waiting", title=title, tags=["eu"], order=order, amount=amount)
    await start("refund", "refund-5522", until="waiting", title="Order B-0042", order="B-0042", amount="12.50")
    await site.get("/runs/refund-5522/cancel", {"reason": "the customer keeps it"})
    await start("supplier", "supplier-31", until="waiting", title="Falkenberg Optik GmbH", name="Falkenberg Optik")
    await start("reminder", "reminder-c118", until="waiting", title="Ada Lindqvist", customer="c-118")
    await start("reindex", "reindex-9", until="running", title="Archive", articles=5)
    await site.get("/runs/reindex-9/pause", {"reason": "until the disk is larger"})
    for number in range(1, 4):
        site.allow(f"embed-{number}")
    await start("reindex", "reindex-8", until="running", title="All articles", articles=10)
    await site.until("refund-5522", "cancelled")
    await site.until("reindex-9", "paused")
