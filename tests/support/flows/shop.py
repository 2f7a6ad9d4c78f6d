"""Workflows of a shop, for the tests of the page and its pictures. Files in the folder SHOP let them go on."""

import asyncio
import logging
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import outlast as ol

log = logging.getLogger("shop")
log.setLevel(logging.INFO)


def has(name: str) -> bool:
    return (Path(os.environ["SHOP"]) / name).exists()


class MailServerDown(ConnectionError):
    pass


@dataclass
class Customer:
    id: str
    name: str
    mail: str


@dataclass
class Terms:
    """What a supplier is given."""

    days: int
    limit: Decimal
    currency: Literal["EUR", "USD", "JPY"] = "EUR"
    note: str | None = None


@ol.node
async def load_customer(id: str) -> Customer:
    return Customer(id, "Ada Lindqvist", "ada@lindqvist.example")


@ol.node(retry=ol.Retry(max_attempts=3, delay=0.05))
async def price(article: str) -> Decimal:
    if article == "rug-17" and ol.context().attempt == 1:
        raise ConnectionError("price service: 503 Service Unavailable")
    return Decimal(len(article)) + Decimal("0.25")


@ol.node
async def charge(customer: str, amount: Decimal) -> dict[str, str]:
    return {"receipt": "ch_8841", "amount": str(amount)}


@ol.node
async def render_pdf(customer: str) -> str:
    log.info("rendered invoice-%s.pdf", customer)
    return f"invoice-{customer}.pdf"


@ol.node(retry=ol.Retry(max_attempts=2, delay=0.05))
async def send_mail(to: str, attachment: str) -> str:
    log.info("connecting to relay.internal:587")
    if not has("relay"):
        raise MailServerDown("relay.internal:587 refused the connection")
    return f"sent {attachment} to {to}"


@ol.workflow
async def invoice(customer: str, articles: list[str]) -> str:
    """Charge a customer and mail the invoice."""
    found = await load_customer(customer)
    prices = await ol.gather(*(price(article) for article in articles))
    await charge(customer, sum(prices, Decimal(0)))
    async with ol.step("deliver"):
        pdf = await render_pdf(customer)
        return await send_mail(found.mail, pdf)


@ol.node
async def pay_back(order: str, amount: Decimal) -> str:
    return f"paid {amount} for {order}"


@ol.workflow
async def refund(order: str, amount: Decimal) -> str:
    """Refund an order, if a person agrees."""
    if not await ol.approve(f"Refund {amount} EUR for order {order}?"):
        return "refused"
    return await pay_back(order, amount)


@ol.node
async def file_terms(name: str, terms: Terms) -> str:
    return f"{name}: {terms.days} days, at most {terms.limit} {terms.currency}, {terms.note!r}"


@ol.workflow
async def supplier(name: str) -> str:
    """Agree on terms with a supplier."""
    terms = await ol.ask(f"Which terms do we give {name}?", Terms)
    return await file_terms(name, terms)


@ol.node(repeatable=False)
async def transfer(week: int) -> str:
    while not has("bank"):
        await asyncio.sleep(0.02)
    return f"transferred week {week}"


@ol.workflow
async def payout(week: int) -> str:
    """Pay the sellers. Its transfer must not be done twice."""
    return await transfer(week)


@ol.node
async def embed(articles: int) -> int:
    for number in range(articles):
        log.info("embedded article %d", number + 1)
        ol.progress(number + 1, articles, "articles")
        while not has(f"embed-{number + 1}") and not has("embed"):
            await asyncio.sleep(0.02)
    return articles


@ol.workflow
async def reindex(articles: int) -> int:
    """Renew the search index."""
    return await embed(articles)


@ol.node
async def weigh(order: str) -> float:
    return 2.5


@ol.node
async def ship(order: str) -> str:
    return f"{order} shipped"


@ol.workflow
async def delivery(order: str) -> str:
    if has("weighing"):  # stands for a change of the code
        await weigh(order)
    await ol.approve(f"Ship {order}?")
    return await ship(order)


@ol.node
async def remind(customer: str) -> str:
    return f"reminded {customer}"


@ol.workflow
async def reminder(customer: str, days: int = 14) -> str:
    """Remind a customer after some days."""
    await ol.sleep(days=days)
    return await remind(customer)


@ol.node
async def store(article: str) -> int:
    return len(article)


@ol.workflow
async def stock_import(articles: int) -> int:
    """Store many articles."""
    return sum(await ol.gather(*(store(f"article-{number}") for number in range(articles))))


@ol.node
async def quote(article: str, amount: int) -> dict[str, Any]:
    return {"article": article, "amount": amount, "total": amount * 3}


@ol.node
async def offer(quoted: dict[str, Any]) -> str:
    return f"{quoted['amount']} of {quoted['article']} for {quoted['total']}"


@ol.workflow
async def quotation(article: str, amount: int = 1, big: int = 9007199254740993, rate: Decimal = Decimal("1.10")) -> str:
    """Quote a price. Its parameters are more exact than a JavaScript number."""
    return await offer(await quote(article, amount)) + f"; {big}, {rate}"


@ol.workflow
async def echo(value: Any) -> Any:
    """Give back what it is given."""
    return value
