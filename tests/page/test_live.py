"""The page follows the server by itself: in all tabs, in order, without taking anything from under the pointer."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Route, expect
from starlette.applications import Starlette
from starlette.routing import Mount

import outlast as ol
from outlast.http.server import Options, Server, config_of
from support.browser import Tab, new_context
from support.filled_shop import HOSTILE
from support.site import BOTH

Site = Any


@ol.workflow
async def prefixed() -> str:
    return "under a prefix"


@BOTH
async def test_ten_tabs_of_one_browser_agree_over_six_connections(site: Site) -> None:
    person = await site.person("operator")
    tabs = []
    for _ in range(10):
        tabs.append(await person.new_page())
        await tabs[-1].goto("/")
        await expect(tabs[-1].get_by_role("status").filter(has_text=re.compile("^Live$"))).to_be_visible()
    assert (await site.streams()) == 1
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="12.50")
    for tab in tabs:
        await expect(tab.get_by_role("link", name=re.compile("Inbox")).first).to_contain_text("1")
    await site.get("/runs/refund-1/approve", {})
    for tab in tabs:
        await expect(tab.get_by_role("link", name=re.compile("Inbox")).first).not_to_contain_text("1")
    await tabs[0].close()  # the others keep the stream
    await site.start("refund", "refund-2", until="waiting", order="A-2", amount="12.50")
    await expect(tabs[9].get_by_role("link", name=re.compile("Inbox")).first).to_contain_text("1")


async def test_the_lines_of_a_node_appear_as_they_are_written(site: Site) -> None:
    await site.start("reindex", "reindex-1", until="running", articles=4)
    page = await site.open("/runs/reindex-1/logs", role="viewer")
    for number in range(1, 5):
        await expect(page.get_by_text(f"embedded article {number}")).to_be_visible()
        await expect(page.get_by_text(f"embedded article {number + 1}")).to_have_count(0)
        site.allow(f"embed-{number}")
    await site.until("reindex-1", "completed")
    await expect(page.get_by_text(re.compile("embedded article"))).to_have_count(4)


async def test_new_runs_are_announced_and_move_nothing(site: Site) -> None:
    await site.start("echo", "echo-1", until="completed", value=1)
    page = await site.open("/", role="viewer")
    row = page.get_by_role("link", name=re.compile("echo-1")).first
    await row.hover()
    before = await row.bounding_box()
    await site.start("echo", "echo-2", until="completed", value=2)
    announced = page.get_by_role("button", name=re.compile("Show (it|them)"))
    await expect(announced).to_be_visible()
    await expect(page.get_by_role("link", name=re.compile("echo-2"))).to_have_count(0)
    assert await row.bounding_box() == before
    await announced.click()
    await expect(page.get_by_role("link", name=re.compile("echo-2")).first).to_be_visible()


async def test_a_page_that_is_older_than_the_server_loads_the_new_one_once(site: Site) -> None:
    page = await site.open("/workers?x=1", role="viewer")
    await page.get_by_role("heading", level=1).wait_for()

    async def older(route: Route) -> None:
        answer = await route.fetch()
        body = re.sub(r'(name="outlast-build" content=")\w+', r"\g<1>older", await answer.text())
        with suppress(Error):  # the page has been loaded again meanwhile
            await route.fulfill(response=answer, body=body)

    await page.route("**/workers*", older)
    loads: list[str] = []
    page.on("load", lambda: loads.append(page.url))
    await page.reload()
    await expect(page.get_by_text("A newer version of this page is there.")).to_be_visible()
    assert loads == 2 * [f"{site.server.address}/workers?x=1"], "it was loaded again once, and is older still"
    await page.unroute("**/workers*")
    await page.get_by_role("button", name="Reload").click()
    await expect(page.get_by_role("status").filter(has_text=re.compile("^Live$"))).to_be_visible()
    await expect(page.get_by_text("A newer version of this page is there.")).to_have_count(0)


async def test_a_run_named_and_filled_with_hostile_text_runs_nothing(site: Site) -> None:
    value = {HOSTILE: [HOSTILE, {"deep": HOSTILE}], "svg": "<svg onload=alert(3)>"}
    await site.start("echo", "echo-1", until="completed", title=HOSTILE, tags=[HOSTILE], value=value)
    await site.start("refund", "refund-1", until="waiting", title=HOSTILE, order=HOSTILE, amount="1.00")
    page = await site.open("/", role="operator")
    for path in (
        "/",
        *(f"/runs/echo-1{tab}" for tab in ("", "/timeline", "/graph", "/events", "/logs", "/values", "/branches")),
        "/runs/refund-1",
        "/inbox",
    ):
        await page.goto(path)
        await expect(page.get_by_text(re.compile("<img src=x")).first).to_be_visible()
        assert await page.locator("img[src=x], svg[onload]").count() == 0, path
        await asyncio.sleep(0.1)


async def test_mounted_under_a_prefix_the_page_works(browser: Browser, tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        app = ol.asgi(engine, insecure_local=True)
        async with app.lifespan():
            server = Server(config_of(Starlette(routes=[Mount("/outlast", app)]), Options(port=0)), app.state)
            serving = asyncio.create_task(server._serve())
            await server.listening.wait()
            await (await engine.start(prefixed.options(id="prefixed-1"))).result()
            address = f"http://127.0.0.1:{server.address[1]}"
            context = await new_context(browser, address)
            page = await context.new_page()
            tab = Tab(page, address)
            await page.goto("/outlast/")
            await page.get_by_role("link", name=re.compile("prefixed-1")).first.click()
            await expect(page).to_have_url(re.compile(r":\d+/outlast/runs/prefixed-1"))
            await page.reload()
            await expect(page.get_by_role("status").filter(has_text=re.compile("^Live$"))).to_be_visible()
            await expect(page.get_by_role("region", name="State of the run")).to_contain_text("under a prefix")
            assert tab.wrong == []
            await context.close()
            server.should_exit = True
            await serving


async def test_a_part_of_the_page_that_is_needed_while_the_server_is_away_is_shown_when_it_is_back(site: Site) -> None:
    await site.start("quotation", "quotation-1", until="completed", article="chair-9")
    page = await site.open("/runs/quotation-1", role="viewer")
    await expect(page.get_by_role("heading", name="Story")).to_be_visible()
    port = site.server.port
    site.kill()
    await page.get_by_role("link", name="Graph").click()
    await expect(page.get_by_role("status").filter(has_text="The server does not answer.")).to_contain_text(
        "What you opened is shown as soon as it does."
    )
    site.begin(port=port)
    await expect(page.get_by_label("Find a node")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^offer"))).to_be_visible()
    await page.get_by_role("link", name="Workers").click()
    await expect(page.get_by_text("1 worker alive")).to_be_visible()
    for tab in site.tabs:  # what could not be loaded meanwhile is no fault of the page
        tab.wrong[:] = [each for each in tab.wrong if "ERR_CONNECTION_REFUSED" not in each]
