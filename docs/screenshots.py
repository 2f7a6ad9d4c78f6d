"""Writes docs/images/: every view of the page, light and dark, wide and narrow, from a store with runs in every state."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from support.browser import NARROW, WIDE, chromium, is_loaded, missing, picture
from support.filled_shop import RUN, fill
from support.site import Site

SETTLED_MS = 700
"""A tab of a run is loaded when it is first opened, and layouts are measured."""
IMAGES = Path(__file__).parent / "images"
VIEWS = {
    "runs": "/",
    "run-story": f"/runs/{RUN}",
    "run-timeline": f"/runs/{RUN}/timeline",
    "run-graph": f"/runs/{RUN}/graph",
    "run-events": f"/runs/{RUN}/events",
    "run-logs": f"/runs/{RUN}/logs",
    "run-values": f"/runs/{RUN}/values",
    "run-branches": "/runs/quotation-7/branches",
    "run-held": "/runs/payout-2026-w46",
    "compare": "/runs/quotation-7/compare",
    "start": "/start/quotation",
    "inbox": "/inbox",
    "workflows": "/workflows",
    "workflow": "/workflows/invoice",
    "workers": "/workers",
    "sweeper": "/sweeper",
    "audit": "/audit",
    "tokens": "/tokens",
    "settings": "/settings",
}


async def main() -> None:
    if reason := missing():
        sys.exit(reason)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        async with chromium() as browser:
            site = await asyncio.to_thread(Site, browser, Path(name), str(Path(name) / "runs.db"))
            try:
                await fill(site)
                page = await site.open("/")
                for view, path in VIEWS.items():
                    for width, height in ((WIDE, 1000), (NARROW, 860)):
                        await page.set_viewport_size({"width": width, "height": height})
                        await page.goto(path)
                        await is_loaded(page)
                        await page.wait_for_timeout(SETTLED_MS)
                        for theme in ("light", "dark"):
                            await page.emulate_media(color_scheme=theme)
                            suffix = ("-dark" if theme == "dark" else "") + (f"-{width}" if width == NARROW else "")
                            await picture(page, IMAGES / f"{view}{suffix}.png")
            finally:
                await site.close()
    print(f"{len(list(IMAGES.glob('*.png')))} pictures in {IMAGES}")


if __name__ == "__main__":
    asyncio.run(main())
