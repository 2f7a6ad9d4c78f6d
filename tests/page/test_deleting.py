"""Runs are deleted on the page: one by its actions, several by the bar of selected runs."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import expect

Site = Any


async def test_a_run_is_deleted_after_a_confirmation_that_names_it(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="10.00")
    await site.get("/runs/refund-1/cancel", {})
    await site.until("refund-1", "cancelled")
    page = await site.open("/runs/refund-1", role="operator")
    await page.get_by_role("button", name="All actions").click()
    await expect(page.get_by_role("menuitem", name="Delete…")).to_have_count(0)
    page = await site.open("/runs/refund-1")
    await page.get_by_role("button", name="All actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    dialog = page.get_by_role("dialog", name="Delete refund-1?")
    await expect(dialog).to_contain_text("run refund-1 of refund")
    await expect(dialog.get_by_role("button", name="Keep the run")).to_be_focused()
    await dialog.get_by_role("textbox", name="Reason").fill("a test order")
    await dialog.get_by_role("button", name="Delete the run").click()
    await expect(page.get_by_text("refund-1 deleted", exact=True)).to_be_visible()
    await expect(page.get_by_text("Run refund-1 was deleted.")).to_be_visible()
    await expect(page.get_by_text(re.compile(r"It was deleted on .* by admin .*: a test order\."))).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("Run refund-1 was deleted.")).to_be_visible()
    await page.get_by_role("link", name="Show the runs").click()
    await expect(page.get_by_role("link", name="refund-1")).to_have_count(0)


async def test_a_run_that_can_be_resumed_is_deleted_only_when_that_is_ticked(site: Site) -> None:
    await site.start("invoice", "invoice-1", until="failed", customer="c-118", articles=["lamp-40"])
    page = await site.open("/runs/invoice-1")
    await page.get_by_role("button", name="All actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    dialog = page.get_by_role("dialog", name="Delete invoice-1?")
    await expect(dialog.get_by_role("button", name="Delete the run")).to_be_disabled()
    await dialog.get_by_label("Delete it although the run failed and can be resumed").check()
    await dialog.get_by_role("button", name="Delete the run").click()
    await expect(page.get_by_text("Run invoice-1 was deleted.")).to_be_visible()


async def test_selected_runs_are_deleted_together(site: Site) -> None:
    for number in (1, 2):
        await site.start("echo", f"echo-{number}", until="completed", value=number)
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="10.00")
    page = await site.open("/")
    await page.get_by_label(re.compile("Select all")).check()
    await page.get_by_role("region", name="Selected runs").get_by_role("button", name=re.compile("^More")).click()
    await page.get_by_role("menuitem", name=re.compile("^Delete…")).click()
    dialog = page.get_by_role("dialog", name="Delete 2 runs?")
    await expect(dialog).to_contain_text("This cannot be undone")
    await expect(dialog).to_contain_text("is waiting: cancel it first")
    await dialog.get_by_role("button", name="Delete 2 runs").click()
    await expect(page).to_have_url(re.compile("/bulk/"))
    await expect(page.get_by_text(re.compile("2 done|Done"))).not_to_have_count(0)
    await page.goto("/")
    await expect(page.get_by_role("link", name=re.compile("refund-1")).first).to_be_visible()
    await expect(page.get_by_role("link", name=re.compile("^echo-"))).to_have_count(0)
