"""The list of runs: its address, keys, selection, views, and what it says of the connection."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Page, expect

Site = Any


def row(page: Page, text: str) -> Any:
    return page.get_by_role("row").filter(has_text=text)


async def rows(page: Page, count: int) -> None:
    """The heading is a row too."""
    await expect(page.get_by_role("row")).to_have_count(1 + count)


async def fill(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", title="Order A-1", tags=["eu"], order="A-1", amount="12.50")
    await site.start("refund", "refund-2", until="waiting", title="Order A-2", tags=["us"], order="A-2", amount="99.00")
    await site.start("echo", "echo-1", until="completed", value=1)


async def test_the_filter_is_in_the_address(site: Site) -> None:
    await fill(site)
    page = await site.open("/", role="viewer")
    await rows(page, 3)
    await page.get_by_role("button", name="Status").click()
    await page.get_by_role("menuitemcheckbox", name="Waiting").click()
    await rows(page, 2)
    await page.keyboard.press("Escape")
    await page.get_by_label("Filter by text").fill("order a-2")
    await rows(page, 1)
    await expect(page).to_have_url(re.compile(r"\?text=order\+a-2&status=waiting$"))
    await page.reload()
    await rows(page, 1)
    await expect(page.get_by_label("Filter by text")).to_have_value("order a-2")
    await page.goto("/?tag=us&workflow=echo")
    await expect(page.get_by_text("No run matches this filter.")).to_be_visible()
    await expect(page.get_by_text("3 runs are hidden by it.")).to_be_visible()
    await page.get_by_role("button", name="Clear the filter").click()
    await rows(page, 3)
    await page.go_back()
    await expect(page.get_by_role("button", name="Remove the condition tag: us")).to_be_visible()
    await page.get_by_role("button", name="Remove the condition tag: us").click()
    await expect(row(page, "echo-1")).to_be_visible()


async def test_views_have_counts_and_can_be_kept(site: Site) -> None:
    await fill(site)
    page = await site.open("/", role="viewer")
    views = page.get_by_role("group", name="Views")
    await expect(views.get_by_role("button", name="All 3")).to_have_attribute("aria-pressed", "true")
    await views.get_by_role("button", name="Needs a person 2").click()
    await rows(page, 2)
    await page.get_by_label("Filter by text").fill("A-1")
    await rows(page, 1)
    await page.get_by_role("button", name="Save view").click()
    await page.get_by_label("Name").fill("Order one")
    await page.get_by_role("dialog").get_by_role("button", name="Save view").click()
    await views.get_by_role("button", name="All 3").click()
    await rows(page, 3)
    await views.get_by_role("button", name="Order one 1").click()
    await rows(page, 1)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("menuitemcheckbox", name="Tags").click()
    await page.keyboard.press("Escape")
    await page.reload()
    await rows(page, 1)
    await expect(page.get_by_role("columnheader", name="Tags")).to_have_count(0)


async def test_keys_move_select_and_open(site: Site) -> None:
    await fill(site)
    page = await site.open("/", role="operator")
    await rows(page, 3)
    for key in ("j", "j", "x", "Shift+J"):
        await page.keyboard.press(key)
    bar = page.get_by_role("region", name="Selected runs")
    await expect(bar).to_contain_text("2 selected")
    await expect(bar.get_by_role("button", name="Cancel 2")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(bar).to_have_count(0)
    await page.keyboard.press("/")
    await page.keyboard.type("refund-1")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/runs/refund-1$"))
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    await rows(page, 3)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/runs/echo-1$"))


async def test_a_run_that_no_longer_matches_stays_until_the_filter_changes(site: Site) -> None:
    await fill(site)
    page = await site.open("/?status=waiting", role="operator")
    await rows(page, 2)
    await row(page, "refund-1").get_by_role("checkbox").check()
    await site.get("/runs/refund-2/approve", {})
    await site.until("refund-2", "completed")
    await expect(row(page, "refund-2")).to_have_class(re.compile("opacity"))
    await expect(row(page, "refund-1").get_by_role("checkbox")).to_be_checked()
    await page.get_by_label("Filter by text").fill("Order")
    await rows(page, 1)


async def test_a_lost_connection_is_said_and_what_was_missed_is_caught_up(site: Site) -> None:
    await fill(site)
    page = await site.open("/", role="viewer")
    await rows(page, 3)
    port = int(site.server.address.rpartition(":")[2])
    site.kill()
    await expect(page.get_by_text("Reconnecting.")).to_be_visible()
    await expect(page.get_by_text("Not live")).to_be_visible()
    await rows(page, 3)
    site.begin(port=port)
    await expect(page.get_by_text("Live again.")).to_be_visible()
    await site.start("echo", "echo-2", until="completed", value=2)
    await page.get_by_role("button", name="Show it").click()
    await rows(page, 4)
    for tab in site.tabs:  # what could not be loaded meanwhile is no fault of the page
        tab.wrong[:] = [each for each in tab.wrong if "ERR_CONNECTION_REFUSED" not in each]


async def test_attributes_are_columns_conditions_and_an_order(site: Site) -> None:
    for order, customer, amount in (("A-1", "acme", "12.50"), ("A-2", "acme", "99.00"), ("B-1", "bolt", "7.00")):
        attributes = {"customer": customer, "total": float(amount)}
        params = {"order": order, "amount": amount}
        await site.get("/runs", {"workflow": "refund", "id": order, "params": params, "attributes": attributes})
        await site.until(order, "waiting")
    await site.start("echo", "echo-1", until="completed", value=1)
    page = await site.open("/", role="viewer")
    await rows(page, 4)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("menuitemcheckbox", name="total").click()
    await page.get_by_role("menuitemcheckbox", name="customer").click()
    await page.keyboard.press("Escape")
    await expect(row(page, "A-1")).to_contain_text("acme")
    heading = page.get_by_role("columnheader", name="total")
    await heading.get_by_role("button").click()
    await rows(page, 3)
    await expect(heading).to_have_attribute("aria-sort", "ascending")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("B-1")
    await heading.get_by_role("button").click()
    await expect(heading).to_have_attribute("aria-sort", "descending")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("A-2")
    await expect(page).to_have_url(re.compile(r"\?sort=-total$"))
    await page.get_by_role("button", name="Filter", exact=True).click()
    await page.get_by_role("menuitem", name="Attribute…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Attribute").fill("customer")
    await dialog.get_by_label("Value").fill("2026-12-01")
    await expect(dialog.get_by_text("Write the time with its zone")).to_be_visible()
    await dialog.get_by_label("Value").fill("acme")
    await page.keyboard.press("Enter")
    await rows(page, 2)
    await expect(page).to_have_url(re.compile(r"\?attribute=customer%3Dacme&sort=-total$"))
    await page.reload()
    await rows(page, 2)
    await page.get_by_role("button", name="Remove the condition customer=acme").click()
    await rows(page, 3)
    await page.set_viewport_size({"width": 820, "height": 700})  # the table is wider and moves inside its panel
    heads, first = [await page.get_by_role("row").nth(place).bounding_box() for place in (0, 1)]
    assert heads["y"] + heads["height"] <= first["y"] + 1
    await page.set_viewport_size({"width": 1280, "height": 860})
    await page.get_by_role("button", name="Created").click()
    await rows(page, 4)
    await row(page, "B-1").get_by_role("link").click()
    await page.get_by_role("link", name="customer bolt").click()
    await rows(page, 1)
    await expect(page).to_have_url(re.compile(r"\?attribute=customer%3Dbolt$"))
