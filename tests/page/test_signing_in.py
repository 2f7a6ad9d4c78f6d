"""Who may see the page, and how one comes in."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import expect

from support.server_process import new_credential
from support.site import BOTH

Site = Any


async def test_somebody_who_is_signed_out_sees_nothing_and_comes_back_to_the_address(site: Site) -> None:
    await site.start("echo", "echo-1", until="completed", value="a secret of the shop")
    page = await site.open("/runs/echo-1/events?branch=0", role=None)
    await expect(page.get_by_role("heading", name="You are signed out.")).to_be_visible()
    assert "a secret of the shop" not in await page.content()
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("One-time link or code").fill("oli_0000000000000000_" + "A" * 43)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("This link is unknown, expired or already used.")).to_be_visible()
    await page.get_by_label("One-time link or code").fill(await new_credential(site.store, "sign-in", "viewer"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(re.compile(r"/runs/echo-1/events\?branch=0$"))
    await expect(page.get_by_text("a secret of the shop").first).to_be_visible()


async def test_the_link_of_the_first_start_signs_in(site: Site) -> None:
    code = await new_credential(site.store, "sign-in", "admin")
    page = await site.open(f"/sign-in#{code}", role=None)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    assert code not in page.url
    await page.go_back()
    assert code not in page.url


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"])
async def test_a_sign_in_returns_to_no_other_site(site: Site, to: str) -> None:
    code = await new_credential(site.store, "sign-in", "viewer")
    page = await site.open(f"/sign-in?to={to}#{code}", role=None)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("navigation", name="Pages").first.wait_for()
    assert page.url.startswith(site.server.address)


@BOTH
async def test_an_open_page_is_covered_when_its_session_ends(site: Site) -> None:
    await site.start("echo", "echo-1", until="completed", title="a secret of the shop", value=1)
    page = await site.open("/", role="operator")
    await expect(page.get_by_text("a secret of the shop")).to_be_visible()
    await site.end_session("operator")
    # A stream looks at its credential every 10 s, and a server keeps what it has found for 5 s.
    await expect(page.get_by_role("heading", name="You are signed out.")).to_be_visible(timeout=30_000)
    assert "a secret of the shop" not in await page.content()
    await page.go_back()
    assert "a secret of the shop" not in await page.content()


async def test_signing_out_covers_all_tabs_of_the_browser(site: Site) -> None:
    person = await site.person("operator")
    tabs = [await person.new_page() for _ in range(2)]
    for tab in tabs:
        await tab.goto("/")
        await expect(tab.get_by_role("status").filter(has_text="Live")).to_be_visible()
    await tabs[0].get_by_role("button", name=re.compile("operator")).click()
    await tabs[0].get_by_role("menuitem", name="Sign out").click()
    for tab in tabs:
        await expect(tab.get_by_role("heading", name="You are signed out.")).to_be_visible(timeout=30_000)


async def test_a_viewer_sees_no_action(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="12.50")
    await site.start("invoice", "invoice-1", until="failed", customer="c-1", articles=["lamp-40"])
    verbs = re.compile(
        r"^(Approve|Reject|Answer|Resume|Retry|Pause|Cancel|Go back|Fork|Repair|Delete|Start|Sweep|Create|Revoke)\b"
    )
    page = await site.open("/", role="viewer")
    await expect(page.get_by_text("refund-1").first).to_be_visible()
    for path in (
        "/",
        "/runs/refund-1",
        "/runs/invoice-1",
        "/runs/invoice-1/events",
        "/inbox",
        "/workflows",
        "/workers",
    ):
        await page.goto(path)
        await page.get_by_role("heading", level=1).first.wait_for()
        await asyncio.sleep(0.3)  # what is allowed is asked after what is shown
        for role in ("button", "link", "menuitem"):
            found = [await each.inner_text() for each in await page.get_by_role(role, name=verbs).all()]
            assert found == [], (path, found)
    for path in ("/tokens", "/start/quotation"):
        await page.goto(path)
        await expect(page.get_by_text("Your role, viewer, cannot do this.")).to_be_visible()
