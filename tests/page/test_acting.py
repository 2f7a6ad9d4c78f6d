"""Runs that failed, were interrupted, or went wrong are brought to their end on the page."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from playwright.async_api import Page, Route, expect

import outlast as ol
from support.filled_shop import quarter_close
from support.site import BOTH, CLAIM_S

Site = Any


def state_of(page: Page) -> Any:
    return page.get_by_role("region", name="State of the run")


@BOTH
async def test_a_run_whose_server_was_killed_is_held_and_resumed_by_the_button(site: Site) -> None:
    await site.start("reindex", "reindex-1", until="running", articles=2)
    page = await site.open("/runs/reindex-1", role="operator")
    await expect(state_of(page).get_by_text("Running")).to_be_visible()
    await expect(page.get_by_role("heading", name="Story")).to_be_visible()
    port = site.server.port
    site.kill()
    await expect(page.get_by_text("Not live").first).to_be_visible()
    if site.is_postgres:
        await asyncio.sleep(CLAIM_S + 1)  # nobody knows that the worker is dead before
    site.begin("--on-restart", "hold", port=port)
    await expect(page.get_by_role("status").filter(has_text=re.compile("^Live$"))).to_be_visible(timeout=40_000)
    await expect(state_of(page).get_by_text("Held", exact=True)).to_be_visible()
    site.allow("embed")
    await state_of(page).get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await expect(state_of(page).get_by_text("Completed", exact=True)).to_be_visible()
    assert (await site.get("/runs/reindex-1"))["result"] == 2


async def test_a_run_that_a_deployment_broke_is_moved_to_the_current_code(site: Site) -> None:
    await site.start("delivery", "delivery-1", until="waiting", order="o-7")
    port = site.server.port
    site.kill()
    site.allow("weighing")  # the next version of the code weighs first
    site.begin(port=port)
    page = await site.open("/runs/delivery-1", role="operator")
    await expect(state_of(page).get_by_text("Held", exact=True)).to_be_visible()
    await expect(state_of(page)).to_contain_text("weigh")
    await state_of(page).get_by_role("button", name="Resume").click()
    decide = page.get_by_role("dialog")
    await expect(decide).to_contain_text("its log does not fit it")
    await decide.get_by_role("button", name="Move to the current code").click()
    move = page.get_by_role("dialog", name=re.compile("^Move "))
    await expect(move).to_contain_text("A new branch begins")
    await move.get_by_role("button", name="Move the run").click()
    await expect(page.get_by_text("delivery-1 continues with the current code", exact=True)).to_be_visible()
    await state_of(page).get_by_role("button", name="Approve").click()
    await expect(state_of(page).get_by_text("Completed", exact=True)).to_be_visible()
    assert (await site.get("/runs/delivery-1"))["branch"] == 1


@BOTH
async def test_a_run_that_failed_is_understood_and_resumed(site: Site) -> None:
    await site.start("invoice", "invoice-1", until="failed", customer="c-118", articles=["lamp-40", "rug-17"])
    page = await site.open("/runs/invoice-1", role="operator")
    await expect(state_of(page)).to_contain_text("send_mail failed 2 times: relay.internal:587 refused the connection")
    await expect(page.get_by_text(re.compile(r"raise MailServerDown")).first).to_be_visible()
    site.allow("relay")
    await state_of(page).get_by_role("button", name="Resume").click()
    await expect(state_of(page).get_by_text("Completed", exact=True)).to_be_visible()


async def test_a_run_that_somebody_resumes_at_the_same_time_is_not_resumed_twice_and_says_why(site: Site) -> None:
    await site.start("invoice", "invoice-1", until="failed", customer="c-118", articles=["lamp-40"])
    page = await site.open("/runs/invoice-1", role="operator")
    site.allow("relay")

    async def later(route: Route) -> None:
        await site.get("/runs/invoice-1/resume", {})
        await site.until("invoice-1", "completed")
        await route.continue_()

    await page.route("**/runs/invoice-1/resume", later)
    async with page.expect_response("**/runs/invoice-1/resume") as answered:
        await state_of(page).get_by_role("button", name="Resume").click()
    answer = await answered.value
    assert answer.status == 409
    await expect(page.get_by_text("Not resumed")).to_be_visible()
    await expect(page.get_by_text((await answer.json())["detail"]).first).to_be_visible()
    events = (await site.get("/runs/invoice-1/events"))["events"]
    assert [each["type"] for each in events].count("RunCompleted") == 1


@BOTH
async def test_one_goes_back_with_another_input_and_compares(site: Site) -> None:
    await site.start("quotation", "quotation-1", until="completed", article="chair-9", amount=12)
    page = await site.open("/runs/quotation-1", role="operator")
    await page.get_by_role("button", name=re.compile("^Go back")).first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Place")).fill("quote")
    await dialog.get_by_label(re.compile("^amount")).fill("24")
    await dialog.get_by_label(re.compile("^Reason")).fill("twice as many")
    await dialog.get_by_role("button", name="Open branch 1").click()
    await expect(page.get_by_text("24 of chair-9 for 72; 9007199254740993, 1.10").first).to_be_visible()
    found = await site.get("/runs/quotation-1")
    assert (found["branch"], found["result"]) == (1, "24 of chair-9 for 72; 9007199254740993, 1.10")
    await page.goto("/runs/quotation-1/compare")
    await expect(page.get_by_text("12 of chair-9 for 36").first).to_be_visible()
    await expect(page.get_by_text("24 of chair-9 for 72").first).to_be_visible()


async def test_a_finding_of_the_doctor_is_repaired_after_a_dry_run(site: Site) -> None:
    await site.start("refund", "refund-1", until="waiting", order="A-1", amount="12.50")
    await site.sql("update head set closed = true where run = 'refund-1'")
    page = await site.open("/runs/refund-1", role="operator")
    await expect(page.get_by_text("G2").first).to_be_visible()
    before = (await site.get("/runs/refund-1"))["at"]
    await page.get_by_role("button", name="Repair G2").click()
    dialog = page.get_by_role("dialog")
    if await dialog.is_visible():
        await dialog.get_by_role("button", name="Repair G2").click()
    await expect(page.get_by_role("button", name="Repair G2")).to_have_count(0)
    assert "G2" not in [each["code"] for each in (await site.get("/runs/refund-1/doctor"))["findings"]]
    assert (await site.get("/runs/refund-1"))["at"] == before, "nothing is appended"


async def test_a_whole_filter_is_cancelled_and_each_run_has_its_result(site: Site) -> None:
    for number in range(12):
        await site.start("refund", f"refund-{number}", tags=["spring"], order=f"A-{number}", amount="1.00")
    await site.start("refund", "refund-other", until="waiting", order="B-1", amount="1.00")
    await site.start("echo", "echo-1", until="completed", tags=["spring"], value=1)
    for number in range(12):
        await site.until(f"refund-{number}", "waiting")
    page = await site.open("/?tag=spring", role="operator")
    await expect(page.get_by_text("refund-11").first).to_be_visible()
    await page.get_by_role("checkbox", name=re.compile("^Select all 13")).check()
    await page.get_by_role("region", name="Selected runs").get_by_role("button", name="Cancel 12").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("1 of 13 are skipped")
    await dialog.get_by_role("button", name="Cancel 12 runs").click()
    for result in ("Done 12", "Skipped 1", "Failed 0"):
        await expect(page.get_by_role("button", name=result)).to_be_visible()
    for number in range(12):
        await site.until(f"refund-{number}", "cancelled")
    assert (await site.get("/runs/refund-other"))["status"] == "waiting"
    assert (await site.get("/runs/echo-1"))["status"] == "completed"


async def test_a_run_of_an_unknown_workflow_says_so_as_a_fact(site: Site) -> None:
    async with ol.open(site.store, worker=False) as engine:
        await engine.start(quarter_close.options(id="close-1"), "2026-q3")
    page = await site.open("/", role="operator")
    await expect(page.get_by_text("No live worker knows").first).to_be_visible()
    await page.goto("/runs/close-1")
    await expect(state_of(page)).to_contain_text("No live worker knows quarter_close")
