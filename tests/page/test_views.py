"""Every view, in both themes and at both widths: readable, within its boxes, with names for all that can be pressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.async_api import Page

from support.browser import NARROW, WIDE, Theme, is_loaded
from support.filled_shop import RUN, fill
from support.sampling import share

Site = Any
LIGHT: Theme = "light"
DARK: Theme = "dark"
EACH_LAYOUT = ((LIGHT, WIDE), (DARK, NARROW))
"""The names, the order, the marks and the boxes of a page do not depend on the theme, nor colours on the width."""
OTHERS = ((DARK, WIDE), (LIGHT, NARROW))
VIEWS = (
    "/",
    f"/runs/{RUN}",
    f"/runs/{RUN}/timeline",
    f"/runs/{RUN}/graph",
    f"/runs/{RUN}/events",
    f"/runs/{RUN}/logs",
    f"/runs/{RUN}/values",
    "/runs/quotation-7/branches",
    "/runs/quotation-7/compare",
    "/runs/payout-2026-w46",
    "/runs/echo-1",
    "/runs/close-2026-q3",
    "/runs/reindex-8",
    "/start",
    "/start/quotation",
    "/inbox",
    "/workflows",
    "/workflows/invoice",
    "/workers",
    "/sweeper",
    "/audit",
    "/tokens",
    "/settings",
    "/sign-in",
    "/runs/there-is-none",
    "/inbox/there-is-none",
)
CHECKS = Path(__file__).with_name("checks.js").read_text()
RUN_AXE = """async (rules) => {
  const only = rules.length ? { runOnly: rules } : {};
  return (await axe.run({ resultTypes: ["violations"], ...only })).violations;
}"""
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


async def violations(page: Page, *rules: str) -> list[str]:
    """What axe finds, by all of its rules or by these."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(f"() => {{ {AXE} }}")
    found = await page.evaluate(RUN_AXE, list(rules))
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("views", [VIEWS[::2], VIEWS[1::2]], ids=["even", "odd"])
async def test_each_view_is_readable_at_both_widths_and_in_both_themes(site: Site, views: tuple[str, ...]) -> None:
    await fill(site)
    found: list[str] = []
    also = share(VIEWS, 4, "views in each theme at each width")
    page = await site.open("/")
    for path in views:
        await page.goto(path)
        await is_loaded(page)
        for theme, width in (*EACH_LAYOUT, *(OTHERS if path in also else ())):
            await page.emulate_media(color_scheme=theme)
            await page.set_viewport_size({"width": width, "height": 860})
            where = f"{path}, {theme}, {width} px: "
            seen = await page.evaluate(CHECKS)
            seen += await violations(page, *(() if (theme, width) in EACH_LAYOUT else ("color-contrast",)))
            found += [where + each for each in seen]
    assert not found, "\n".join(found)
