"""Workflows of the golden stores. Their code must never change: the runs in the stores continue with it."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from decimal import Decimal

import outlast as ol

log = logging.getLogger("kept")


@ol.node
async def priced(article: str, amount: Decimal) -> Decimal:
    log.warning("pricing %s", article)
    return amount * 2


@ol.node
async def printed(pages: int) -> str:
    return "page " * pages


@ol.node(retry=ol.Retry(max_attempts=2, delay=0.01))
async def sent(to: str) -> str:
    if not os.environ.get("KEPT_RELAY"):
        raise ConnectionError("the relay is down")
    return f"sent to {to}"


@ol.workflow
async def kept_order(article: str, amount: Decimal) -> str:
    ol.set_attributes({"article": article, "paid": False, "total": 12.5})
    price = await priced(article, amount)
    text = await printed(300_000)  # larger than what is stored in the log
    if await ol.approve(f"Ship {article} for {price}?"):
        ol.set_attributes({"paid": True, "at": datetime(2026, 11, 19, tzinfo=UTC)})
        return f"{article} {price} {len(text)}"
    return "rejected"


@ol.workflow
async def kept_parent(article: str) -> str:
    return "child: " + await kept_order(article, Decimal("1.10"))


@ol.workflow
async def kept_mail(to: str) -> str:
    return await sent(to)


@ol.workflow
async def kept_reminder(seconds: float) -> str:
    await ol.sleep(seconds)
    return "reminded"


@ol.workflow(exclusive="folder:{name}")
async def kept_alone(name: str) -> str:
    await ol.approve("Free the folder?")
    return name


@ol.workflow
async def kept_quick(number: int) -> int:
    return number + 1
