"""People start runs, answer questions and decide, on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Route, expect

from support.site import BOTH

Site = Any


@BOTH
async def test_a_run_is_started_from_its_form_and_watched_to_its_end(site: Site) -> None:
    page = await site.open("/", role="operator")
    await page.get_by_role("link", name="Start a run").first.click()
    await page.get_by_role("link", name=re.compile("^reindex")).click()
    await page.get_by_label("Articles").fill("3")
    await page.get_by_label(re.compile("^Id")).fill("reindex-1")
    await page.get_by_role("button", name=re.compile("^Start")).click()
    await expect(page).to_have_url(re.compile(r"/runs/reindex-1"))
    state = page.get_by_role("region", name="State of the run")
    await expect(state.get_by_text("Running")).to_be_visible()
    await expect(page.get_by_text(re.compile("1 of 3")).first).to_be_visible()
    site.allow("embed-1")
    await expect(page.get_by_text(re.compile("2 of 3")).first).to_be_visible()
    site.allow("embed")
    await expect(state.get_by_text("Completed", exact=True)).to_be_visible()
    await expect(state).to_contain_text("3")


async def test_what_nobody_touched_in_a_form_stays_exact(site: Site) -> None:
    """Its default is an integer that a JavaScript number does not hold, and a decimal."""
    page = await site.open("/start/quotation", role="operator")
    await expect(page.get_by_label("big")).to_have_value("9007199254740993")
    await page.get_by_label("Article").fill("chair-9")
    await page.get_by_label(re.compile("^Id")).fill("quotation-1")
    await page.get_by_role("button", name=re.compile("^Start")).click()
    await expect(page).to_have_url(re.compile(r"/runs/quotation-1"))
    found = await site.until("quotation-1", "completed")
    assert found["result"] == "1 of chair-9 for 3; 9007199254740993, 1.10"
    await expect(page.get_by_text("9007199254740993, 1.10").first).to_be_visible()


async def test_a_run_is_created_for_later_in_a_queue_and_started_on_its_page(site: Site) -> None:
    page = await site.open("/start/quotation", role="operator")
    await page.get_by_label("Article").fill("chair-9")
    await page.get_by_label(re.compile("^Id")).fill("quotation-1")
    await page.get_by_label(re.compile("^Queue")).fill("1")
    await page.get_by_label(re.compile("^Priority")).fill("1000")
    await page.get_by_label(re.compile("^Fairness key")).fill("c-204")
    await page.get_by_label(re.compile("^Attributes")).fill("customer=acme")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="When I say so").click()
    await expect(page.get_by_text("2 fields are not right yet: Queue, Priority")).to_be_visible()
    await page.get_by_label(re.compile("^Queue")).fill("slow")
    await page.get_by_label(re.compile("^Priority")).fill("-5")
    await expect(page.get_by_text("--queue slow --priority -5 --fairness-key c-204 --no-start")).to_be_visible()
    await page.get_by_role("button", name="Create the run").click()
    await expect(page).to_have_url(re.compile(r"/runs/quotation-1"))
    state = page.get_by_role("region", name="State of the run")
    await expect(state).to_contain_text("It was created to be started later")
    await expect(page.get_by_text("priority -5")).to_be_visible()
    found = await site.get("/runs/quotation-1")
    assert (found["queue"], found["priority"], found["fairness_key"]) == ("slow", -5, "c-204")
    assert found["attributes"] == {"customer": "acme"}
    await state.get_by_role("button", name="Start").click()
    await expect(state.get_by_text("Completed", exact=True)).to_be_visible()


async def test_a_double_click_starts_one_run(site: Site) -> None:
    page = await site.open("/start/echo", role="operator")
    await page.get_by_label("Value").first.fill('"x"')
    await page.get_by_role("button", name=re.compile("^Start")).dblclick()
    await expect(page).to_have_url(re.compile(r"/runs/"))
    assert len((await site.get("/runs"))["runs"]) == 1


@BOTH
async def test_two_people_approve_and_reject(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="12.50")
    await site.start("refund", "refund-2", until="waiting", order="A-2", amount="49.90")
    page = await site.open("/inbox", role="operator")
    await page.get_by_text("Refund 12.50 EUR for order A-1?").first.click()
    await page.get_by_role("button", name="Approve").click()
    assert (await site.until("refund-1", "completed"))["result"] == "paid 12.50 for A-1"
    await page.get_by_text("Refund 49.90 EUR for order A-2?").first.click()
    await page.get_by_role("button", name="Reject…").click()
    await page.get_by_role("dialog").get_by_label("Comment").fill("it was paid in May")
    await page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    assert (await site.until("refund-2", "completed"))["result"] == "refused"
    await expect(page.get_by_text("Nothing waits for a person.")).to_be_visible()
    await page.get_by_role("button", name="Decided").click()
    await expect(page.get_by_role("row").filter(has_text="Refund 49.90 EUR")).to_contain_text("no“it was paid in May”")


@BOTH
async def test_a_form_is_answered_wrongly_and_then_rightly(site: Site) -> None:
    await site.start("supplier", "supplier-1", until="waiting", name="Nakamura")
    page = await site.open("/inbox", role="operator")
    await page.get_by_text("Which terms do we give Nakamura?").first.click()
    days, limit = page.get_by_label("Days"), page.get_by_label("Limit")
    await days.fill("soon")
    await limit.fill("0.10")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await expect(days).to_have_attribute("aria-invalid", "true")
    await expect(limit).to_have_value("0.10")
    assert (await site.get("/runs/supplier-1"))["status"] == "waiting"
    await days.fill("30")
    await page.get_by_role("button", name="Answer", exact=True).click()
    found = await site.until("supplier-1", "completed")
    assert found["result"] == "Nakamura: 30 days, at most 0.10 EUR, None"


async def test_an_approval_that_another_person_decided_first_is_refused_with_its_reason(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="12.50")
    page = await site.open("/inbox", role="operator")

    async def later(route: Route) -> None:
        await site.get("/runs/refund-1/reject", {})
        await route.continue_()

    await page.route("**/runs/refund-1/approve", later)
    async with page.expect_response("**/runs/refund-1/approve") as answered:
        await page.get_by_role("button", name="Approve").click()
    answer = await answered.value
    assert answer.status == 409
    await expect(page.get_by_text("Not approved")).to_be_visible()
    await expect(page.get_by_text((await answer.json())["detail"]).first).to_be_visible()
    assert (await site.until("refund-1", "completed"))["result"] == "refused"
