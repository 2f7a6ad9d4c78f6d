"""Decisions about many questions, forms that are kept, tokens, and versions."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Route, expect

Site = Any


async def test_approvals_are_decided_together_once_and_what_was_decided_meanwhile_is_skipped(site: Site) -> None:
    for number in range(1, 4):
        await site.start("refund", f"refund-{number}", until="waiting", order=f"A-{number}", amount="10.00")
    page = await site.open("/inbox", role="operator")
    for number in range(1, 4):
        await page.get_by_label(re.compile(f"order A-{number}")).check()
    await page.route("**/api/v1/inbox*", lambda route: route.abort())  # the page does not learn of it
    await site.get("/runs/refund-2/reject", {})
    await site.until("refund-2", "completed")
    await page.get_by_role("button", name="Approve 3").dblclick()
    await expect(page.get_by_text("2 approved, 1 skipped")).to_be_visible()
    await page.unroute("**/api/v1/inbox*")
    assert (await site.until("refund-1", "completed"))["result"] == "paid 10.00 for A-1"
    assert (await site.until("refund-3", "completed"))["result"] == "paid 10.00 for A-3"
    bulk = [each for each in (await site.get("/runs"))["runs"] if each["workflow"] == "outlast.bulk"]
    assert len(bulk) == 1, "a double click acts once"
    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(page).to_have_url(re.compile(f"/bulk/{bulk[0]['run']}$"))
    await expect(page.get_by_text("run refund-2 ", exact=False).first).to_be_visible()
    await page.goto("/inbox?show=decided")
    await expect(page.get_by_role("cell", name="Approve 3 runs")).to_be_visible()
    await expect(page.get_by_role("cell", name="Refund 10.00 EUR for order A-2?")).to_be_visible()


async def test_the_header_fits_a_tablet(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="o-1", amount="10.00")
    page = await site.open("/", role="admin", width=820)
    await expect(page.get_by_role("navigation", name="Pages").get_by_text("1", exact=True)).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_a_half_filled_form_is_kept_and_null_empty_and_left_out_differ(site: Site) -> None:
    await site.start("supplier", "supplier-1", until="waiting", name="Nakamura")
    page = await site.open("/inbox?run=supplier-1&question=ask", role="operator")
    await page.get_by_role("textbox", name="Days").fill("30")
    await page.get_by_role("textbox", name="Limit").fill("123456789012345678901234567890.10")
    await page.reload()
    await expect(page.get_by_role("textbox", name="Limit")).to_have_value("123456789012345678901234567890.10")
    for choice, part in (("Nothing (null)", '"note": null'), ("Empty text", '"note": ""')):
        menus = page.get_by_role("button", name="What it is when it is empty")
        await menus.last.click()
        await page.get_by_role("menuitemradio", name=choice).click()
        await page.get_by_role("button", name="JSON").click()
        await expect(page.get_by_role("textbox", name=re.compile("as JSON"))).to_have_value(re.compile(re.escape(part)))
        await page.get_by_role("button", name="Form").click()
    await page.get_by_role("textbox", name="Days").press("Control+Enter")
    found = await site.until("supplier-1", "completed")
    assert found["result"] == "Nakamura: 30 days, at most 123456789012345678901234567890.10 EUR, ''"


async def test_a_token_is_shown_once_and_revoked(site: Site) -> None:
    page = await site.open("/tokens")
    await page.get_by_role("button", name="Create a token").click()
    await page.get_by_role("textbox", name="Name").fill("deploy")
    await page.get_by_role("button", name="Create the token").click()
    secret = await page.get_by_role("dialog").locator("pre").inner_text()
    assert secret.startswith("olt_")
    await page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
    assert secret not in await page.content()
    row = page.get_by_role("row").filter(has_text="deploy")
    await row.get_by_role("button", name="Revoke…").click()
    await page.get_by_role("button", name="Revoke the token").click()
    await expect(row).to_have_count(0)
    await page.goto("/audit")
    for action in ("create token", "revoke token"):
        await expect(page.get_by_role("row").filter(has_text=action)).to_contain_text("127.0.0.1")
    assert secret not in await page.content()


async def test_a_sign_in_at_a_provider_returns_to_the_page_that_was_asked_for(site: Site) -> None:
    page = await site.open("/sign-in?to=/workers", role="operator")
    await expect(page.get_by_role("link", name="Sign in with your provider")).to_have_count(0)

    async def as_with_a_provider(route: Route) -> None:
        answer = await route.fetch()
        meta = '<meta name="outlast-oidc" content="oidc/login"></head>'
        await route.fulfill(response=answer, body=(await answer.text()).replace("</head>", meta))

    await page.route("**/sign-in?to=/workers", as_with_a_provider)
    await page.route("**/oidc/login", lambda route: route.fulfill(status=303, headers={"Location": "/"}))
    await page.reload()
    await page.get_by_role("link", name="Sign in with your provider").click()
    await expect(page).to_have_url(re.compile("/workers$"))
    await page.goto("/")
    await expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
