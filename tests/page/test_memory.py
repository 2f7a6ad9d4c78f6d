"""A page that stays open keeps no more than it shows: as many events as half an hour of live runs, in a few minutes.

What is counted is what is left after a garbage collection: objects, nodes of the document and listeners. None of it depends
on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import CDPSession, Page, expect

from support.browser import is_loaded

Site = Any
RUNS, LINES, NODES = 500, 3_000, 6_000
ROUNDS = 4
SLACK = 4_000
"""Objects that come and go: messages on their way, compiled code, the caches of the libraries."""
OBJECTS_OF_EVENT = 20
"""An event that is shown is an object with its fields, and part of a bar, a row and a sentence."""


@dataclass
class Kept:
    objects: int
    nodes: int
    listeners: int
    heap_mb: float


class Watched:
    """A page of which one counts what it keeps."""

    def __init__(self, page: Page, devtools: CDPSession) -> None:
        self.page = page
        self._devtools = devtools

    @classmethod
    async def at(cls, site: Site, path: str) -> Watched:
        page = await site.open(path, role="viewer")
        devtools = await page.context.new_cdp_session(page)
        await expect(page.get_by_role("status").filter(has_text=re.compile("^Live$"))).to_be_visible()
        return cls(page, devtools)

    async def kept(self) -> Kept:
        send = self._devtools.send
        for _ in range(2):  # what a finaliser frees is collected by the next one
            await send("HeapProfiler.collectGarbage")
        counters = await send("Memory.getDOMCounters")
        heap = await send("Runtime.getHeapUsage")
        prototype = await send("Runtime.evaluate", {"expression": "Object.prototype", "objectGroup": "counted"})
        found = await send(
            "Runtime.queryObjects",
            {"prototypeObjectId": prototype["result"]["objectId"], "objectGroup": "counted"},
        )
        length = await send(
            "Runtime.callFunctionOn",
            {
                "objectId": found["objects"]["objectId"],
                "functionDeclaration": "function () { return this.length }",
                "returnByValue": True,
            },
        )
        await send("Runtime.releaseObjectGroup", {"objectGroup": "counted"})
        return Kept(
            length["result"]["value"],
            counters["nodes"],
            counters["jsEventListeners"],
            round(heap["usedSize"] / 1e6, 1),
        )


def stays_flat(seen: list[Kept]) -> None:
    """After the first round nothing becomes more with each round."""
    first, last = seen[0], seen[-1]
    assert last.objects < first.objects + SLACK
    assert last.nodes < 1.2 * first.nodes + 500
    assert last.listeners < 1.2 * first.listeners + 50


async def find(page: Page, run: str) -> None:
    """Go to a run without loading the page again."""
    await page.get_by_role("textbox", name="Find a run").fill(run)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"/runs/{run}$"))
    await expect(page.get_by_role("heading", name="Story")).to_be_visible()


async def worker_heap_mb(page: Page) -> float:
    """What the worker holds that has the stream of all tabs."""
    browser = page.context.browser
    assert browser is not None
    devtools = await browser.new_browser_cdp_session()
    targets = (await devtools.send("Target.getTargets"))["targetInfos"]
    (target,) = [
        each["targetId"]
        for each in targets
        if each["type"] == "shared_worker" and each["url"].startswith(page.url[:20])
    ]
    session = (await devtools.send("Target.attachToTarget", {"targetId": target, "flatten": False}))["sessionId"]
    answers: asyncio.Queue[Any] = asyncio.Queue()
    devtools.on("Target.receivedMessageFromTarget", lambda got: answers.put_nowait(json.loads(got["message"])))

    async def send(number: int, method: str) -> Any:
        message = json.dumps({"id": number, "method": method, "params": {}})
        await devtools.send("Target.sendMessageToTarget", {"sessionId": session, "message": message})
        while (answer := await answers.get()).get("id") != number:
            pass
        return answer["result"]

    await send(1, "HeapProfiler.collectGarbage")
    used = (await send(2, "Runtime.getHeapUsage"))["usedSize"] / 1e6
    await devtools.detach()
    return round(used, 2)


async def test_a_list_of_runs_keeps_no_more_while_thousands_come_and_go(site: Site) -> None:
    await site.start("echo", "first", until="completed", value=0)
    watched = await Watched.at(site, "/")
    page = watched.page
    await page.get_by_role("link", name="first").wait_for()
    seen: list[Kept] = []
    worker: list[float] = []
    for part in range(ROUNDS):
        for first in range(0, RUNS, 100):
            runs = [
                {"workflow": "echo", "id": f"echo-{part}-{first + number}", "params": {"value": number}}
                for number in range(100)
            ]
            await site.get("/runs/batch", {"items": runs})
        await site.start("refund", f"refund-{part}", until="waiting", order=f"A-{part}", amount="1.00")
        views = page.get_by_role("group", name="Views")
        await expect(views).to_contain_text(f"Needs a person {part + 1}", timeout=60_000)
        seen.append(await watched.kept())
        worker.append(await worker_heap_mb(page))
    print(f"\nafter each {RUNS} runs: {seen}, worker {worker} MB")
    stays_flat(seen)
    assert worker[-1] < worker[0] + 1


async def test_a_run_that_reports_for_long_is_watched_in_the_same_memory(site: Site) -> None:
    await site.start("reindex", "watched", until="running", articles=LINES * (ROUNDS + 1))
    watched = await Watched.at(site, "/runs/watched")
    page = watched.page
    seen: list[Kept] = []
    for part in range(1, ROUNDS + 1):
        for number in range(LINES * (part - 1), LINES * part):
            site.allow(f"embed-{number}")
        await expect(page.get_by_text(f"{LINES * part:,} of").first).to_be_visible(timeout=60_000)
        seen.append(await watched.kept())
    print(f"\nafter each {LINES} reports: {seen}")
    stays_flat(seen)


async def test_what_a_page_keeps_of_a_run_follows_from_its_events_alone(site: Site) -> None:
    for number in range(5):
        await site.start("echo", f"echo-{number}", until="completed", value=number)
    watched = await Watched.at(site, "/runs/echo-0/timeline")
    page = watched.page
    before = await watched.kept()
    await site.start("stock_import", "long", articles=NODES)
    await find(page, "long")
    for key in "2345671":
        await page.keyboard.press(key)
        await expect(page.get_by_role("link", name=re.compile("^Events"))).to_contain_text(
            f"{3 * NODES + 3:,}", timeout=60_000
        )
        await is_loaded(page)
        if key == "4":
            await page.get_by_text(f"{3 * NODES + 3:,} events").wait_for()  # all of the log is there
    after = await watched.kept()
    events = 3 * NODES + 3
    print(f"\nbefore {before}, after {events} events {after}")
    assert after.objects < before.objects + OBJECTS_OF_EVENT * events
    assert after.nodes < before.nodes + 5_000
    for number in range(5):  # the logs of four runs are kept
        await find(page, f"echo-{number}")
    for _ in range(90):  # what the server answered is kept for a minute
        left = await watched.kept()
        if left.objects < before.objects + events / 2:
            break
        await asyncio.sleep(1)
    print(f"\nafter other runs {left}")
    assert left.objects < before.objects + events / 2


pytestmark = pytest.mark.soak
